"""The fused norm against torch's batch norm, group by group."""

import pytest
import torch
from torch import Tensor
from torch.nn.functional import batch_norm

from muc.kernels import norm

MOMENTUM, EPS = 0.1, 1e-5
CASES = [  # images, channels, side, groups, residual, relu: tiles that are full, cut off, and several
    (8, 20, 8, 1, False, True),
    (8, 70, 8, 4, True, True),
    (6, 5, 3, 2, False, False),
    (4, 64, 4, 2, True, True),
    (4, 64, 4, 1, True, False),
]


def inputs(images: int, channels: int, side: int, residual: bool, device: str, dtype: torch.dtype) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(images * channels)

    def random(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    shape = (images, channels, side, side)
    made = {"x": 2 * random(*shape) + 5, "weight": 1 + 0.3 * random(channels), "bias": random(channels)}
    if residual:
        made["residual"] = random(*shape)
    return {name: value.to(device, dtype).requires_grad_() for name, value in made.items()}


def plain(values: dict[str, Tensor], running: tuple[Tensor, Tensor, Tensor], groups: int, relu: bool) -> Tensor:
    means, variances = running[0].repeat(groups, 1), running[1].repeat(groups, 1)
    parts = [
        batch_norm(part, means[g], variances[g], values["weight"], values["bias"], True, MOMENTUM, EPS)
        for g, part in enumerate(values["x"].chunk(groups))
    ]
    running[0].copy_(means.mean(0))
    running[1].copy_(variances.mean(0))
    y = torch.cat(parts) + values.get("residual", 0)
    return y.relu() if relu else y


def fused(values: dict[str, Tensor], running: tuple[Tensor, Tensor, Tensor], groups: int, relu: bool) -> Tensor:
    first, second = norm.train(
        values["x"], values.get("residual"), values["weight"], values["bias"], running, groups, MOMENTUM, EPS, relu
    )
    assert torch.equal(first, second)
    return (0.25 * first + 0.75 * second) if groups != 2 else first  # with two readers, and with one


def statistics(channels: int, device: str, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor, Tensor]:
    mean = torch.linspace(-1, 4, channels, device=device, dtype=dtype)
    return mean, torch.ones_like(mean), torch.zeros((), dtype=torch.long, device=device)


@pytest.mark.parametrize("case", CASES)
def test_values_gradients_and_running_statistics_are_batch_norms(case: tuple, device: str, monkeypatch) -> None:
    images, channels, side, groups, residual, relu = case
    monkeypatch.setattr(norm, "PROGRAMS", 8)  # so that sums are shared even here
    expected = inputs(images, channels, side, residual, "cpu", torch.float64)
    found = inputs(images, channels, side, residual, device, torch.float32)
    mix = torch.randn(images, channels, side, side, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    theirs, ours = statistics(channels, "cpu", torch.float64), statistics(channels, device)
    y = plain(expected, theirs, groups, relu)
    (mix * y).sum().backward()
    z = fused(found, ours, groups, relu)
    (mix.to(device, torch.float32) * z).sum().backward()
    torch.testing.assert_close(z.double().cpu(), y, rtol=1e-4, atol=1e-4)
    for name, value in found.items():
        torch.testing.assert_close(value.grad.double().cpu(), expected[name].grad, rtol=1e-3, atol=2e-4, msg=name)
    torch.testing.assert_close(ours[0].double().cpu(), theirs[0], rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(ours[1].double().cpu(), theirs[1], rtol=1e-4, atol=1e-5)
    assert ours[2] == 1


def test_a_far_mean_costs_no_digits_once_the_running_mean_is_near(device: str) -> None:
    x = torch.randn(8, 4, 8, 8, device=device, generator=torch.Generator(device).manual_seed(0)) + 1000
    running = (torch.full((4,), 1000.0, device=device), torch.ones(4, device=device), torch.zeros((), device=device))
    ones, zeros = torch.ones(4, device=device), torch.zeros(4, device=device)
    y, _ = norm.train(x, None, ones, zeros, running, 1, MOMENTUM, EPS, False)
    torch.testing.assert_close(y.var(dim=(0, 2, 3), correction=0), torch.ones(4, device=device), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("residual", [False, True])
def test_evaluation_uses_running_statistics_and_leaves_them(residual: bool, device: str) -> None:
    values = inputs(3, 20, 5, residual, device, torch.float32)
    running = statistics(20, device)
    before = [value.clone() for value in running]
    with torch.no_grad():
        found = norm.evaluate(
            values["x"], values.get("residual"), values["weight"], values["bias"], running, EPS, relu=True
        )
        y = batch_norm(values["x"], running[0], running[1], values["weight"], values["bias"], False, 0, EPS)
    torch.testing.assert_close(found, (y + values.get("residual", 0)).relu(), rtol=1e-5, atol=1e-5)
    assert all(torch.equal(a, b) for a, b in zip(running, before, strict=True))


def test_the_same_input_gives_the_same_bits(device: str) -> None:
    results = []
    for _ in range(2):
        values = inputs(8, 70, 4, True, device, torch.float32)
        fused(values, statistics(70, device), 4, True).square().sum().backward()
        results.append([value.grad for value in values.values()])
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))


def test_a_group_of_one_value_is_refused_as_torch_does() -> None:
    values = inputs(2, 5, 1, False, "cpu", torch.float32)
    running = (torch.zeros(5), torch.ones(5), torch.zeros((), dtype=torch.long))
    with pytest.raises(ValueError, match="more than 1 value per channel"):
        norm.train(values["x"], None, values["weight"], values["bias"], running, 2, MOMENTUM, EPS, relu=True)
