"""FLOP counts against torch's own counter and the known figure for ResNet-18."""

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from muc.config import Model
from muc.config import Runtime as RuntimeSettings
from muc.data.loader import plan_batches
from muc.flops import forward_flops, matmul_rate, step_flops
from muc.methods import METHODS, AlignmentCalibration, Method
from muc.models import Batch, build_model
from muc.recipes import recipe
from muc.runtime import Runtime


@pytest.mark.parametrize("algorithm", ["simclr", "moco"])
@pytest.mark.parametrize("method", [METHODS["retrain"](), AlignmentCalibration(reading="compat")], ids=["two", "third"])
def test_steps_count_as_torch_counts_them(algorithm: str, method: Method) -> None:
    rows = np.arange(96)
    plan = plan_batches(rows[32:], rows[:32], method.rows, 48, 0)
    model = build_model(recipe("cifar10", algorithm).model, 3, 16)
    ghost, n = build_model(recipe("cifar10", algorithm).model, 3, 16).to("meta"), plan.n_retain + plan.n_forget

    def images(count: int) -> torch.Tensor:
        return torch.empty(count, 3, 16, 16, device="meta")

    third = images(plan.n_forget) if method.third_view else None
    batch = Batch(images(n), images(n), plan.n_retain, torch.empty(n, device="meta"), plan.epsilon, third)
    with FlopCounterMode(display=False) as counter:
        torch.stack(list(method.loss(ghost, batch).values())).sum().backward()
    # Torch leaves out the stem's gradient by the images and counts the similarities.
    assert step_flops(model, method, plan, (3, 16, 16)) == pytest.approx(counter.get_total_flops(), rel=0.02)


@pytest.mark.parametrize("method", [METHODS["retrain"](), AlignmentCalibration(reading="compat")], ids=["two", "third"])
def test_steps_on_pairs_count_as_torch_counts_them(method: Method) -> None:
    rows = np.arange(96)
    plan = plan_batches(rows[32:], rows[:32], method.rows, 48, 0)
    model = build_model(Model("clip", architecture="resnet18", temperature=0.07), 3, 16)
    n = plan.n_retain + plan.n_forget
    tokens = torch.zeros(n, 72, dtype=torch.long, device="meta")
    third = tokens[plan.n_retain :] if method.third_view else None
    images, weight = torch.empty(n, 3, 16, 16, device="meta"), torch.empty(n, device="meta")
    ghost = build_model(Model("clip", architecture="resnet18", temperature=0.07), 3, 16).to("meta")
    with FlopCounterMode(display=False) as counter:
        terms = method.loss(ghost, Batch(images, tokens, plan.n_retain, weight, plan.epsilon, third))
        torch.stack(list(terms.values())).sum().backward()
    assert step_flops(model, method, plan, (3, 16, 16)) == pytest.approx(counter.get_total_flops(), rel=0.02)


def test_a_forward_pass_of_resnet18_is_the_known_figure() -> None:
    model = build_model(recipe("cifar10", "moco").model, 3, 32)
    assert forward_flops(model, (3, 32, 32)) == pytest.approx(1.11e9, rel=0.01)


def test_the_device_multiplies_matrices() -> None:
    assert 1e8 < matmul_rate(Runtime(RuntimeSettings(device="cpu", threads=1)), size=256) < 1e14
