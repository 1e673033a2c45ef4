"""ResNets for small images: torchvision's, layer by layer and name by name, but for a 3x3 stem, no max-pool and no
classifier. They are written out because each norm takes the residual and the ReLU behind it along (muc.models.norm).
"""

from functools import partial

import torch
from torch import Tensor, nn

from muc.models.convolution import Convolution, prepare, release
from muc.models.lane import Lane
from muc.models.norm import BatchNorm

DEPTHS = {
    "resnet18": (2, 2, 2, 2),
    "resnet34": (3, 4, 6, 3),
    "resnet50": (3, 4, 6, 3),
    "resnet101": (3, 4, 23, 3),
    "resnet152": (3, 8, 36, 3),
}

Pair = tuple[Tensor, Tensor]  # what a block reads, and the same for its shortcut

conv1x1 = partial(Convolution, size=1)
conv3x3 = partial(Convolution, size=3)


class Stem(nn.Conv2d):
    """The first convolution; with `fast`, which the runtime sets on GPUs, in a kernel made for three channels."""

    fast = False

    def __init__(self, channels: int, width: int) -> None:
        super().__init__(channels, width, kernel_size=3, padding=1, bias=False)

    def forward(self, input: Tensor) -> Tensor:
        if not (self.fast and self.in_channels == 3) or input.requires_grad:
            return super().forward(input)
        from muc.kernels import stem

        kind = input.device.type
        dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else input.dtype
        return stem.convolve(input, self.weight, dtype)


class BasicBlock(nn.Module):
    expansion = 1

    def __init__(self, channels: int, width: int, stride: int, groups: int) -> None:
        super().__init__()
        self.conv1 = conv3x3(channels, width, stride=stride)
        self.bn1 = BatchNorm(width, groups)
        self.conv2 = conv3x3(width, width)
        self.bn2 = BatchNorm(width, groups)
        self.downsample = shortcut(channels, width, stride, groups)

    def forward(self, inputs: Pair) -> Pair:
        x, past = inputs
        residual = past if self.downsample is None else self.downsample(past)
        y, _ = self.bn1.join(self.conv1(x), relu=True)
        return self.bn2.join(self.conv2(y), residual, relu=True)


class Bottleneck(nn.Module):
    expansion = 4

    def __init__(self, channels: int, width: int, stride: int, groups: int) -> None:
        super().__init__()
        self.conv1 = conv1x1(channels, width)
        self.bn1 = BatchNorm(width, groups)
        self.conv2 = conv3x3(width, width, stride=stride)
        self.bn2 = BatchNorm(width, groups)
        self.conv3 = conv1x1(width, 4 * width)
        self.bn3 = BatchNorm(4 * width, groups)
        self.downsample = shortcut(channels, 4 * width, stride, groups)

    def forward(self, inputs: Pair) -> Pair:
        x, past = inputs
        residual = past if self.downsample is None else self.downsample(past)
        y, _ = self.bn1.join(self.conv1(x), relu=True)
        y, _ = self.bn2.join(self.conv2(y), relu=True)
        return self.bn3.join(self.conv3(y), residual, relu=True)


def shortcut(channels: int, out: int, stride: int, groups: int) -> nn.Module | None:
    if stride == 1 and channels == out:
        return None
    return nn.Sequential(conv1x1(channels, out, stride=stride), BatchNorm(out, groups))


def stage(
    block: type[BasicBlock | Bottleneck], channels: int, width: int, depth: int, stride: int, groups: int
) -> nn.Sequential:
    first = block(channels, width, stride, groups)
    return nn.Sequential(first, *(block(width * block.expansion, width, 1, groups) for _ in range(depth - 1)))


class ResNet(nn.Module):
    """`groups` > 1 splits every batch norm (MoCo); `stem_relu` as in muc.config.Model."""

    fast = False  # set by the runtime on GPUs
    _lane: Lane | None = None

    def __init__(self, architecture: str, channels: int = 3, groups: int = 1, stem_relu: bool = True) -> None:
        super().__init__()
        block = BasicBlock if architecture in ("resnet18", "resnet34") else Bottleneck
        self.stem_relu = stem_relu
        self.feature_dim = 512 * block.expansion
        self.conv1 = Stem(channels, 64)
        self.bn1 = BatchNorm(64, groups)
        depths = DEPTHS[architecture]
        self.layer1 = stage(block, 64, 64, depths[0], 1, groups)
        self.layer2 = stage(block, 64 * block.expansion, 128, depths[1], 2, groups)
        self.layer3 = stage(block, 128 * block.expansion, 256, depths[2], 2, groups)
        self.layer4 = stage(block, 256 * block.expansion, 512, depths[3], 2, groups)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    @property
    def _convolutions(self) -> list[Convolution]:
        return [module for module in self.modules() if isinstance(module, Convolution)]

    def forward(self, x: Tensor) -> Tensor:
        pair = self.bn1.join(self.conv1(x), relu=self.stem_relu)
        if self.fast and self.training and x.is_cuda:
            self._lane = self._lane or Lane()
            prepare(self._convolutions, self._lane, pair[0].dtype)
        x, _ = self.layer4(self.layer3(self.layer2(self.layer1(pair))))
        release(self._convolutions)
        return torch.mean(x, dim=(2, 3))
