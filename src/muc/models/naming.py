"""How other people name an encoder's weights, and which of a file's tensors are which of ours."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

import torch
from torch import Tensor

Shapes = dict[str, torch.Size]


@dataclass(frozen=True)
class Style:
    """A way to name a ResNet's parts; ours is torchvision's."""

    first_layer: int | None = None  # layer1's number in nn.Sequential(*resnet.children()); None: parts have names
    shortcut: str = "downsample"

    def key(self, ours: str) -> str:
        """torchvision's key -> this style's. Keys of other networks stay as they are."""
        part, _, rest = ours.partition(".")
        if self.first_layer is not None:
            numbered = {"conv1": 0, "bn1": 1} | {f"layer{i}": self.first_layer + i - 1 for i in range(1, 5)}
            part = str(numbered.get(part, part))
        return f"{part}.{rest.replace('downsample', self.shortcut)}"


STYLES = {
    "torchvision": Style(),  # timm's too
    "lightly": Style(shortcut="shortcut"),  # its ResNetGenerator, and other ResNets written for CIFAR
    "torchvision children": Style(first_layer=4),
    "torchvision children without max-pool": Style(first_layer=3),
    "lightly children": Style(first_layer=2, shortcut="shortcut"),
}

# A second encoder that only follows the first: MoCo's keys, BYOL's target, an average, a teacher.
MOMENTUM = re.compile(r"momentum|encoder_k\.|(^|[._])(key|ema|target|teacher)[._]")
HEAD = re.compile(
    r"(^|\.)(key_|online_|target_)?(projection_head|projector|head)(_momentum|_ema)?\.(layers\.)?$|encoder_[qk]\.fc\.$"
)


@dataclass(frozen=True)
class Naming:
    """A file's key is its prefix and our key in its style; split batch norms keep `norm_splits` copies of statistics."""

    prefix: str = ""
    style: str = "torchvision"
    norm_splits: int = 1

    def key(self, ours: str) -> str:
        return self.prefix + STYLES[self.style].key(ours)

    def size(self, ours: str, shape: torch.Size) -> torch.Size:
        return torch.Size([self.norm_splits * shape[0]]) if is_statistic(ours) else shape

    def inward(self, ours: str, theirs: Tensor) -> Tensor:
        """As lightly's SplitBatchNorm does for evaluation, the splits' statistics are averaged."""
        if is_statistic(ours) and self.norm_splits > 1:
            return theirs.unflatten(0, (self.norm_splits, -1)).mean(dim=0)
        return theirs

    def outward(self, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        """Our tensors under the file's keys, in the file's shapes."""
        return {
            self.key(ours): value.repeat(self.norm_splits) if is_statistic(ours) else value
            for ours, value in tensors.items()
        }


def is_statistic(key: str) -> bool:
    return key.endswith(("running_mean", "running_var"))


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
    prefixes = [prefix for prefix in _prefixes(found, wanted, Style()) if HEAD.search(prefix)]
    fits = [_fit(found, wanted, prefix, "torchvision") for prefix in prefixes]
    whole = [f for f in fits if f.complete and len(f.matched) == sum(k.startswith(f.naming.prefix) for k in found)]
    return sorted(whole, key=lambda fit: fit.momentum)


def _prefixes(found: Iterable[str], wanted: Shapes, style: Style) -> list[str]:
    """What stands before the network's first or last key wherever that occurs."""
    keys = [style.key(ours) if "." in ours else ours for ours in (next(iter(wanted)), list(wanted)[-1])]
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
