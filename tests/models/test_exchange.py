"""Encoders come in under the names other tools give them, and go out again the same."""

import numpy as np
import pytest
import torch
from foreign_encoders import cifar_resnet, digits, equal, in_form, randomised, save, settings_for, simclr_state
from safetensors.torch import load_file, save_file
from torch import nn

from muc import config, opening, runs
from muc.data import load_images
from muc.errors import UserError
from muc.methods import FineTune
from muc.models.backbones import build_backbone
from muc.models.exporting import description_of, export_run, rebuild
from muc.models.importing import import_run

RUNTIME = config.Runtime(threads=1)


@pytest.mark.parametrize("architecture", ["mlp", "convnet"])
@pytest.mark.parametrize("prefix", ["", "module.", "_orig_mod.module.model.online_encoder."])
def test_small_network_survives_import_and_export(tmp_path, architecture, prefix):
    network = randomised(build_backbone(architecture, 1, 8)[0])
    file = save(tmp_path / "in.safetensors", network, prefix)
    run, summary = import_run(file, settings_for(architecture), tmp_path / "run", RUNTIME)
    model = opening.open_model(run, load_images(config.Data(name="digits")))
    assert torch.equal(model.features(digits()), network(digits()))
    assert (summary.prefix, summary.matched, summary.ignored) == (prefix, len(network.state_dict()), ())
    assert summary.fresh == ("projection head (freshly initialised)",)
    back = load_file(export_run(run, "safetensors", tmp_path / "out.safetensors"))
    assert equal(back, load_file(file))
    assert run.config()["source"]["file"] == "in.safetensors"
    assert (run.config()["kind"], run.result()["epochs"], run.result()["seconds"]) == ("import", 0, 0)


def test_a_network_without_stem_relu_stays_without(tmp_path):
    file = save(tmp_path / "in.safetensors", in_form("lightly children"), "backbone.")
    run, summary = import_run(file, settings_for("resnet18"), tmp_path / "run", RUNTIME)
    assert "no ReLU" in summary.describe()
    backbone = opening.open_model(run, load_images(config.Data(name="digits"))).backbone
    stem = []
    backbone.layer1.register_forward_pre_hook(lambda _, inputs: stem.append(inputs[0][0]))
    backbone(digits())
    assert stem[0].min() < 0  # a ReLU would have cut these
    assert equal(load_file(export_run(run, "safetensors", tmp_path / "out.safetensors")), load_file(file))
    settings = opening.pretraining_of(run).model
    again = rebuild(settings, 1, 8, backbone.state_dict())  # as for ONNX
    assert torch.equal(again(digits()), backbone(digits()))
    assert description_of(run)["stem_relu"] is False


def test_moco_without_keys_copies_the_query_encoder(tmp_path):
    save(tmp_path / "in.safetensors", build_backbone("mlp", 1, 8)[0], "encoder_q.")
    run, summary = import_run(tmp_path / "in.safetensors", settings_for("mlp", "moco"), tmp_path / "run", RUNTIME)
    ours = run.load_model()
    assert torch.equal(ours["backbone.1.weight"], ours["key_backbone.1.weight"])
    assert torch.equal(ours["projector.weight"], ours["key_projector.weight"])
    assert summary.fresh == (
        "projection head (freshly initialised)",
        "key encoder (copied from the query encoder)",
        "queue of keys (random)",
    )


def test_lightning_checkpoint_brings_its_projection_head(tmp_path, capsys):
    state = simclr_state()
    stray = {"backbone.1.weight": torch.full((512, 64), 9.0)}
    torch.save({"hyper_parameters": stray, "epoch": 3, "state_dict": state}, tmp_path / "last.ckpt")
    run, summary = import_run(tmp_path / "last.ckpt", settings_for(), tmp_path / "run", RUNTIME)
    ours = {k.replace("projector", "projection_head.layers"): v for k, v in run.load_model().items()}
    assert equal(ours, state)
    assert (summary.matched, summary.fresh, summary.ignored) == (len(state), (), ())
    assert "weights-only loader in a separate process" in capsys.readouterr().err


def deeper_heads() -> dict[str, nn.Module]:
    followed = nn.Linear(512, 128)
    followed.add_module("norm", nn.LayerNorm(128))
    return {"preceded": nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 128)), "followed": followed}


@pytest.mark.parametrize("form", deeper_heads())
def test_a_head_of_another_form_is_not_half_taken(tmp_path, form):
    """MoCo's head is one linear layer; one that is part of somebody's deeper head is not that."""
    state = {f"backbone.{k}": v for k, v in build_backbone("mlp", 1, 8)[0].state_dict().items()}
    head = {f"projector.{k}": v for k, v in deeper_heads()[form].state_dict().items()}
    save_file({**state, **head}, tmp_path / "in.safetensors")
    _, summary = import_run(tmp_path / "in.safetensors", settings_for("mlp", "moco"), tmp_path / "run", RUNTIME)
    assert summary.fresh[0].startswith("projection head (freshly initialised: what is under 'projector.' could not be")
    assert set(summary.ignored) == set(head)


@pytest.mark.parametrize(("value", "said"), [(float("nan"), "1 values that are NaN"), (None, "holds torch.int8")])
def test_values_that_cannot_be_computed_with_are_refused(tmp_path, value, said):
    state = {k: v.clone() for k, v in build_backbone("mlp", 1, 8)[0].state_dict().items()}
    if value is None:
        state["4.weight"] = state["4.weight"].to(torch.int8)
    else:
        state["4.weight"][3, 5] = value
    save_file(state, tmp_path / "in.safetensors")
    with pytest.raises(UserError, match=f"'4.weight' in .*{said}"):
        import_run(tmp_path / "in.safetensors", settings_for(), tmp_path / "run", RUNTIME)
    assert not (tmp_path / "run").exists()


def test_an_imported_run_can_be_unlearned_and_goes_back_in_its_form(tmp_path):
    file = save(tmp_path / "in.safetensors", build_backbone("mlp", 1, 8)[0], "module.encoder.")
    parent, _ = import_run(file, settings_for(), tmp_path / "imported", RUNTIME)
    method = FineTune(epochs=1)
    child = runs.unlearn_run(parent, method, config.Request(forget_fraction=0.1), tmp_path / "unlearned", RUNTIME)
    grandchild = runs.unlearn_run(
        child, method, config.Request(forget_fraction=0.1), tmp_path / "deeper" / "again", RUNTIME
    )
    assert [step["kind"] for step in grandchild.config()["ancestry"]] == ["import", "unlearn"]
    before, after = load_file(file), load_file(export_run(grandchild, "safetensors", tmp_path / "out.safetensors"))
    assert after.keys() == before.keys()
    key = "module.encoder.1.weight"
    assert torch.equal(after[key], grandchild.load_model()["backbone.1.weight"])
    assert not torch.equal(after[key], before[key])


def test_nothing_is_overwritten_unasked(tmp_path):
    file = save(tmp_path / "in.safetensors", build_backbone("mlp", 1, 8)[0])
    run, _ = import_run(file, settings_for(), tmp_path / "run", RUNTIME)
    with pytest.raises(UserError, match="holds a finished run"):
        import_run(file, settings_for(), tmp_path / "run", RUNTIME)
    import_run(file, settings_for(), tmp_path / "run", RUNTIME, force=True)
    with pytest.raises(UserError, match="lies inside --out"):
        import_run(run.path / "model.safetensors", settings_for(), run.path, RUNTIME, force=True)
    before = file.read_bytes()
    with pytest.raises(UserError, match="exists; give another --out"):
        export_run(run, "safetensors", file)
    assert file.read_bytes() == before
    export_run(run, "safetensors", file, force=True)
    with pytest.raises(UserError, match="is a folder"):
        export_run(run, "safetensors", tmp_path)
    with pytest.raises(UserError, match="unknown format 'onxn'; did you mean 'onnx'"):
        export_run(run, "onxn", tmp_path / "x")
    with pytest.raises(UserError, match="torchvision has no mlp"):
        export_run(run, "torchvision", tmp_path / "x")


def test_torchvision_export_loads_into_torchvision(tmp_path):
    file = save(tmp_path / "in.safetensors", in_form("torchvision children"))
    run, _ = import_run(file, settings_for("resnet18"), tmp_path / "run", RUNTIME)
    network = cifar_resnet()
    state = load_file(export_run(run, "torchvision", tmp_path / "out.safetensors"))
    assert network.load_state_dict(state, strict=False) == (["fc.weight", "fc.bias"], [])
    network.fc = nn.Identity()
    ours = opening.open_model(run, load_images(config.Data(name="digits"))).features(digits())
    assert torch.allclose(network(digits()), ours, atol=1e-5)


@pytest.mark.parametrize(("architecture", "algorithm"), [("mlp", "simclr"), ("resnet18", "moco")])
def test_onnx_gives_the_same_features_for_any_batch(tmp_path, architecture, algorithm):
    onnxruntime = pytest.importorskip("onnxruntime")
    network = cifar_resnet() if architecture == "resnet18" else randomised(build_backbone("mlp", 1, 8)[0])
    run, _ = import_run(
        save(tmp_path / "in.safetensors", network), settings_for(architecture, algorithm), tmp_path / "run", RUNTIME
    )
    file = export_run(run, "onnx", tmp_path / "deep" / "encoder.onnx")
    assert [path.name for path in file.parent.iterdir()] == ["encoder.onnx"]  # one file, and nothing partial
    session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    model = opening.open_model(run, load_images(config.Data(name="digits")))
    for n in (1, 3, 8):
        theirs = session.run(["features"], {"images": digits(n).numpy()})[0]
        assert np.abs(theirs - model.features(digits(n)).detach().numpy()).max() < 1e-4


def test_onnx_without_its_packages_says_what_to_install(tmp_path, monkeypatch):
    file = save(tmp_path / "in.safetensors", build_backbone("mlp", 1, 8)[0])
    run, _ = import_run(file, settings_for(), tmp_path / "run", RUNTIME)
    monkeypatch.setattr("muc.models.exporting.find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"needs onnx.*\./muc setup"):
        export_run(run, "onnx", tmp_path / "out.onnx")
