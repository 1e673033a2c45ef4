"""Encoders that were trained on images normalised in another way than muc's."""

from collections.abc import Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from muc.config import Model, check_normalisation
from muc.errors import UserError

Network = TypeVar("Network", bound=nn.Module)


def expecting(network: Network, mean: Sequence[float], std: Sequence[float]) -> Network:
    """The same network, which from now on is given images as it was trained on them: scaled to [0, 1], then normalised
    by this mean and deviation, one number a channel. Its weights and their names stay as they are."""
    if not isinstance(network, nn.Module) or hasattr(network, "contrast"):
        raise UserError(f"{type(network).__name__} is no encoder; give the network that turns images into features")
    check_normalisation(mean, std)
    if hasattr(network, "input_scale"):
        raise UserError("the network expects a normalisation already; say so once")
    scale, shift = rescaling(mean, std)
    network.register_buffer("input_scale", scale, persistent=False)
    network.register_buffer("input_shift", shift, persistent=False)
    network.register_forward_pre_hook(_rescale)
    return network


def rescaling(mean: Sequence[float], std: Sequence[float]) -> tuple[Tensor, Tensor]:
    """-> (scale, shift) from images as all encoders get them to images normalised by this mean and deviation."""
    (our_mean, our_std), (their_mean, their_std) = (
        (torch.tensor(m, dtype=torch.float64)[:, None, None], torch.tensor(s, dtype=torch.float64)[:, None, None])
        for m, s in (Model().normalisation(len(mean)), (mean, std))
    )
    return (our_std / their_std).float(), ((our_mean - their_mean) / their_std).float()


def _rescale(network: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    images, *others = inputs
    scale, shift = (network.get_buffer(name).to(images.dtype) for name in ("input_scale", "input_shift"))
    if images.shape[1] != len(scale):
        raise UserError(
            f"the network expects images of {len(scale)} channels, as its mean and deviation have numbers, and these "
            f"have {images.shape[1]}; give a number a channel"
        )
    return images * scale + shift, *others
