"""Encoders as other tools make and name them, for the tests of import and export."""

from dataclasses import replace
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import nn
from torchvision.models import resnet18

from muc import config, opening
from muc.data import load_images
from muc.recipes import recipe


def settings_for(architecture: str = "mlp", algorithm: str = "simclr") -> config.Pretraining:
    settings = recipe("digits", algorithm)
    return replace(settings, model=replace(settings.model, architecture=architecture))


def randomised(network: nn.Module) -> nn.Module:
    """Batch norms with statistics of their own, so that a swapped one shows."""
    for name, value in network.state_dict().items():
        if "running" in name or "bn" in name:
            value.copy_(torch.rand(value.shape) + 0.5)
    return network.eval()


def cifar_resnet(make=resnet18, channels: int = 1) -> nn.Module:
    network = make(num_classes=10)
    network.conv1 = nn.Conv2d(channels, 64, 3, 1, 1, bias=False)
    network.maxpool = nn.Identity()
    return randomised(network)


def lightly_resnet() -> nn.Module:
    """lightly's ResNet names its shortcuts otherwise, and counts neither ReLU nor max-pool among its children."""
    network = cifar_resnet()
    for block in (b for i in range(1, 5) for b in getattr(network, f"layer{i}")):
        if block.downsample is not None:
            block.shortcut = block.downsample
            del block.downsample
    network.linear = network.fc
    del network.fc, network.relu, network.maxpool, network.avgpool
    return network


def save(path: Path, network: nn.Module, prefix: str = "") -> Path:
    save_file({prefix + k: v.contiguous() for k, v in network.state_dict().items()}, path)
    return path


def digits(n: int = 4) -> torch.Tensor:
    return torch.from_numpy(load_images(config.Data(name="digits")).train[:n]).float() / 127.5 - 1


def equal(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[k], b[k]) for k in a)


def in_form(form: str) -> nn.Module:
    network = lightly_resnet() if "lightly" in form else cifar_resnet()
    if "children" not in form:
        return network
    children = [child for child in network.children() if type(child) is not nn.Linear]
    return nn.Sequential(*(c for c in children if "without" not in form or type(c) is not nn.Identity))


def moco_checkpoint() -> dict[str, torch.Tensor]:
    """As lightly's example saves it: split batch norms, a key encoder and its head."""
    state = {}
    for name in ("backbone", "backbone_momentum"):
        for key, value in nn.Sequential(*list(lightly_resnet().children())[:-1]).state_dict().items():
            state[f"{name}.{key}"] = torch.stack([value * 0.5, value * 1.5]).flatten() if "running" in key else value
    for name in ("projection_head", "projection_head_momentum"):
        state |= {f"{name}.{k}": v for k, v in nn.Linear(512, 128).state_dict().items()}
    return state


def simclr_state() -> dict[str, torch.Tensor]:
    model = opening.fresh_model(settings_for(), load_images(config.Data(name="digits")), 7)
    return {k.replace("projector", "projection_head.layers"): v for k, v in model.state_dict().items()}
