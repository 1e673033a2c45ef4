"""timm's networks as backbones: built, trained, imported, exported."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from foreign_encoders import randomised, save
from safetensors.torch import load_file
from torch import nn
from torchvision import models

from muc import config, opening, runs
from muc.data import load_images
from muc.errors import UserError
from muc.methods import AlignmentCalibration
from muc.models.backbones import build_backbone
from muc.models.exporting import description_of, export_run
from muc.models.fitting import find_backbones, shapes
from muc.models.importing import import_run
from muc.models.norm import BatchNorm
from muc.recipes import recipe

timm = pytest.importorskip("timm")
RUNTIME = config.Runtime(threads=1)


def settings_for(architecture: str, algorithm: str = "simclr", **model) -> config.Pretraining:
    settings = recipe("glyphs", algorithm)  # 16 x 16, gray
    model = {"architecture": architecture, "queue_size": 64, "norm_groups": 2, **model}
    return replace(
        settings,
        data=replace(settings.data, train_limit=40, validation_fraction=0.0),
        model=replace(settings.model, **model),
        optimisation=replace(settings.optimisation, epochs=1, batch_size=20, learning_rate=0.01),
    )


def glyphs(n: int = 4) -> torch.Tensor:
    images = load_images(settings_for("mlp").data).train[:n]
    return torch.from_numpy(np.asarray(images)).float() / 127.5 - 1


def test_imagenets_resnet_comes_in_and_goes_back(tmp_path):
    network = randomised(models.resnet18(num_classes=10))
    network.conv1 = nn.Conv2d(1, 64, 7, 2, 3, bias=False)
    file = save(tmp_path / "in.safetensors", network, "model.")
    settings = settings_for("timm/resnet18", "moco", mean=(0.3,), std=(0.4,))
    run, summary = import_run(file, settings, tmp_path / "run", RUNTIME)
    assert summary.ignored == ("model.fc.bias", "model.fc.weight")
    network.fc = nn.Identity()
    wanted = network(((glyphs() + 1) / 2 - 0.3) / 0.4)
    ours = opening.open_model(run, load_images(settings.data)).features(glyphs())
    assert torch.allclose(ours, wanted, atol=1e-4)
    back = load_file(export_run(run, "torchvision", tmp_path / "out.safetensors"))
    assert network.load_state_dict(back) == ([], [])
    assert description_of(run)["input"]["mean"] == (0.3,)
    with pytest.raises(UserError, match="it is a timm/resnet18; give that architecture"):
        import_run(file, settings_for("timm/resnet34"), tmp_path / "other", RUNTIME)


def test_a_classifier_inside_the_network_is_left_aside():
    """ConvNeXt's lies beside a norm that is part of the encoder."""
    network = timm.create_model("test_convnext", num_classes=10).eval()
    theirs = {f"model.{k}": v for k, v in network.state_dict().items()}
    fit = find_backbones(shapes(theirs), "timm/test_convnext", 3, 64, Path("in.safetensors"))[0]
    assert theirs.keys() - set(fit.matched.values()) == {"model.head.fc.bias", "model.head.fc.weight"}
    ours = build_backbone("timm/test_convnext", 3, 64)[0].eval()
    ours.load_state_dict(fit.read(theirs))
    network.reset_classifier(0)
    images = torch.randn(2, 3, 64, 64)
    assert torch.equal(ours(images), network(images))


def test_a_sequence_without_max_pool_is_not_timms_network(tmp_path):
    network = models.resnet18()
    network.conv1 = nn.Conv2d(1, 64, 7, 2, 3, bias=False)
    parts = [child for child in network.children() if not isinstance(child, nn.MaxPool2d | nn.Linear)]
    file = save(tmp_path / "in.safetensors", nn.Sequential(*parts), "f.")
    with pytest.raises(UserError, match=r"holds no timm/resnet18|does not fit timm/resnet18"):
        import_run(file, settings_for("timm/resnet18"), tmp_path / "run", RUNTIME)


def test_weights_for_another_size_say_so(tmp_path):
    file = save(tmp_path / "in.safetensors", timm.create_model("test_vit", num_classes=0, in_chans=1, img_size=32))
    with pytest.raises(UserError, match=r"'pos_embed' is .*images of another size than 16 pixels; give --image"):
        import_run(file, settings_for("timm/test_vit"), tmp_path / "run", RUNTIME)


def test_an_export_of_ones_own_keeps_what_it_says_of_its_images(tmp_path):
    file = save(tmp_path / "in.safetensors", build_backbone("resnet18", 1, 16)[0])
    settings = settings_for("resnet18", mean=(0.3,), std=(0.4,), stem_relu=False)
    run, _ = import_run(file, settings, tmp_path / "run", RUNTIME)
    exported = export_run(run, "safetensors", tmp_path / "out.safetensors")
    again, _ = import_run(exported, settings_for("resnet18"), tmp_path / "again", RUNTIME)
    made = opening.pretraining_of(again).model
    assert (made.mean, made.std, made.stem_relu) == ((0.3,), (0.4,), False)
    other, _ = import_run(exported, settings_for("resnet18", mean=(0.1,), std=(0.2,)), tmp_path / "other", RUNTIME)
    assert opening.pretraining_of(other).model.mean == (0.1,)


@pytest.mark.parametrize("architecture", ["timm/test_resnet", "timm/test_vit"])
@pytest.mark.parametrize("algorithm", ["simclr", "moco"])
def test_they_are_trained_and_unlearned_and_exported(tmp_path, architecture, algorithm):
    run = runs.pretrain_run(settings_for(architecture, algorithm), tmp_path / "run", RUNTIME)
    method = AlignmentCalibration(epochs=1, learning_rate=0.01)
    child = runs.unlearn_run(run, method, config.Request(forget_fraction=0.2), tmp_path / "child", RUNTIME)
    model = opening.open_model(child, load_images(settings_for("mlp").data))
    before = opening.open_model(run, load_images(settings_for("mlp").data))
    assert not torch.equal(model.features(glyphs()), before.features(glyphs()))
    onnxruntime = pytest.importorskip("onnxruntime")
    file = export_run(child, "onnx", tmp_path / "encoder.onnx")
    session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    for n in (1, 3):
        theirs = session.run(["features"], {"images": glyphs(n).numpy()})[0]
        assert np.abs(theirs - model.features(glyphs(n)).detach().numpy()).max() < 1e-4
    with pytest.raises(UserError, match="torchvision has no timm/test"):
        export_run(run, "torchvision", tmp_path / "x")


def test_mocos_groups_are_normalised_one_by_one():
    torch.manual_seed(0)
    network = randomised(build_backbone("timm/test_resnet", 1, 16)[0])
    grouped, _ = build_backbone("timm/test_resnet", 1, 16, norm_groups=2)
    grouped.load_state_dict(network.state_dict())
    assert not [m for m in grouped.modules() if type(m) is nn.BatchNorm2d]
    plain = [m for m in network.modules() if type(m) is nn.BatchNorm2d]
    split = [m for m in grouped.modules() if isinstance(m, BatchNorm)]
    assert [(m.eps, m.momentum) for m in split] == [(m.eps, m.momentum) for m in plain]
    images, network, grouped = torch.randn(8, 1, 16, 16).double(), network.double(), grouped.double()
    wanted = torch.cat([network.train()(images[:4]), network.train()(images[4:])])
    assert torch.allclose(grouped.train()(images), wanted, atol=1e-9)
    assert not torch.allclose(network.train()(images), wanted, atol=1e-2)


def test_norms_keep_the_values_they_are_built_with():
    torch.manual_seed(0)
    network, _ = build_backbone("timm/test_resnet", 1, 16)
    torch.manual_seed(0)
    grouped, _ = build_backbone("timm/test_resnet", 1, 16, norm_groups=4)
    ours, theirs = grouped.state_dict(), network.state_dict()
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[k], theirs[k]) for k in ours)


@pytest.mark.parametrize("name", ["swin_tiny_patch4_window7_224", "rexnet_100", "tiny_vit_5m_224"])
def test_nothing_is_dropped_at_random(name):
    """Nobody would save the state of the generator behind it."""
    network = build_backbone(f"timm/{name}", 3, 64)[0].train()
    images = torch.randn(2, 3, 64, 64)
    assert torch.equal(network(images), network(images))
    assert any("drop" in kind.__class__.__name__.lower() for kind in network.modules())


@pytest.mark.parametrize(
    ("architecture", "said"),
    [
        ("timm/resnet19", "unknown timm model 'resnet19'; did you mean 'resnet18'"),
        (
            "timm/test_vit",
            "cannot be built for images of 20 pixels .*give images of another size, or another architecture",
        ),
        ("timm/inception_v4", "cannot be built for images of 20 pixels"),
    ],
)
def test_what_cannot_be_built_is_one_sentence(architecture, said):
    with pytest.raises(UserError, match=said) as error:
        build_backbone(architecture, 3, 20)
    assert "\n" not in str(error.value)


def test_without_timm_it_is_said_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(UserError, match=r"architecture 'timm/resnet50' needs timm; .*\./muc setup"):
        build_backbone("timm/resnet50", 3, 32)
