"""Backbones: torchvision's networks but for the stem, and batch norm in groups."""

from math import gcd

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torchvision.models import resnet

from muc.models.backbones import build_backbone
from muc.models.norm import BatchNorm
from muc.models.resnet import DEPTHS, ResNet


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
    grouped = some_affine(BatchNorm(3, groups))
    single = [some_affine(nn.BatchNorm2d(3)) for _ in range(parts)]
    x, y = (images(rows, seed=seed).requires_grad_() for _ in range(2))
    mix = images(rows, seed=seed + 1)

    result = grouped(x)
    (mix * result).sum().backward()
    expected = torch.empty_like(result)
    for g, norm in enumerate(single):
        mine = slice(g * rows // parts, (g + 1) * rows // parts)
        expected[mine] = norm(y[mine])
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
    grouped, single = BatchNorm(3, 4).double(), [nn.BatchNorm2d(3).double() for _ in range(4)]
    for step in range(5):
        x = images(8, seed=step)
        grouped(x)
        for g, norm in enumerate(single):
            norm(x[2 * g : 2 * g + 2])
    for name in ("running_mean", "running_var"):
        torch.testing.assert_close(getattr(grouped, name), torch.stack([getattr(n, name) for n in single]).mean(0))
    assert grouped.num_batches_tracked == 5


def test_evaluation_is_ordinary_batch_norm() -> None:
    grouped, plain = some_affine(BatchNorm(3, 4)), some_affine(nn.BatchNorm2d(3))
    grouped(images(8))
    plain.load_state_dict(grouped.state_dict())
    for rows in (1, 7, 8):
        x = images(rows, seed=1)
        torch.testing.assert_close(grouped.eval()(x), plain.eval()(x), rtol=0, atol=0)
    assert grouped.num_batches_tracked == 1


def torchvisions(architecture: str) -> nn.Module:
    """torchvision's network with our stem, and neither max-pool nor classifier."""
    network = getattr(resnet, architecture)(weights=None)
    network.conv1 = nn.Conv2d(3, 64, kernel_size=3, stride=1, padding=1, bias=False)
    network.maxpool = network.fc = nn.Identity()
    return network


@pytest.mark.parametrize("architecture", DEPTHS)
def test_resnets_have_torchvisions_names_and_shapes(architecture: str) -> None:
    with torch.device("meta"):
        ours, theirs = ResNet(architecture), torchvisions(architecture)
    shapes = {name: value.shape for name, value in ours.state_dict().items()}
    assert shapes == {name: value.shape for name, value in theirs.state_dict().items()}
    strides = [m.stride for m in ours.modules() if isinstance(m, nn.Conv2d)]
    assert strides == [m.stride for m in theirs.modules() if isinstance(m, nn.Conv2d)]


@pytest.mark.parametrize("architecture", ["resnet18", "resnet50"])
def test_resnets_compute_what_torchvisions_do(architecture: str) -> None:
    """Features, every gradient and the running statistics; then in evaluation."""
    torch.manual_seed(0)
    ours, theirs = ResNet(architecture).double(), torchvisions(architecture).double()
    theirs.load_state_dict(ours.state_dict())
    x = torch.randn(4, 3, 16, 16, dtype=torch.float64)
    for network in (ours, theirs):
        network(x).square().sum().backward()
    for (name, a), (_, b) in zip(ours.named_parameters(), theirs.named_parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad, msg=name)
    torch.testing.assert_close(ours.state_dict(), theirs.state_dict())
    torch.testing.assert_close(ours.eval()(x), theirs.eval()(x))


def test_without_stem_relu_the_first_block_sees_negative_values() -> None:
    torch.manual_seed(0)
    network = ResNet("resnet18", stem_relu=False)
    seen: list[Tensor] = []
    network.layer1.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0][0]))
    network(torch.randn(2, 3, 8, 8))
    assert seen[0].min() < 0
    network.stem_relu = True
    network(torch.randn(2, 3, 8, 8))
    assert seen[1].min() == 0


@pytest.mark.parametrize("groups", [1, 8])
def test_norm_groups_reach_every_batch_norm(groups: int) -> None:
    with torch.device("meta"):
        network = ResNet("resnet50", groups=groups)
    norms = [m for m in network.modules() if isinstance(m, nn.BatchNorm2d)]
    assert len(norms) == 53
    assert all(isinstance(m, BatchNorm) and m.groups == groups for m in norms)


@pytest.mark.parametrize(
    ("architecture", "channels"), [("resnet18", 1), ("resnet34", 3), ("resnet50", 3), ("convnet", 1), ("mlp", 3)]
)
def test_every_architecture_gives_the_features_it_promises(architecture: str, channels: int) -> None:
    with torch.device("meta"):
        network, feature_dim = build_backbone(architecture, channels, 16, norm_groups=1)
        assert network(torch.empty(4, channels, 16, 16)).shape == (4, feature_dim)


def test_a_resnet_runs_and_every_weight_gets_a_finite_gradient() -> None:
    torch.manual_seed(0)
    network = ResNet("resnet18", channels=1, groups=2)
    network(torch.randn(4, 1, 8, 8)).square().sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in network.parameters())
