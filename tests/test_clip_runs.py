"""Image-text pairs through the commands: every method works on CLIP as on any model, and resumes to the same bits."""

import json
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

import muc
from muc import config, demo, opening, runs, train
from muc.__main__ import main
from muc.config import Request
from muc.data import ImageSet, from_pairs
from muc.errors import Interrupted, UserError
from muc.evaluation.pairs import embed_pairs
from muc.methods import METHODS, AlignmentCalibration, Method, recipes
from muc.methods.recipes import default_method, search_ranges
from muc.models import CLIP
from muc.optimiser import rate_at
from muc.recipes import recipe
from muc.run_folder import RunFolder
from muc.runtime import Runtime

CALM = config.Runtime(device="cpu", threads=1)
REQUEST = Request(forget_fraction=0.25)
SETTINGS = replace(
    recipe("glyph-pairs", "clip"),
    model=config.Model(
        "clip", "mlp", temperature=0.07, projection_dim=16, text_width=16, text_layers=1, text_context=8
    ),
    optimisation=config.Optimisation(
        epochs=3, batch_size=16, learning_rate=3e-3, optimiser="adamw", weight_decay=0.1, warmup_epochs=1.5
    ),
)


def some_pairs(n: int, seed: int) -> list[tuple[np.ndarray, list[str]]]:
    random = np.random.default_rng(seed)
    words = ["".join(map(chr, random.integers(97, 123, 6))) for _ in range(n)]
    return [
        (random.integers(0, 256, (1, 8, 8), dtype=np.uint8), [w, w[::-1]][: 1 + i % 2]) for i, w in enumerate(words)
    ]


@pytest.fixture(scope="module")
def images() -> ImageSet:
    return from_pairs(some_pairs(54, 0), some_pairs(20, 1))


@pytest.fixture(autouse=True)
def _our_pairs(images: ImageSet, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Runs find these pairs instead of drawing the glyphs anew each time."""
    if "glyphs" not in request.node.name:
        for module in (runs, opening):
            monkeypatch.setattr(module, "load_images", lambda _, **__: images)


@contextmanager
def impatience() -> Generator[Callable[[], bool]]:
    yield lambda: True


def stopped_after_every_step(work: Callable[[], RunFolder], run: RunFolder) -> int:
    """-> how often it was stopped until it was done."""
    stops = 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(train, "interrupts", impatience)
        while not run.done:
            try:
                runs.resume_run(run) if run.started else work()
            except Interrupted:
                stops += 1
    return stops


def assert_same_bits(run: RunFolder, whole: RunFolder) -> None:
    assert run.result()["model_sha256"] == whole.result()["model_sha256"]
    assert [line["loss"] for line in run.metrics()] == [line["loss"] for line in whole.metrics()]
    assert [line["learning_rate"] for line in run.metrics()] == [line["learning_rate"] for line in whole.metrics()]


def test_a_pretraining_stopped_after_every_step_ends_with_the_same_bits(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "run")
    assert stopped_after_every_step(lambda: runs.pretrain_run(SETTINGS, run.path, CALM), run) == 3 * 3
    assert_same_bits(run, runs.pretrain_run(SETTINGS, tmp_path / "whole", CALM))


@pytest.fixture(scope="module")
def original(images: ImageSet, tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """Trained until it has memorised its pairs."""
    longer = replace(SETTINGS, optimisation=replace(SETTINGS.optimisation, epochs=60))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runs, "load_images", lambda _, **__: images)
        return runs.pretrain_run(longer, tmp_path_factory.mktemp("clip") / "original", CALM)


@pytest.mark.parametrize(
    "method",
    [
        *(kind(epochs=1, learning_rate=1e-3) for name, kind in METHODS.items() if name != "alignment_calibration"),
        *(AlignmentCalibration(epochs=1, learning_rate=1e-3, reading=reading) for reading in ("equations", "compat")),
    ],
    ids=lambda method: opening.method_name(method) + getattr(method, "reading", ""),
)
def test_every_method_stopped_after_every_step_ends_with_the_same_bits(
    tmp_path: Path, original: RunFolder, method: Method
) -> None:
    run = RunFolder(tmp_path / "run")
    assert stopped_after_every_step(lambda: runs.unlearn_run(original, method, REQUEST, run.path, CALM), run)
    assert_same_bits(run, runs.unlearn_run(original, method, REQUEST, tmp_path / "whole", CALM))


class Measured:
    """What a run makes of the pairs of the request."""

    def __init__(self, run: RunFolder, images: ImageSet, served: RunFolder) -> None:
        model, split = opening.open_model(run, images), served.split()
        assert isinstance(model, CLIP)
        self.norm = float(sum(p.detach().abs().sum() for p in model.parameters()))
        self.retain, _ = self.look(model, images, split.retain)
        self.unlearn, self.between = self.look(model, images, split.unlearn)

    def look(self, model: CLIP, images: ImageSet, rows: np.ndarray) -> tuple[float, float]:
        """Mean cosine of pairs, and of an image with another pair's caption."""
        found = embed_pairs(model, images.train[rows], [images.train_captions[i][:1] for i in rows], Runtime(CALM))
        cosine: Tensor = found.images @ found.texts.T
        n = len(cosine)
        return float(cosine.diagonal().mean()), float((cosine.sum() - cosine.diagonal().sum()) / (n * (n - 1)))


@pytest.mark.parametrize("name", METHODS)
def test_every_method_does_to_pairs_what_it_says(
    tmp_path: Path, images: ImageSet, original: RunFolder, name: str
) -> None:
    method = replace(METHODS[name](), epochs=30 if name == "retrain" else 10, learning_rate=1e-3)
    if name == "alignment_calibration":
        method = replace(method, beta=0.3)
    elif name == "l1_sparsity":
        method = replace(method, l1=1e-2)
    run = runs.unlearn_run(original, method, REQUEST, tmp_path / "run", CALM)
    before, after = Measured(original, images, run), Measured(run, images, run)
    assert before.retain > 0.8
    assert before.unlearn > 0.8
    match name:
        case "retrain":
            assert after.retain > 0.7
            assert after.unlearn < 0.3
        case "finetune":
            assert after.retain > before.retain - 0.05
            assert after.unlearn < before.unlearn
        case "gradient_ascent":
            assert after.unlearn < before.unlearn - 0.1
        case "neggrad":
            assert after.unlearn < before.unlearn - 0.1
            assert after.retain - after.unlearn > before.retain - before.unlearn + 0.1
        case "l1_sparsity":
            assert after.norm < before.norm
        case "alignment_calibration":
            assert after.unlearn < before.unlearn - 0.3
            assert after.between > before.between + 0.1
            assert after.retain > 0.6


def test_the_temperature_is_learnt_and_saved(original: RunFolder) -> None:
    scale = original.load_model()["log_scale"]
    assert abs(float(scale) - np.log(1 / 0.07)) > 1e-3


def test_pairs_in_python(images: ImageSet) -> None:
    torch.manual_seed(0)
    tower = muc.ByteTransformer(width=16, layers=1, context=8)
    encoder = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 16))
    model = muc.pretrain(muc.CLIP(encoder, 16, tower, projection_dim=8), images, SETTINGS.optimisation, runtime=CALM)
    request = [3, 5, 8]
    method = muc.AlignmentCalibration(epochs=3, learning_rate=3e-3, beta=1.0)
    forgotten = muc.unlearn(model, images, request, method, batch_size=16, runtime=CALM)
    found = muc.evaluate(forgotten, model, images, request, runtime=CALM)
    assert found["FS"] > 0
    assert muc.gaps(found, found)["AG"] == 0


def test_clip_is_refused_without_captions_before_anything_is_written(tmp_path: Path, images: ImageSet) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runs, "load_images", lambda _, **__: replace(images, train_captions=(), test_captions=()))
        with pytest.raises(UserError, match=r"'glyph-pairs' has no captions"):
            runs.pretrain_run(SETTINGS, tmp_path / "run", CALM)
    assert not (tmp_path / "run").exists()


def test_the_commands_on_glyphs_with_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Pretrain, serve a request that names letters, compare, evaluate and report."""
    run, quick = str(tmp_path / "run"), ["--threads", "1"]
    small = ["--train-limit", "64", "--text-width", "16", "--text-layers", "1", "--batch-size", "32", "--epochs", "2"]
    assert main(["pretrain", "--algorithm", "clip", "--data", "glyph-pairs", *small, *quick, "--out", run]) == 0
    split = RunFolder(run).split()
    names = muc.load_images(config.Data("glyph-pairs")).train_names
    (tmp_path / "letters.txt").write_text("\n".join(names[i] for i in split.retain[:5]))
    asked = ["--forget", str(tmp_path / "letters.txt"), *quick, "--out"]
    for name in ("retrain", "alignment_calibration"):
        assert main(["unlearn", run, "--method", name, "--epochs", "1", *asked, f"{run}-{name}"]) == 0
    assert (
        RunFolder(f"{run}-alignment_calibration").config()["method"]["beta"]
        == default_method("alignment_calibration", "glyph-pairs", "clip").__dict__["beta"]
    )
    capsys.readouterr()
    against = ["--against", f"{run}-retrain", *quick]
    assert main(["evaluate", run, f"{run}-alignment_calibration", *against]) == 0
    shown = capsys.readouterr().out
    assert "Unlearn" in shown
    assert "Image → text R@1" in shown
    assert main(["evaluate", run, f"{run}-alignment_calibration", *against, "--json"]) == 0
    records = json.loads(capsys.readouterr().out)
    assert [r["method"] for r in records] == ["retrain", "pretrain", "alignment_calibration"]
    for record in records:
        assert {"retain_similarity", "zero_shot", "pair_AUC", "text_to_image_R@10"} <= record["metrics"].keys()
        assert "per_sample" not in record
    assert records[2]["gaps"]["AG"] > 0
    compare = ["compare", run, "--methods", "finetune", "gradient_ascent", "--against", f"{run}-retrain"]
    assert main([*compare, *asked, str(tmp_path / "request")]) == 0
    said = capsys.readouterr().out.splitlines()[-1]
    assert said.startswith(("Run to publish: ", "No run can be recommended: "))
    assert main(["report", f"{run}-retrain", f"{run}-alignment_calibration", "--out", str(tmp_path / "report")]) == 0
    assert "Glyphs with names" in (tmp_path / "report" / "report.html").read_text()


@pytest.mark.parametrize("name", [name for name in METHODS if name != "retrain"])
def test_defaults_lie_in_the_papers_ranges(name: str) -> None:
    method = default_method(name, "coco", "clip")
    assert method.epochs == (4 if name == "gradient_ascent" else 8)
    for joined, (low, high, _) in search_ranges(method, "coco", "clip").items():
        for field in joined.split("="):
            assert low <= getattr(method, field) <= high


def test_the_papers_recipe() -> None:
    found = recipe("coco", "clip")
    assert found.optimisation == config.Optimisation(
        epochs=35, batch_size=256, learning_rate=5e-4, optimiser="adamw", weight_decay=0.2, warmup_epochs=2.0
    )
    assert found.data.image_size == 224
    assert (found.views.flip, found.views.min_scale, found.views.jitter, found.views.grayscale) == (0.5, 1, 0, 0)


def test_the_learning_rate_warms_up_then_follows_a_cosine() -> None:
    settings = config.Optimisation(epochs=10, learning_rate=2.0, warmup_epochs=2)
    rates = [rate_at(settings, epoch, step, 5) for epoch in range(10) for step in range(5)]
    assert rates[:10] == pytest.approx([2 * (i + 1) / 10 for i in range(10)])
    assert rates[10:] == pytest.approx([1 + np.cos(np.pi * i / 40) for i in range(40)])
    constant = replace(settings, schedule="constant", warmup_epochs=0)
    assert rate_at(constant, 7, 3, 5) == 2.0
    plain = replace(settings, warmup_epochs=0)
    assert rate_at(plain, 5, 4, 5) == pytest.approx(1.0)
    longer = replace(settings, warmup_epochs=20)  # than the training: never reaches its peak
    assert rate_at(longer, 9, 4, 5) == pytest.approx(1.0)


def test_the_demo_of_glyphs_with_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One trial in this process, briefly: every method, the owner's six pairs, and the page."""
    quick = {name: {**values, "epochs": 1} for name, values in recipes.EMBEDDED_CLIP.items()}
    monkeypatch.setattr(recipes, "EMBEDDED_CLIP", quick)
    settings = recipe(demo.data_for("clip"), "clip")
    few, brief = replace(settings.data, train_limit=60), replace(settings.optimisation, epochs=2)
    settings = replace(settings, data=few, optimisation=brief)
    records = demo.run_trial(settings, tmp_path / "seed0")
    assert [r["method"] for r in records] == ["retrain", "pretrain", *list(METHODS)[1:]]
    seen = json.loads((tmp_path / "seed0" / "looks.json").read_text())
    assert seen["looks"].keys() == METHODS.keys()
    asked = RunFolder(tmp_path / "seed0" / "retrain").split().unlearn[:6]
    captions = muc.load_images(settings.data).train_captions
    for found in seen["looks"].values():
        assert found["of_pairs"]
        assert found["names"] == [captions[i][0] for i in asked]
        assert np.shape(found["gap"]) == (6, 6)
    scores = {r["method"]: r["per_sample"]["FS"][:6] for r in records}  # two ways to the same six numbers
    np.testing.assert_allclose(seen["looks"]["neggrad"]["forgetting_scores"], scores["neggrad"], atol=1e-5)


@pytest.mark.parametrize("flag", [["--clip"], ["--algorithm", "clip"]])
def test_the_demo_of_glyphs_is_asked_for(flag: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[object, ...]] = []
    monkeypatch.setattr(demo, "run_demo", lambda *given: asked.append(given) or tmp_path / "report.html")
    (tmp_path / "tables.md").write_text("")
    assert main(["demo", *flag, "--out", str(tmp_path), "--seeds", "2"]) == 0
    assert asked == [(tmp_path, "clip", 2, None)]


def test_a_demo_of_two_algorithms_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--clip", "--algorithm", "moco", "--out", str(tmp_path / "demo")]) == 2
    assert "--clip is --algorithm clip, and --algorithm moco was given" in capsys.readouterr().err
    assert not (tmp_path / "demo").exists()


def test_an_export_holds_both_towers_and_the_temperature(original: RunFolder, tmp_path: Path) -> None:
    from muc.models.exporting import export_run
    from muc.storage import load_tensors

    tensors, _ = load_tensors(export_run(original, "safetensors", tmp_path / "clip.safetensors"))
    weights = original.load_model()
    assert tensors.keys() == weights.keys()
    assert any(name.startswith("text.") for name in tensors)
    assert all(torch.equal(tensors[name], weights[name]) for name in weights)
