"""Backbones: torchvision's ResNets with a stem for small images, and two small networks for CPU."""

from collections.abc import Callable
from functools import partial
from math import gcd

import torch
from torch import Tensor, nn
from torch.nn.functional import batch_norm


def build_backbone(
    architecture: str, channels: int, image_size: int, norm_groups: int = 1, stem_relu: bool = True
) -> tuple[nn.Module, int]:
    """-> (backbone, feature_dim). `norm_groups` > 1 splits the ResNets' batch norm (MoCo)."""
    if architecture == "mlp":
        return mlp(channels * image_size**2), 256
    if architecture == "convnet":
        return convnet(channels), 256
    return small_image_resnet(architecture, channels, norm_groups, stem_relu)


def small_image_resnet(
    architecture: str, channels: int = 3, norm_groups: int = 1, stem_relu: bool = True
) -> tuple[nn.Module, int]:
    """torchvision's ResNet with a 3x3 stride-1 stem, no max-pool and no classifier."""
    from torchvision.models import resnet  # slow to import, and not needed for the small networks

    norm: Callable[..., nn.Module] = (
        partial(GroupedBatchNorm, groups=norm_groups) if norm_groups > 1 else nn.BatchNorm2d
    )
    network = getattr(resnet, architecture)(weights=None, norm_layer=norm)
    feature_dim = network.fc.in_features
    network.conv1 = nn.Conv2d(channels, 64, kernel_size=3, stride=1, padding=1, bias=False)
    nn.init.kaiming_normal_(network.conv1.weight, mode="fan_out", nonlinearity="relu")
    network.maxpool = nn.Identity()
    if not stem_relu:
        network.relu = nn.Identity()  # the stem's; each block has its own
    network.fc = nn.Identity()
    return network, feature_dim


def mlp(inputs: int, width: int = 256) -> nn.Module:
    """No convolutional prior: memorises a few hundred images soonest (docs/log.md)."""
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(inputs, width, bias=False),
        nn.BatchNorm1d(width),
        nn.ReLU(inplace=True),
        nn.Linear(width, width, bias=False),
        nn.BatchNorm1d(width),
        nn.ReLU(inplace=True),
    )


def convnet(channels: int, width: int = 32) -> nn.Module:
    """Four 3x3 convolutions, each but the first halving the image, and a global average."""
    layers: list[nn.Module] = []
    for out, stride in ((width, 1), (2 * width, 2), (4 * width, 2), (8 * width, 2)):
        layers += [nn.Conv2d(channels, out, 3, stride, 1, bias=False), nn.BatchNorm2d(out), nn.ReLU(inplace=True)]
        channels = out
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())


class GroupedBatchNorm(nn.BatchNorm2d):
    """Batch norm over `groups` parts of the batch separately, as if each part were on its own GPU (MoCo).

    A batch that does not divide evenly uses the greatest common divisor. Evaluation is ordinary batch norm.
    """

    def __init__(self, num_features: int, groups: int) -> None:
        super().__init__(num_features)
        self.groups = groups

    def forward(self, input: Tensor) -> Tensor:
        groups = gcd(len(input), self.groups)
        if not self.training or groups == 1:
            return super().forward(input)
        assert self.running_mean is not None
        assert self.running_var is not None
        assert self.num_batches_tracked is not None
        assert self.momentum is not None
        self.num_batches_tracked.add_(1)
        mean, var = self.running_mean.repeat(groups, 1), self.running_var.repeat(groups, 1)
        # Every groups-th row belongs together, so that retain and forget rows (which come in order) mix in each group.
        parts = input.unflatten(0, (-1, groups)).unbind(1)
        normalised = [
            batch_norm(part, mean[g], var[g], self.weight, self.bias, True, self.momentum, self.eps)
            for g, part in enumerate(parts)
        ]
        self.running_mean.copy_(mean.mean(0))
        self.running_var.copy_(var.mean(0))
        return torch.stack(normalised, dim=1).flatten(0, 1)
