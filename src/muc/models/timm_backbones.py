"""Backbones of timm (the extra 'timm'), freshly initialised: nothing is downloaded."""

from copy import deepcopy

import torch
from torch import nn
from torch.nn.modules.dropout import _DropoutNd

from muc.config import TIMM
from muc.errors import UserError, check_name, missing
from muc.models.norm import BatchNorm


def timm_backbone(architecture: str, channels: int, image_size: int, norm_groups: int = 1) -> tuple[nn.Module, int]:
    """-> (network, feature_dim) of "timm/NAME", made for images of this size where it is made for one."""
    try:
        import timm
    except ImportError:
        raise missing(f"architecture '{architecture}'", "timm") from None

    name = check_name("timm model", architecture.removeprefix(TIMM), timm.list_models())
    fault = f"{architecture} cannot be built for images of {image_size} pixels"
    try:
        network = _create(name, channels, image_size)
        feature_dim = _feature_dim(network, channels, image_size)
    except (TypeError, ValueError, AssertionError, RuntimeError) as error:
        detail = f" ({told})" if (told := str(error).partition("\n")[0]) else ""
        raise UserError(f"{fault}{detail}; give images of another size, or another architecture") from None
    make_repeatable(network)
    if feature_dim is None:
        raise UserError(f"{fault} and give one vector an image; give another architecture")
    if norm_groups > 1:
        split_norms(network, norm_groups)
    return network, feature_dim


def _create(name: str, channels: int, image_size: int) -> nn.Module:
    import timm

    try:  # transformers are made for one size
        return timm.create_model(name, num_classes=0, in_chans=channels, img_size=image_size)
    except TypeError:
        return timm.create_model(name, num_classes=0, in_chans=channels)


def _feature_dim(network: nn.Module, channels: int, image_size: int) -> int | None:
    ghost = deepcopy(network).to("meta").eval()  # shapes alone: nothing is computed
    features = ghost(torch.empty(2, channels, image_size, image_size, device="meta"))
    return features.shape[1] if features.ndim == 2 else None


def make_repeatable(network: nn.Module) -> None:
    """Dropout and dropped paths draw from torch's own generator, which no run saves: a run that is resumed would end
    with other bits."""
    from timm.layers import DropPath

    for module in network.modules():
        if isinstance(module, _DropoutNd):
            module.p = 0.0
        elif isinstance(module, DropPath):
            module.drop_prob = 0.0


def split_norms(network: nn.Module, groups: int) -> None:
    """Plain batch norms become ones over groups (MoCo), with their values; timm's own kinds of norm stay whole."""
    for name, child in network.named_children():
        if type(child) is not nn.BatchNorm2d:
            split_norms(child, groups)
            continue
        norm = BatchNorm(child.num_features, groups).to(child.weight.device)
        norm.eps, norm.momentum = child.eps, child.momentum
        norm.load_state_dict(child.state_dict())
        setattr(network, name, norm)
