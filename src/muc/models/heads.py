"""Projection heads that a user's checkpoint brings, as lists of layers."""

import re
from collections import defaultdict
from collections.abc import Sequence

import torch
from torch import nn

from muc.errors import UserError

Shapes = dict[str, torch.Size]

# "linear 128", "linear 128 bias", "norm", "norm plain" (without weights of its own), "relu"
LAYER = re.compile(r"linear [1-9]\d*( bias)?|norm( plain)?|relu")


def build_head(layers: Sequence[str], width: int) -> tuple[nn.Module, int]:
    """-> (a single layer, or a sequence whose keys are numbered as the layers are; the width of what it gives)"""
    if not layers or not layers[0].startswith("linear"):
        raise UserError(f"the projection head begins with {list(layers)[:1]}; give a linear layer first")
    built: list[nn.Module] = []
    for layer in layers:
        if not LAYER.fullmatch(layer):
            raise UserError(f"the head's layer '{layer}' is unknown; expected 'linear WIDTH', 'norm' or 'relu'")
        kind, *options = layer.split()
        if kind == "linear":
            built.append(nn.Linear(width, int(options[0]), bias="bias" in options))
            width = int(options[0])
        elif kind == "norm":
            built.append(nn.BatchNorm1d(width, affine="plain" not in options))
        else:
            built.append(nn.ReLU(inplace=True))
    return (built[0] if len(built) == 1 else nn.Sequential(*built)), width


def read_head(found: Shapes, prefix: str, width: int) -> tuple[str, ...] | None:
    """The layers whose tensors lie under a prefix, for features of this width; None where they are something else.

    What has no tensors leaves a gap in the numbers: between two layers it is taken for a ReLU.
    """
    inside = {key.removeprefix(prefix): shape for key, shape in found.items() if key.startswith(prefix)}
    if "weight" in inside:  # one layer, which has no number
        layer = _layer(inside, width)
        return (layer,) if layer and layer.startswith("linear") else None
    parts: dict[str, Shapes] = defaultdict(dict)
    for key, shape in inside.items():
        number, _, name = key.partition(".")
        parts[number][name] = shape
    if not all(map(str.isdecimal, parts)):
        return None
    layers: list[str] = []
    for number in sorted(parts, key=int):
        if int(number) == len(layers) + 1 and layers:
            layers.append("relu")
        layer = _layer(parts[number], width)
        if int(number) != len(layers) or layer is None:
            return None
        layers.append(layer)
        width = int(layer.split()[1]) if layer.startswith("linear") else width
    return tuple(layers) if len(layers) > 1 and layers[0].startswith("linear") else None


def _layer(names: Shapes, width: int) -> str | None:
    """One layer from the shapes of its tensors."""
    weight, bias = names.get("weight"), names.get("bias")
    if weight is not None and len(weight) == 2 and weight[1] == width and names.keys() <= {"weight", "bias"}:
        return f"linear {weight[0]}{' bias' if bias is not None else ''}" if bias in (None, weight[:1]) else None
    if any(len(names.get(name, ())) != 1 or names[name][0] != width for name in ("running_mean", "running_var")):
        return None
    if names.keys() - {"weight", "bias", "running_mean", "running_var", "num_batches_tracked"}:
        return None
    if (weight is None) != (bias is None) or weight not in (None, torch.Size([width])):
        return None
    return "norm" if weight is not None else "norm plain"
