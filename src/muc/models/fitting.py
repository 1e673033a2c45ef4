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
FOLLOWING = "(key_|online_|target_|momentum_)?"
HEAD = re.compile(rf"(^|\.){FOLLOWING}(projection_head|projector)(_momentum|_ema)?\.(layers\.)?$|encoder_[qk]\.fc\.$")
ALSO_CLASSIFIERS = re.compile(rf"(^|\.){FOLLOWING}(contrastive_head|head|fc)(_momentum|_ema)?\.(layers\.)?$")
WRAPPERS = re.compile(r"(^|\.)((_orig_mod|module)\.)+")  # of torch.compile and of data parallelism, at any depth


@dataclass(frozen=True)
class Form:
    """What is to be found of an architecture."""

    shapes: Shapes
    feature_dim: int
    styles: tuple[str, ...]
    classifier: tuple[str, ...] = ()  # parts of the network that its encoder is without


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


def backbone_fits(found: Shapes, form: Form) -> list[Fit]:
    """Every way to see such a backbone in a file, best first; encoders that only follow come after the others."""
    fits = [
        _fit(found, form.shapes, prefix, style, form.classifier)
        for style in form.styles
        for prefix in _prefixes(found, form.shapes, STYLES[style])
    ]
    return sorted(fits, key=lambda fit: (not fit.complete, -len(fit.matched), fit.momentum))


def head_fits(found: Shapes, wanted: Shapes) -> list[Fit]:
    """The projection heads of a file that have exactly the wanted tensors; those that only follow come last."""
    linears = sum(len(shape) == 2 for shape in wanted.values())
    prefixes = [prefix for prefix in _prefixes(found, wanted, Style()) if _may_be_head(prefix, linears)]
    fits = [_fit(found, wanted, prefix, "torchvision") for prefix in prefixes]
    whole = [f for f in fits if f.complete and len(f.matched) == sum(k.startswith(f.naming.prefix) for k in found)]
    return sorted(whole, key=lambda fit: _doubts(fit.naming.prefix))


def find_head(found: Shapes, feature_dim: int) -> tuple[str, ...] | None:
    """The layers of the file's projection head, if it has one that can be read."""
    for prefix in sorted(_groups(found), key=_doubts):
        layers = read_head(found, prefix, feature_dim)
        if layers and _may_be_head(prefix, sum(layer.startswith("linear") for layer in layers)):
            return layers
    return None


def heads_by_name(found: Shapes) -> list[str]:
    """Where a file has something that is called a projection head, whatever it is."""
    return [prefix for prefix in _groups(found) if _called_head(prefix)]


def _groups(found: Shapes) -> list[str]:
    """What stands before a layer's number and name, in the file's order."""
    return list(dict.fromkeys(re.sub(r"(\d+\.)?\w+$", "", key) for key in found))


def _called_head(prefix: str) -> bool:
    return bool(HEAD.search(WRAPPERS.sub(r"\1", prefix)))


def _may_be_head(prefix: str, linears: int) -> bool:
    """A classifier has some of these names, too, and is mostly a single layer."""
    return _called_head(prefix) or (linears > 1 and bool(ALSO_CLASSIFIERS.search(WRAPPERS.sub(r"\1", prefix))))


def _doubts(prefix: str) -> tuple[bool, bool]:
    """Against taking a head: it only follows another, or its name is a classifier's, too."""
    return bool(MOMENTUM.search(prefix)), not _called_head(prefix)


def _prefixes(found: Iterable[str], wanted: Shapes, style: Style) -> list[str]:
    """What stands before the network's first or last key wherever that occurs."""
    keys = [style.key(list(wanted)[end]) for end in (0, -1)]
    prefixes = [theirs.removesuffix(key) for key in keys for theirs in found if theirs.endswith(key)]
    return [prefix for prefix in dict.fromkeys(prefixes) if not prefix or prefix.endswith(".")]


def _fit(found: Shapes, wanted: Shapes, prefix: str, style: str, classifier: tuple[str, ...] = ()) -> Fit:
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
    without = tuple(f"{prefix}{part}." for part in classifier)
    rest = [key for key in found if key.startswith(prefix) and key not in taken and not key.startswith(without)]
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


def find_backbones(found: Shapes, architecture: str, channels: int, image_size: int, file: Path) -> list[Fit]:
    """The file's backbones, whole, the one to take first; otherwise an error that says what differs and which
    architecture it is."""
    form = backbone_form(architecture, channels, image_size)
    fits = backbone_fits(found, form)
    if whole := [fit for fit in fits if fit.complete]:
        return whole
    if fits and (fits[0].matched or len(fits[0].unequal) > len(fits[0].missing)):
        fault = f"{file} does not fit {architecture}: {_differences(fits[0], found, form.shapes)}"
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
def backbone_form(architecture: str, channels: int, image_size: int) -> Form:
    with torch.device("meta"):  # shapes alone: no memory, no random numbers
        network, feature_dim = build_backbone(architecture, channels, image_size)
    wanted = shapes(network.state_dict())
    if not architecture.startswith(TIMM):
        return Form(wanted, feature_dim, tuple(STYLES))
    # A sequence that counts no max-pool, or no ReLU, is of a network that has none; timm's have both.
    styles = tuple(name for name, style in STYLES.items() if style.first_layer in (None, 4))
    named = getattr(network, "default_cfg", {}).get("classifier") or ()
    return Form(wanted, feature_dim, styles, (named,) if isinstance(named, str) else tuple(named))


def _differences(fit: Fit, found: Shapes, wanted: Shapes) -> str:
    texts = [f"'{k}' is {tuple(found[k])}, not {tuple(fit.naming.size(o, wanted[o]))}" for o, k in fit.unequal.items()]
    texts += [f"'{fit.naming.key(ours)}' is missing" for ours in fit.missing]
    texts += [f"'{theirs}' has no place" for theirs in fit.surplus]
    return "; ".join(texts[:3]) + (f"; and {len(texts) - 3} more" if len(texts) > 3 else "")


def _advice(found: Shapes, fits: list[Fit], channels: int, image_size: int) -> str:
    """The fix, where one is clear."""
    for count in (channels, 4 - channels):  # images are gray (1) or coloured (3)
        for architecture in (*ARCHITECTURES, *imagenet_resnets()):
            tried = backbone_fits(found, backbone_form(architecture, count, image_size))
            if tried and tried[0].complete:
                if count == channels:
                    return f"it is a {architecture}; give that architecture"
                fix = "give gray images" if count == 1 else "give colour images (gray ones may be saved as RGB)"
                return f"it is a {architecture} for images of {count} channels, and the data has {channels}; {fix}"
    if fits and any(key.endswith("pos_embed") for key in fits[0].unequal) and not fits[0].missing:
        return (
            f"its weights were made for images of another size than {image_size} pixels; give --image-size (of a "
            "folder) or data of that size"
        )
    stem = fits[0].unequal.get("conv1.weight") if fits else None
    if stem and found[stem][-1] == 7:
        return (
            "its 7x7 first convolution is ImageNet's; give --architecture timm/NAME (timm/resnet50, …), or wrap it in "
            "Python, where any network is taken: muc.SimCLR(encoder, feature_dim)"
        )
    return f"give the weights of one of {', '.join(ARCHITECTURES)}, or timm/NAME"


def imagenet_resnets() -> list[str]:
    return [TIMM + name for name in ARCHITECTURES if name.startswith("resnet")] if find_spec("timm") else []
