"""How other people name an encoder's weights."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Style:
    """A way to name a ResNet's parts; ours is torchvision's."""

    first_layer: int | None = None  # layer1's number in nn.Sequential(*resnet.children()); None: parts have names
    shortcut: str = "downsample"

    def key(self, ours: str) -> str:
        """torchvision's key -> this style's. Keys of other networks stay as they are."""
        part, dot, rest = ours.partition(".")
        if self.first_layer is not None:
            numbered = {"conv1": 0, "bn1": 1} | {f"layer{i}": self.first_layer + i - 1 for i in range(1, 5)}
            part = str(numbered.get(part, part))
        return part + dot + rest.replace("downsample", self.shortcut)


STYLES = {
    "torchvision": Style(),  # timm's too
    "lightly": Style(shortcut="shortcut"),  # its ResNetGenerator, and other ResNets written for CIFAR
    "torchvision children": Style(first_layer=4),
    "torchvision children without max-pool": Style(first_layer=3),
    "lightly children": Style(first_layer=2, shortcut="shortcut"),
}


@dataclass(frozen=True)
class Naming:
    """A file's key: its prefix, then our key in its style. Split batch norms keep copies of their statistics."""

    prefix: str = ""
    style: str = "torchvision"
    norm_splits: int = 1  # how many copies

    def key(self, ours: str) -> str:
        return self.prefix + STYLES[self.style].key(ours)

    def size(self, ours: str, shape: torch.Size) -> torch.Size:
        return torch.Size([self.norm_splits * shape[0]]) if is_statistic(ours) else shape

    def inward(self, ours: str, theirs: Tensor) -> Tensor:
        """As lightly's SplitBatchNorm does for evaluation, the splits' statistics are averaged."""
        if is_statistic(ours) and self.norm_splits > 1:
            return theirs.unflatten(0, (self.norm_splits, -1)).mean(dim=0, dtype=torch.float32)
        return theirs

    def outward(self, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        """Our tensors under the file's keys, in the file's shapes."""
        return {
            self.key(ours): value.repeat(self.norm_splits) if is_statistic(ours) else value
            for ours, value in tensors.items()
        }


def is_statistic(key: str) -> bool:
    return key.endswith(("running_mean", "running_var"))
