"""Encoders trained on images that were normalised otherwise see what they were trained on."""

from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest
import torch
from foreign_encoders import settings_for

from muc import augment, config
from muc.errors import UserError
from muc.models import MoCo, SimCLR, build_model
from muc.models.backbones import build_backbone
from muc.models.inputs import expecting

CIFAR = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)


def pixels(channels: int = 3, side: int = 8) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(0).integers(0, 256, (4, channels, side, side), dtype=np.uint8))


def naive(images: torch.Tensor, mean: tuple[float, ...], std: tuple[float, ...]) -> torch.Tensor:
    result = torch.empty(images.shape)
    for c in range(images.shape[1]):
        result[:, c] = (images[:, c].double() / 255 - mean[c]) / std[c]
    return result


@pytest.mark.parametrize(("mean", "std"), [CIFAR, ((0.1307,), (0.3081,))])
def test_features_are_those_of_the_own_normalisation(mean, std):
    network = build_backbone("convnet", len(mean), 8)[0].eval()
    images = pixels(len(mean))
    wanted = network(naive(images, mean, std))
    keys = list(network.state_dict())
    ours = expecting(network, mean, std)(augment.plain(images))
    assert torch.allclose(ours, wanted, atol=1e-5)
    assert list(network.state_dict()) == keys  # nothing that a file would have to hold
    assert torch.allclose(deepcopy(network)(augment.plain(images)), wanted, atol=1e-5)


def test_moco_compares_queries_and_keys_that_see_the_same():
    settings = replace(settings_for("convnet", "moco").model, mean=CIFAR[0], std=CIFAR[1])
    model = build_model(settings, channels=3, image_size=8).eval()
    assert isinstance(model, MoCo)
    views = augment.plain(pixels())
    assert torch.equal(model.backbone(views), model.key_backbone(views))
    plain = build_model(replace(settings, mean=None, std=None), 3, 8).eval()
    plain.load_state_dict(model.state_dict())
    assert torch.allclose(model.features(views), plain.features(naive(pixels(), *CIFAR)), atol=1e-5)
    assert not torch.allclose(model.features(views), plain.features(views), atol=1e-3)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"mean": (0.5, 0.5, 0.5)}, "the deviation not given; give --mean and --std, 3 numbers each"),
        ({"std": (0.5,)}, "mean is not given and"),
        ({"mean": (0.5, 0.5), "std": (0.5, 0.5)}, "mean is 0.5 0.5 and the deviation 0.5 0.5; give"),
        ({"mean": (float("nan"),), "std": (0.5,)}, "mean is nan and"),
        ({"mean": (0.5,) * 3, "std": (0.5, float("nan"), 0.5)}, "the deviation 0.5 nan 0.5; give"),
        ({"mean": (0.5,), "std": (1e-50,)}, "the deviation 1e-50; give"),
        ({"mean": (0.5,), "std": (float("inf"),)}, "the deviation inf; give"),
        ({"mean": (0.5,), "std": (0.0,)}, "those of --std above 0"),
        ({"mean": (0.5, 0.5, 0.5), "std": (0.5,)}, "3 numbers each"),
        (
            {"mean": (0.5,), "std": (0.5,), "algorithm": "clip", "architecture": "open_clip/RN50"},
            "its own normalisation",
        ),
    ],
)
def test_what_is_no_normalisation_is_refused(given, said):
    with pytest.raises(UserError, match=said):
        config.Model(**given)


def test_a_normalisation_for_other_images_is_refused():
    settings = config.Model(architecture="convnet", mean=(0.5,), std=(0.5,))
    with pytest.raises(UserError, match=r"--mean has 1 numbers and the images 3 channels; give .* a number a channel"):
        build_model(settings, channels=3, image_size=8)
    with pytest.raises(UserError, match="say so once"):
        expecting(expecting(build_backbone("convnet", 1, 8)[0], (0.5,), (0.5,)), (0.5,), (0.5,))
    with pytest.raises(UserError, match="those of --std above 0"):
        expecting(build_backbone("convnet", 1, 8)[0], (0.5,), (-1.0,))


@pytest.mark.parametrize(("numbers", "channels"), [(1, 3), (3, 1)])
def test_images_of_other_channels_are_refused_when_they_come(numbers, channels):
    network = expecting(build_backbone("convnet", channels, 8)[0], (0.5,) * numbers, (0.5,) * numbers)
    with pytest.raises(UserError, match=f"expects images of {numbers} channels, .* these have {channels}; give a"):
        network(augment.plain(pixels(channels)))


@pytest.mark.parametrize(
    ("network", "mean", "said"),
    [
        (
            SimCLR(build_backbone("convnet", 3, 8)[0], 256),
            (0.5,) * 3,
            "SimCLR is no encoder; give the network",
        ),
        ("resnet18", (0.5,) * 3, "str is no encoder"),
        (build_backbone("convnet", 3, 8)[0], 0.5, "mean is 0.5 and"),
        (build_backbone("convnet", 3, 8)[0], "abc", "mean is a b c and"),
        (build_backbone("convnet", 3, 8)[0], (125, 123, 114), "of colours from 0 to 1"),
    ],
)
def test_what_would_change_nothing_is_refused(network, mean, said):
    """A hook on the contrastive model would never be called: its parts are."""
    with pytest.raises(UserError, match=said):
        expecting(network, mean, mean)
