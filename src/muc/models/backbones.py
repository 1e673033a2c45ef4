"""Backbones: ResNets with a stem for small images, two small networks for CPU, and timm's."""

from torch import nn

from muc.config import TIMM
from muc.models.resnet import ResNet


def build_backbone(
    architecture: str, channels: int, image_size: int, norm_groups: int = 1, stem_relu: bool = True
) -> tuple[nn.Module, int]:
    """-> (backbone, feature_dim). `norm_groups` > 1 splits the ResNets' batch norm (MoCo)."""
    if architecture == "mlp":
        return mlp(channels * image_size**2), 256
    if architecture == "convnet":
        return convnet(channels), 256
    if architecture.startswith(TIMM):
        from muc.models.timm_backbones import timm_backbone

        return timm_backbone(architecture, channels, image_size, norm_groups)
    network = ResNet(architecture, channels, norm_groups, stem_relu)
    return network, network.feature_dim


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
