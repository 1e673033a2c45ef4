"""FLOP counts against torch's own counter and the known figure for ResNet-18."""

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from muc.config import Runtime as RuntimeSettings
from muc.config import recipe
from muc.data.loader import plan_batches
from muc.flops import forward_flops, matmul_rate, step_flops
from muc.methods import METHODS, AlignmentCalibration, Method
from muc.models import Batch, build_model
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


def test_a_forward_pass_of_resnet18_is_the_known_figure() -> None:
    model = build_model(recipe("cifar10", "moco").model, 3, 32)
    assert forward_flops(model, (3, 32, 32)) == pytest.approx(1.11e9, rel=0.01)


def test_the_device_multiplies_matrices() -> None:
    assert 1e8 < matmul_rate(Runtime(RuntimeSettings(device="cpu", threads=1)), size=256) < 1e14
