"""Backbones: torchvision's networks but for the stem, and batch norm in groups."""

from math import gcd

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from muc.models.backbones import GroupedBatchNorm, build_backbone, small_image_resnet


def images(n: int, channels: int = 3, size: int = 2, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return 3 * torch.randn(n, channels, size, size, dtype=torch.float64, generator=generator) + 1


def some_affine(norm: nn.BatchNorm2d) -> nn.BatchNorm2d:
    with torch.no_grad():
        norm.weight.copy_(torch.linspace(0.5, 2.0, norm.num_features))
        norm.bias.copy_(torch.linspace(-1.0, 1.0, norm.num_features))
    return norm.double()


@given(rows=st.integers(1, 12), groups=st.integers(1, 8), seed=st.integers(0, 99))
def test_each_group_is_normalised_as_by_a_batch_norm_of_its_own(rows: int, groups: int, seed: int) -> None:
    """Values, gradients and running statistics. A batch that does not divide uses the greatest common divisor."""
    parts = gcd(rows, groups)
    grouped = some_affine(GroupedBatchNorm(3, groups))
    single = [some_affine(nn.BatchNorm2d(3)) for _ in range(parts)]
    x, y = (images(rows, seed=seed).requires_grad_() for _ in range(2))
    mix = images(rows, seed=seed + 1)

    result = grouped(x)
    (mix * result).sum().backward()
    expected = torch.empty_like(result)
    for g, norm in enumerate(single):
        expected[g::parts] = norm(y[g::parts])
    (mix * expected).sum().backward()

    torch.testing.assert_close(result, expected)
    torch.testing.assert_close(x.grad, y.grad)
    torch.testing.assert_close(grouped.weight.grad, sum(norm.weight.grad for norm in single))
    torch.testing.assert_close(grouped.bias.grad, sum(norm.bias.grad for norm in single))
    for name in ("running_mean", "running_var"):
        mean = torch.stack([getattr(norm, name) for norm in single]).mean(0)
        torch.testing.assert_close(getattr(grouped, name), mean, msg=name)
    assert grouped.num_batches_tracked == 1


def test_running_statistics_stay_the_groups_average_over_many_batches() -> None:
    grouped, single = GroupedBatchNorm(3, 4).double(), [nn.BatchNorm2d(3).double() for _ in range(4)]
    for step in range(5):
        x = images(8, seed=step)
        grouped(x)
        for g, norm in enumerate(single):
            norm(x[g::4])
    for name in ("running_mean", "running_var"):
        torch.testing.assert_close(getattr(grouped, name), torch.stack([getattr(n, name) for n in single]).mean(0))
    assert grouped.num_batches_tracked == 5


def test_evaluation_is_ordinary_batch_norm() -> None:
    grouped, plain = some_affine(GroupedBatchNorm(3, 4)), some_affine(nn.BatchNorm2d(3))
    grouped(images(8))
    plain.load_state_dict(grouped.state_dict())
    for rows in (1, 7, 8):
        x = images(rows, seed=1)
        torch.testing.assert_close(grouped.eval()(x), plain.eval()(x), rtol=0, atol=0)
    assert grouped.num_batches_tracked == 1


def test_groups_mix_retain_and_forget_rows() -> None:
    """Rows come sorted, so that neighbours must not share a group: no group may hold one kind alone."""
    grouped = GroupedBatchNorm(1, 4).double()
    x = torch.zeros(16, 1, 1, 1, dtype=torch.float64)
    x[12:] = 1.0  # four forget rows, one for each group
    result = grouped(x).flatten()
    torch.testing.assert_close(result[:12], result[:1].expand(12))
    assert result[12:].min() > 1


RESNETS = {
    "resnet18": (11_689_512, 512),
    "resnet34": (21_797_672, 512),
    "resnet50": (25_557_032, 2048),
    "resnet101": (44_549_160, 2048),
    "resnet152": (60_192_808, 2048),
}  # torchvision's parameter counts with its 7x7 stem and 1000-way classifier


@pytest.mark.parametrize("architecture", RESNETS)
def test_resnets_are_torchvisions_but_for_stem_and_classifier(architecture: str) -> None:
    original, features = RESNETS[architecture]
    with torch.device("meta"):
        network, feature_dim = small_image_resnet(architecture)
    stem, classifier = 64 * 3 * (7 * 7 - 3 * 3), features * 1000 + 1000
    assert sum(p.numel() for p in network.parameters()) == original - stem - classifier
    assert feature_dim == features
    conv1 = network.conv1
    assert (conv1.kernel_size, conv1.stride, conv1.padding, conv1.bias) == ((3, 3), (1, 1), (1, 1), None)
    assert isinstance(network.maxpool, nn.Identity)
    assert isinstance(network.fc, nn.Identity)


@pytest.mark.parametrize("groups", [1, 8])
def test_norm_groups_replace_every_batch_norm(groups: int) -> None:
    with torch.device("meta"):
        network, _ = small_image_resnet("resnet18", norm_groups=groups)
    norms = [m for m in network.modules() if isinstance(m, nn.BatchNorm2d)]
    assert len(norms) == 20
    assert all(isinstance(m, GroupedBatchNorm) == (groups > 1) for m in norms)
    assert all(m.groups == groups for m in norms if isinstance(m, GroupedBatchNorm))


def test_nothing_halves_a_small_image_before_the_second_stage() -> None:
    with torch.device("meta"):
        network, _ = small_image_resnet("resnet18")
        x = network.layer1(network.maxpool(network.conv1(torch.empty(2, 3, 32, 32))))
        assert x.shape == (2, 64, 32, 32)
        assert network.layer4(network.layer3(network.layer2(x))).shape == (2, 512, 4, 4)


@pytest.mark.parametrize(
    ("architecture", "channels"), [("resnet18", 1), ("resnet34", 3), ("resnet50", 3), ("convnet", 1), ("mlp", 3)]
)
def test_every_architecture_gives_the_features_it_promises(architecture: str, channels: int) -> None:
    with torch.device("meta"):
        network, feature_dim = build_backbone(architecture, channels, 16, norm_groups=1)
        assert network(torch.empty(4, channels, 16, 16)).shape == (4, feature_dim)


def test_a_resnet_runs_and_every_weight_gets_a_finite_gradient() -> None:
    torch.manual_seed(0)
    network, _ = small_image_resnet("resnet18", channels=1, norm_groups=2)
    network(torch.randn(4, 1, 8, 8)).square().sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in network.parameters())
