"""Pretrained CLIP models come in from open_clip and Hugging Face, and see and read what they saw and read there."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from foreign_clips import SIZE, WORDS, hugging_face_folder, open_clip_model, pairs
from PIL import Image
from safetensors.torch import load_file, save_file
from torch import Tensor

from muc import config, opening, runs
from muc.data import ImageSet
from muc.errors import UserError
from muc.evaluation.pairs import embed_images, embed_texts
from muc.evaluation.records import evaluate_runs
from muc.methods import METHODS
from muc.models import CLIP, importing
from muc.models.clip_naming import STYLES, ClipNaming
from muc.models.exporting import export_run
from muc.models.importing import import_run
from muc.recipes import recipe
from muc.run_folder import RunFolder
from muc.runtime import Runtime

pytest.importorskip("open_clip")
CALM = config.Runtime(device="cpu", threads=1)


@pytest.fixture(autouse=True)
def images(monkeypatch: pytest.MonkeyPatch) -> ImageSet:
    found = pairs()
    for module in (opening, importing):
        monkeypatch.setattr(module, "load_images", lambda _, **__: found)
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("transformers")
    made = tmp_path_factory.mktemp("hf") / "tiny-clip"
    made.mkdir()
    hugging_face_folder(made)
    return made


def settings(architecture: str = "open_clip/RN50") -> config.Pretraining:
    found = recipe("some-pairs", "clip")
    few = replace(found.optimisation, epochs=2, batch_size=8, warmup_epochs=1.0)
    return replace(found, model=replace(found.model, architecture=architecture), optimisation=few)


def taken(file: Path, out: Path, architecture: str = "open_clip/RN50") -> tuple[RunFolder, CLIP, Any]:
    run, summary = import_run(file, settings(architecture), out, CALM)
    model = opening.open_model(run, pairs())
    assert isinstance(model, CLIP)
    return run, model, summary


def seen(model: CLIP, images: ImageSet) -> Tensor:
    return embed_images(model, images.train, Runtime(CALM))


def read(model: CLIP, texts: tuple[str, ...] = WORDS) -> Tensor:
    return embed_texts(model, model.tokenise(texts), Runtime(CALM))


def unit(x: Any) -> Tensor:
    x = x if isinstance(x, Tensor) else x.pooler_output
    return torch.nn.functional.normalize(x.detach(), dim=-1)


def pictures(images: ImageSet) -> list[Image.Image]:
    return [Image.fromarray(pixels.transpose(1, 2, 0)) for pixels in images.train]


@pytest.mark.parametrize(("activation", "fast_tokenizer"), [("quick_gelu", False), ("gelu", True)])
def test_a_hugging_face_model_sees_and_reads_the_same(
    tmp_path: Path, images: ImageSet, activation: str, fast_tokenizer: bool
) -> None:
    transformers = pytest.importorskip("transformers")
    (tmp_path / "hf").mkdir()
    theirs = hugging_face_folder(tmp_path / "hf", activation, fast_tokenizer)
    run, ours, summary = taken(tmp_path / "hf", tmp_path / "run")
    processor = transformers.CLIPImageProcessor.from_pretrained(tmp_path / "hf")
    tokenizer = transformers.CLIPTokenizer.from_pretrained(tmp_path / "hf")
    with torch.no_grad():
        pixels = processor(pictures(images), return_tensors="pt")["pixel_values"]
        expected = unit(theirs.get_image_features(pixel_values=pixels))
        tokens = tokenizer(list(WORDS), padding=True, return_tensors="pt")
        expected_texts = unit(theirs.get_text_features(**tokens))
    torch.testing.assert_close(seen(ours, images), expected, atol=1e-5, rtol=0)
    torch.testing.assert_close(read(ours), expected_texts, atol=1e-5, rtol=0)
    assert float(ours.log_scale.detach()) == pytest.approx(3.1)
    assert (summary.style, summary.fresh, summary.ignored) == ("hugging face", (), ())
    assert run.config()["pretraining"]["model"]["architecture"] == "open_clip/hf"


def test_it_goes_back_as_it_came_and_hugging_face_loads_it(tmp_path: Path, folder: Path, images: ImageSet) -> None:
    transformers = pytest.importorskip("transformers")
    run, model, _ = taken(folder, tmp_path / "run")
    out = export_run(run, "safetensors", tmp_path / "back.safetensors")
    back, original = load_file(out), load_file(folder / "model.safetensors")
    assert back.keys() == original.keys()
    assert all(torch.equal(back[key], original[key]) for key in back)
    with torch.no_grad():
        model.log_scale.fill_(1.0)
    for name in ("config.json", "preprocessor_config.json"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    out.rename(tmp_path / "model.safetensors")
    loaded = transformers.CLIPModel.from_pretrained(tmp_path, local_files_only=True).eval()
    assert all(torch.equal(value, original[key]) for key, value in loaded.state_dict().items())


@pytest.mark.parametrize("form", ["open_clip", "open_clip custom text", "wrapped checkpoint", "resnet"])
def test_open_clips_weights_see_and_read_the_same(tmp_path: Path, images: ImageSet, form: str) -> None:
    import open_clip
    from open_clip.transform import PreprocessCfg, image_transform_v2

    changes: dict[str, Any] = {"quick_gelu": True}
    if form == "open_clip custom text":
        changes["custom_text"] = True
    if form == "resnet":
        changes["vision_cfg"] = {"image_size": 32, "layers": [1, 1, 1, 1], "width": 8, "patch_size": None}
        images = pairs(32)
    name = f"tiny-{form.replace(' ', '-')}"
    theirs = open_clip_model(tmp_path / "configs", name, **changes)
    prefix = "module." if form == "wrapped checkpoint" else ""
    state = {prefix + key: value for key, value in theirs.state_dict().items()}
    file = tmp_path / ("weights.pt" if prefix else "weights.safetensors")
    torch.save({"epoch": 3, "state_dict": state}, file) if prefix else save_file(state, file)
    with pytest.MonkeyPatch.context() as patch:
        for module in (opening, importing):
            patch.setattr(module, "load_images", lambda _, **__: images)
        run, summary = import_run(file, settings(f"open_clip/{name}"), tmp_path / "run", CALM)
        ours = opening.open_model(run, images)
    assert isinstance(ours, CLIP)
    transform = image_transform_v2(PreprocessCfg(**theirs.visual.preprocess_cfg), is_train=False)
    with torch.no_grad():
        expected = unit(theirs.encode_image(torch.stack([transform(picture) for picture in pictures(images)])))
        expected_texts = unit(theirs.encode_text(open_clip.get_tokenizer(name)(list(WORDS))))
    torch.testing.assert_close(seen(ours, images), expected, atol=1e-5, rtol=0)
    torch.testing.assert_close(read(ours), expected_texts, atol=1e-5, rtol=0)
    assert float(ours.log_scale.detach()) == pytest.approx(2.5)
    assert summary.prefix == prefix
    back = load_file(export_run(run, "safetensors", tmp_path / "back.safetensors"))
    assert back.keys() == state.keys()
    assert all(torch.equal(back[key], state[key]) for key in back)


def test_everything_works_on_an_imported_model(tmp_path: Path, folder: Path, images: ImageSet) -> None:
    """Six methods, evaluation and export, from the run's folder alone."""
    original, before, _ = taken(folder, tmp_path / "original")
    request = config.Request(forget_fraction=0.25)
    served = []
    for name, kind in METHODS.items():
        method = replace(kind(), epochs=1, learning_rate=1e-3)
        served.append(runs.unlearn_run(original, method, request, tmp_path / name, CALM))
    records = evaluate_runs([original, *served], served[0], CALM)
    assert [r["method"] for r in records] == ["retrain", "pretrain", *list(METHODS)[1:]]
    assert records[1]["metrics"]["FS"] == 0
    assert all(np.isfinite(r["metrics"]["unlearn_similarity"]) for r in records)
    forgotten = opening.open_model(served[-1], images)
    assert isinstance(forgotten, CLIP)
    again = tmp_path / "again"  # the unlearned weights in the folder they came from
    again.mkdir()
    for file in folder.iterdir():
        (again / file.name).write_bytes(file.read_bytes())
    export_run(served[-1], "safetensors", again / "model.safetensors", force=True)
    _, back, _ = taken(again, tmp_path / "back")
    assert torch.equal(seen(back, images), seen(forgotten, images))
    assert not torch.equal(seen(forgotten, images), seen(before, images))


def test_the_image_tower_runs_as_onnx(tmp_path: Path, folder: Path, images: ImageSet) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    run, model, _ = taken(folder, tmp_path / "run")
    session = onnxruntime.InferenceSession(export_run(run, "onnx", tmp_path / "tower.onnx").read_bytes())
    about = json.loads(session.get_modelmeta().custom_metadata_map["muc"])["input"]
    assert about["mean"] == [0.4, 0.5, 0.6]
    mean, std = (np.array(about[key], np.float32)[:, None, None] for key in ("mean", "std"))
    pixels = ((images.train / 255 - mean) / std).astype(np.float32)
    (features,) = session.run(None, {"images": pixels})
    torch.testing.assert_close(unit(torch.from_numpy(features)), seen(model, images), atol=1e-5, rtol=0)


@pytest.mark.parametrize("style", STYLES)
def test_renaming_there_and_back_changes_nothing(style: Any) -> None:
    random = torch.Generator().manual_seed(0)
    layer = {"attn.in_proj_weight": (12, 4), "attn.in_proj_bias": (12,), "mlp.c_fc.weight": (8, 4), "ln_1.bias": (4,)}
    sizes = {
        f"{t}.tower.transformer.resblocks.{i}.{k}": s
        for t in ("backbone", "text")
        for i in (0, 11)
        for k, s in layer.items()
    }
    sizes |= {
        "backbone.tower.proj": (4, 3),
        "text.tower.text_projection": (4, 3),
        "backbone.tower.ln_pre.weight": (4,),
        "log_scale": (),
    }
    ours = {key: torch.randn(shape, generator=random) for key, shape in sizes.items()}
    naming = ClipNaming("module.", style)
    theirs = naming.outward(ours)
    assert len(theirs) == sum(len(naming.keys(key)) for key in ours)
    assert all(key.startswith("module.") for key in theirs)
    assert all(torch.equal(naming.inward(key, theirs), value) for key, value in ours.items())
    if style == "hugging face":
        stacked = ours["text.tower.transformer.resblocks.11.attn.in_proj_weight"]
        assert torch.equal(theirs["module.text_model.encoder.layers.11.self_attn.k_proj.weight"], stacked[4:8])
        assert torch.equal(theirs["module.visual_projection.weight"], ours["backbone.tower.proj"].T)


def rewrite(file: Path, change: Callable[[dict[str, Any]], None]) -> None:
    values = json.loads(file.read_text())
    change(values)
    file.write_text(json.dumps(values))


def swap_merges(folder: Path) -> None:
    lines = (folder / "merges.txt").read_text().split("\n")
    lines[1], lines[2] = lines[2], lines[1]
    (folder / "merges.txt").write_text("\n".join(lines))


def add_tensor(folder: Path, key: str, value: Tensor) -> None:
    save_file({**load_file(folder / "model.safetensors"), key: value}, folder / "model.safetensors")


FAULTS: dict[str, tuple[Callable[[Path], Any], str]] = {
    "a pickle only": (lambda f: (f / "model.safetensors").rename(f / "pytorch_model.bin"), "has no model.safetensors"),
    "no tokenizer": (lambda f: (f / "merges.txt").unlink(), "has no tokenizer"),
    "other tokens": (lambda f: rewrite(f / "vocab.json", lambda v: v.update(cat=0)), "another vocabulary"),
    "other merges": (swap_merges, "in another order"),
    "another kind": (lambda f: rewrite(f / "config.json", lambda v: v.update(model_type="blip")), "of type 'blip'"),
    "an activation": (
        lambda f: rewrite(f / "config.json", lambda v: v["text_config"].update(hidden_act="relu")),
        "activations quick_gelu, relu",
    ),
    "another size": (
        lambda f: rewrite(f / "config.json", lambda v: v["vision_config"].update(hidden_size=48)),
        "does not fit: .* is .*, not",
    ),
    "one layer more": (
        lambda f: add_tensor(f, "text_model.encoder.layers.2.layer_norm1.bias", torch.zeros(24)),
        "layers.2.layer_norm1.bias' has no place",
    ),
    "not a number": (lambda f: add_tensor(f, "logit_scale", torch.tensor(float("nan"))), "NaN or infinite"),
    "no JSON": (lambda f: (f / "config.json").write_text("{"), "cannot be read as JSON"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_folder_that_would_be_misread_is_refused(tmp_path: Path, folder: Path, fault: str) -> None:
    broken = tmp_path / "broken"
    broken.mkdir()
    for file in folder.iterdir():
        (broken / file.name).write_bytes(file.read_bytes())
    change, said = FAULTS[fault]
    change(broken)
    with pytest.raises(UserError, match=said):
        import_run(broken, settings(), tmp_path / "run", CALM)
    assert not (tmp_path / "run").exists()


def test_images_of_another_size_are_refused(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importing, "load_images", lambda _, **__: pairs(4 * SIZE))
    with pytest.raises(UserError, match=r"reads images of 16 pixels and these have 64; give --image-size 16"):
        import_run(folder, settings(), tmp_path / "run", CALM)


def test_what_is_needed_is_said(tmp_path: Path, images: ImageSet, monkeypatch: pytest.MonkeyPatch) -> None:
    save_file({"logit": torch.zeros(2)}, tmp_path / "file.safetensors")
    with pytest.raises(UserError, match="give --architecture open_clip/NAME"):
        import_run(tmp_path / "file.safetensors", settings("mlp"), tmp_path / "run", CALM)
    open_clip_model(tmp_path / "configs", "tiny-needed")
    with pytest.raises(UserError, match="has no 'logit_scale'"):
        import_run(tmp_path / "file.safetensors", settings("open_clip/tiny-needed"), tmp_path / "run", CALM)
    monkeypatch.setattr(importing, "load_images", lambda _, **__: replace(images, train_captions=(), test_captions=()))
    with pytest.raises(UserError, match="has no captions"):
        import_run(tmp_path / "file.safetensors", settings("open_clip/tiny-needed"), tmp_path / "run", CALM)
