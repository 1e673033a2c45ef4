"""Whose tensor is whose, under every naming we know, and what is said when they do not fit."""

from pathlib import Path

import pytest
import torch
from foreign_encoders import cifar_resnet, digits, equal, in_form, moco_checkpoint, randomised, settings_for
from torch import nn
from torchvision.models import resnet18, resnet34, resnet50

from muc.errors import UserError
from muc.models import build_model
from muc.models.backbones import build_backbone
from muc.models.fitting import backbone_fits, backbone_form, find_backbones, shapes
from muc.models.importing import fill
from muc.models.naming import STYLES

HERE = Path("weights.safetensors")


@pytest.mark.parametrize("style", STYLES)
def test_every_style_of_resnet_is_read_and_written(style):
    network = in_form(style)
    theirs = {f"backbone.{k}": v for k, v in network.state_dict().items()}
    fit = find_backbones(shapes(theirs), "resnet18", 1, 8, HERE)[0]
    assert (fit.naming.prefix, fit.naming.style) == ("backbone.", style)
    ours = build_backbone("resnet18", 1, 8)[0].eval()
    ours.load_state_dict(fit.read(theirs))
    assert equal(fit.naming.outward(ours.state_dict()), {k: v for k, v in theirs.items() if k in fit.matched.values()})
    assert all(".fc." in k or ".linear." in k for k in theirs.keys() - set(fit.matched.values()))
    if "lightly" not in style:  # which has no forward of its own here
        network.fc = nn.Identity()
        assert torch.allclose(ours(digits()), network(digits()).flatten(1), atol=1e-5)


def test_timm_resnet_gives_the_same_features():
    timm = pytest.importorskip("timm")
    network = timm.create_model("resnet18", num_classes=0)
    network.conv1, network.maxpool = nn.Conv2d(1, 64, 3, 1, 1, bias=False), nn.Identity()
    theirs = randomised(network).state_dict()
    fit = find_backbones(shapes(theirs), "resnet18", 1, 8, HERE)[0]
    ours = build_backbone("resnet18", 1, 8)[0].eval()
    ours.load_state_dict(fit.read(theirs))
    assert torch.allclose(ours(digits()), network(digits()), atol=1e-5)


def test_moco_brings_its_key_encoder_and_its_split_statistics():
    state = moco_checkpoint()
    model = build_model(settings_for("resnet18", "moco").model, channels=1, image_size=8)
    fit = find_backbones(shapes(state), "resnet18", 1, 8, HERE)[0]
    summary = fill(model, state, find_backbones(shapes(state), "resnet18", 1, 8, HERE), HERE)
    ours = model.state_dict()
    assert torch.equal(ours["backbone.layer2.0.conv1.weight"], state["backbone.3.0.conv1.weight"])
    assert torch.equal(ours["key_backbone.layer2.0.conv1.weight"], state["backbone_momentum.3.0.conv1.weight"])
    assert torch.equal(ours["projector.bias"], state["projection_head.bias"])
    assert torch.equal(ours["key_projector.bias"], state["projection_head_momentum.bias"])
    first, second = state["backbone.1.running_var"].chunk(2)
    assert torch.allclose(ours["backbone.bn1.running_var"], (first + second) / 2)
    assert (summary.matched, summary.fresh) == (len(state), ("queue of keys (random)",))
    back = fit.naming.outward(model.backbone.state_dict())
    assert shapes(back) == {k: v.shape for k, v in state.items() if k.startswith("backbone.")}


@pytest.mark.parametrize(
    ("make", "architecture", "said"),
    [
        (resnet50, "resnet18", ["layer1.0.conv1.weight' is (64, 64, 1, 1), not (64, 64, 3, 3)", "more", "a resnet50"]),
        (resnet34, "resnet18", ["'layer1.2.conv1.weight' has no place", "it is a resnet34; give that architecture"]),
        (resnet18, "resnet34", ["'layer1.2.conv1.weight' is missing", "it is a resnet18; give that architecture"]),
        (resnet18, "mlp", ["holds no mlp", "it is a resnet18"]),
    ],
)
def test_another_architecture_is_recognised(make, architecture, said):
    found = shapes(cifar_resnet(make, channels=3).state_dict())
    with pytest.raises(UserError) as error:
        find_backbones(found, architecture, 3, 32, HERE)
    assert [text for text in said if text not in str(error.value)] == []


def test_imagenet_stem_and_other_channels_are_explained():
    with pytest.raises(UserError, match=r"conv1.weight' is \(64, 3, 7, 7\), not .*a timm/resnet18; give"):
        find_backbones(shapes(resnet18().state_dict()), "resnet18", 3, 32, HERE)
    other = {**shapes(resnet18().state_dict()), "layer4.9.weight": torch.Size([1])}
    with pytest.raises(UserError, match=r"its 7x7 first convolution is ImageNet's; give --architecture timm/NAME"):
        find_backbones(other, "resnet18", 3, 32, HERE)
    with pytest.raises(UserError, match="it is a resnet18 for images of 3 channels, and the data has 1"):
        find_backbones(shapes(cifar_resnet(channels=3).state_dict()), "resnet18", 1, 8, HERE)
    with pytest.raises(UserError, match=r"holds no resnet18.*give the weights of one of"):
        find_backbones({"a.weight": torch.Size([3])}, "resnet18", 3, 32, HERE)


def test_the_whole_encoder_is_preferred_to_its_average():
    form = backbone_form("resnet18", 3, 32)
    found = {f"{prefix}.{k}": v for prefix in ("encoder_k", "encoder_q") for k, v in form.shapes.items()}
    assert [fit.naming.prefix for fit in backbone_fits(found, form) if fit.complete] == ["encoder_q.", "encoder_k."]
