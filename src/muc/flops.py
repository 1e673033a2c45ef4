"""How much arithmetic a step takes, and how much the device can do: together the model FLOP utilisation (MFU)."""

import time
from copy import deepcopy

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from muc.data.loader import BatchPlan
from muc.methods import Method
from muc.models import CLIP, ContrastiveModel
from muc.models.contract import set_fast
from muc.runtime import Runtime


def step_flops(model: ContrastiveModel, method: Method, plan: BatchPlan, shape: tuple[int, ...]) -> int:
    """Of one step on images of `shape`; a backward pass counts as two forward passes."""
    forward = forward_flops(model, shape)
    rows, third = plan.n_retain + plan.n_forget, plan.n_forget if method.third_view else 0
    trained, embedded = model.views_trained, model.views_embedded
    if isinstance(model, CLIP):
        # A third view is one more caption.
        return 3 * (rows * (forward + (text := caption_flops(model))) + third * text)
    # A third view goes where the second went.
    return forward * (rows * (3 * trained + embedded) + third * (1 if embedded else 3))


def caption_flops(model: CLIP) -> int:
    """Of one caption's projection, as torch counts: attention is no module that could be asked."""
    ghost = deepcopy(model).to("meta").eval()
    with FlopCounterMode(display=False) as counter:
        ghost.projected_texts(torch.zeros(1, model.text.context, dtype=torch.long, device="meta"))
    return counter.get_total_flops()


def forward_flops(model: ContrastiveModel, shape: tuple[int, ...]) -> int:
    """Of one image's projection: two for each product and sum of convolutions and linear layers."""
    total = 0

    def count(module: nn.Module, _inputs: tuple[Tensor, ...], output: Tensor) -> None:
        nonlocal total
        weight = module.weight
        assert isinstance(weight, Tensor)
        total += 2 * output.numel() * weight[0].numel()

    ghost = deepcopy(model).to("meta").eval()  # no contents, so that nothing is computed
    set_fast(ghost, False)
    for module in ghost.modules():
        if isinstance(module, (nn.Conv2d, nn.Linear)):
            module.register_forward_hook(count)
    ghost.projected(torch.empty(1, *shape, device="meta"))
    return total


def matmul_rate(runtime: Runtime, size: int = 8192) -> float:
    """FLOP/s of a large matrix product in the run's precision: what the device really reaches, not its data sheet."""
    dtype = torch.bfloat16 if runtime.precision == "bfloat16" else torch.float32
    a, b = (torch.randn(size, size, device=runtime.device, dtype=dtype) for _ in range(2))
    for _ in range(3):
        a @ b
    runtime.wait()
    begun = time.perf_counter()
    for _ in range(10):
        a @ b
    runtime.wait()
    return 10 * 2 * size**3 / (time.perf_counter() - begun)
