"""Which of a file's tensors are which of ours, and what to say when they are not."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import torch
from torch import Tensor

from muc.config import ARCHITECTURES, TIMM
from muc.errors import UserError
from muc.models.backbones import build_backbone
from muc.models.heads import Shapes, read_head
from muc.models.naming import STYLES, Naming, Style, is_statistic

# A second encoder that only follows the first: MoCo's keys, BYOL's target, an average, a teacher.
MOMENTUM = re.compile(r"momentum|_k\.|(^|[._])(key|ema|target|teacher)[._]")
HEAD = re.compile(
    r"(^|\.)(key_|online_|target_)?(projection_head|projector)(_momentum|_ema)?\.(layers\.)?$|encoder_[qk]\.fc\.$"
)
ALSO_CLASSIFIERS = re.compile(r"(^|\.)(key_|online_|target_)?(contrastive_head|head|fc)(_momentum|_ema)?\.(layers\.)?$")


@dataclass(frozen=True)
class Fit:
    """What a naming makes of a file: which keys it finds, and what speaks against it."""

    naming: Naming
    matched: dict[str, str] = field(default_factory=dict)  # ours -> theirs, equal shapes
    unequal: dict[str, str] = field(default_factory=dict)  # ours -> theirs, other shapes
    missing: tuple[str, ...] = ()  # ours
    uncounted: tuple[str, ...] = ()  # batch counters that old files lack; nothing depends on them
    surplus: tuple[str, ...] = ()  # theirs, within the network but without a place in ours

    @property
    def complete(self) -> bool:
        return not (self.unequal or self.missing or self.surplus)

    @property
    def momentum(self) -> bool:
        return bool(MOMENTUM.search(self.naming.prefix))

    def read(self, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        """Our keys -> the file's values."""
        return {ours: self.naming.inward(ours, tensors[theirs]) for ours, theirs in self.matched.items()}


def backbone_fits(found: Shapes, wanted: Shapes) -> list[Fit]:
    """Every way to see the backbone `wanted` in a file, best first; encoders that only follow come after the others."""
    fits = [
        _fit(found, wanted, prefix, style) for style in STYLES for prefix in _prefixes(found, wanted, STYLES[style])
    ]
    return sorted(fits, key=lambda fit: (not fit.complete, -len(fit.matched), fit.momentum))


def head_fits(found: Shapes, wanted: Shapes) -> list[Fit]:
    """The projection heads of a file that have exactly the wanted tensors; those that only follow come last."""
    linears = sum(len(shape) == 2 for shape in wanted.values())
    prefixes = [prefix for prefix in _prefixes(found, wanted, Style()) if _names_head(prefix, linears)]
    fits = [_fit(found, wanted, prefix, "torchvision") for prefix in prefixes]
    whole = [f for f in fits if f.complete and len(f.matched) == sum(k.startswith(f.naming.prefix) for k in found)]
    return sorted(whole, key=lambda fit: fit.momentum)


def find_head(found: Shapes, feature_dim: int) -> tuple[str, ...] | None:
    """The layers of the file's projection head, if it has one that can be read."""
    prefixes = dict.fromkeys(re.sub(r"(\d+\.)?\w+$", "", key) for key in found)  # in the file's order
    for prefix in sorted(prefixes, key=lambda prefix: bool(MOMENTUM.search(prefix))):
        layers = read_head(found, prefix, feature_dim)
        if layers and _names_head(prefix, sum(layer.startswith("linear") for layer in layers)):
            return layers
    return None


def _names_head(prefix: str, linears: int) -> bool:
    """A classifier has some of these names, too, and is a single layer."""
    return bool(HEAD.search(prefix) or (linears > 1 and ALSO_CLASSIFIERS.search(prefix)))


def _prefixes(found: Iterable[str], wanted: Shapes, style: Style) -> list[str]:
    """What stands before the network's first or last key wherever that occurs."""
    keys = [style.key(list(wanted)[end]) for end in (0, -1)]
    prefixes = [theirs.removesuffix(key) for key in keys for theirs in found if theirs.endswith(key)]
    return [prefix for prefix in dict.fromkeys(prefixes) if not prefix or prefix.endswith(".")]


def _fit(found: Shapes, wanted: Shapes, prefix: str, style: str) -> Fit:
    naming = Naming(prefix, style)
    naming = Naming(prefix, style, _norm_splits(found, wanted, naming))
    matched, unequal, missing, uncounted = {}, {}, [], []
    for ours, shape in wanted.items():
        theirs = naming.key(ours)
        if theirs in found:
            (matched if found[theirs] == naming.size(ours, shape) else unequal)[ours] = theirs
        else:
            (uncounted if ours.endswith("num_batches_tracked") else missing).append(ours)
    taken = {*matched.values(), *unequal.values()}
    parts = {naming.key(ours).removeprefix(prefix).partition(".")[0] for ours in wanted}
    rest = [key for key in found if key.startswith(prefix) and key not in taken]
    # ResNet-18's tensors are all in ResNet-34 too: what is left over inside the network says that it is another one.
    surplus = [key for key in rest if _inside(key.removeprefix(prefix).partition(".")[0], parts)]
    return Fit(naming, matched, unequal, tuple(missing), tuple(uncounted), tuple(surplus))


def _inside(part: str, parts: set[str]) -> bool:
    return part in parts or (part.isdigit() and any(p.isdigit() for p in parts))


def _norm_splits(found: Shapes, wanted: Shapes, naming: Naming) -> int:
    for ours, shape in wanted.items():
        theirs = found.get(naming.key(ours))
        if is_statistic(ours) and theirs is not None and len(theirs) == 1 and shape[0]:
            return max(1, theirs[0] // shape[0])
    return 1


def shapes(tensors: Mapping[str, Tensor]) -> Shapes:
    return {key: value.shape for key, value in tensors.items()}


def find_backbone(found: Shapes, architecture: str, channels: int, image_size: int, file: Path) -> Fit:
    """The file's backbone, whole; otherwise an error that says what differs and which architecture it is."""
    wanted = backbone_shapes(architecture, channels, image_size)
    fits = backbone_fits(found, wanted)
    if fits and fits[0].complete:
        return fits[0]
    if fits and fits[0].matched:
        fault = f"{file} does not fit {architecture}: {_differences(fits[0], found, wanted)}"
    else:
        fault = (
            f"{file} holds no {architecture}: none of its {len(found)} keys fits ({', '.join(list(found)[:3])}, ...)"
        )
    raise UserError(f"{fault}; {_advice(found, fits, channels, image_size)}")


def check_values(keys: Iterable[str], tensors: Mapping[str, Tensor], file: Path) -> None:
    """A file's tensors under these keys must be numbers that a network can compute with."""
    for key in keys:
        value = tensors[key]
        if not (value.is_floating_point() or key.endswith("num_batches_tracked")):
            raise UserError(f"'{key}' in {file} holds {value.dtype}, not floats; give the weights before quantisation")
        if bad := int((~torch.isfinite(value.float())).sum()):
            raise UserError(f"'{key}' in {file} holds {bad} values that are NaN or infinite; give a sound checkpoint")


@cache
def backbone_form(architecture: str, channels: int, image_size: int) -> tuple[Shapes, int]:
    """-> (shapes of its tensors, feature_dim)"""
    with torch.device("meta"):  # shapes alone: no memory, no random numbers
        network, feature_dim = build_backbone(architecture, channels, image_size)
    return shapes(network.state_dict()), feature_dim


def backbone_shapes(architecture: str, channels: int, image_size: int) -> Shapes:
    return backbone_form(architecture, channels, image_size)[0]


def _differences(fit: Fit, found: Shapes, wanted: Shapes) -> str:
    texts = [f"'{k}' is {tuple(found[k])}, not {tuple(fit.naming.size(o, wanted[o]))}" for o, k in fit.unequal.items()]
    texts += [f"'{fit.naming.key(ours)}' is missing" for ours in fit.missing]
    texts += [f"'{theirs}' has no place" for theirs in fit.surplus]
    return "; ".join(texts[:3]) + (f"; and {len(texts) - 3} more" if len(texts) > 3 else "")


def _advice(found: Shapes, fits: list[Fit], channels: int, image_size: int) -> str:
    """The fix, where one is clear."""
    for count in (channels, 4 - channels):  # images are gray (1) or coloured (3)
        for architecture in (*ARCHITECTURES, *imagenet_resnets()):
            tried = backbone_fits(found, backbone_shapes(architecture, count, image_size))
            if tried and tried[0].complete:
                other = "" if count == channels else f" for images of {count} channels, and the data has {channels}"
                return f"it is a {architecture}{other}; give that {'architecture' if not other else 'kind of data'}"
    stem = fits[0].unequal.get("conv1.weight") if fits else None
    if stem and found[stem][-1] == 7:
        return (
            "its 7x7 first convolution is ImageNet's; give --architecture timm/NAME (timm/resnet50, …), or wrap it in "
            "Python, where any network is taken: muc.SimCLR(encoder, feature_dim)"
        )
    return f"give the weights of one of {', '.join(ARCHITECTURES)}, or timm/NAME"


def imagenet_resnets() -> list[str]:
    return [TIMM + name for name in ARCHITECTURES if name.startswith("resnet")] if find_spec("timm") else []
