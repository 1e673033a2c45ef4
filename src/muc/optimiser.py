"""The optimiser of a training: made from its settings, its learning rate over time, and its state in named tensors."""

import math

import torch
from torch import Tensor, nn

from muc.config import Optimisation

SLOTS = {"momentum": "momentum_buffer", "mean": "exp_avg", "square": "exp_avg_sq", "count": "step"}
"""How a state's tensors are saved: our name -> torch's."""


def make_optimiser(model: nn.Module, settings: Optimisation, learning_rate: Tensor) -> torch.optim.Optimizer:
    """`learning_rate` is a tensor on the parameters' device, so that a recorded step sees the rate change."""
    trained = [p for p in model.parameters() if p.requires_grad]
    if settings.optimiser == "sgd":
        decay = settings.weight_decay
        return torch.optim.SGD(trained, lr=learning_rate, momentum=settings.momentum, weight_decay=decay, fused=True)
    # Biases, norms and the temperature have no size to keep small.
    groups = [
        {"params": [p for p in trained if p.ndim >= 2], "weight_decay": settings.weight_decay},
        {"params": [p for p in trained if p.ndim < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(
        [group for group in groups if group["params"]],
        lr=learning_rate,
        betas=(settings.momentum, settings.square_momentum),
        eps=1e-6,  # CLIP's
        fused=True,
        capturable=learning_rate.is_cuda,
    )


def rate_at(settings: Optimisation, epoch: int, step: int, steps: int) -> float:
    """The learning rate of a step. Without warm-up it changes once an epoch, with it at every step."""
    now, end, warm = epoch, settings.epochs, 0.0
    if settings.warmup_epochs:
        now, end, warm = epoch * steps + step, end * steps, settings.warmup_epochs * steps
        if now < warm:
            return settings.learning_rate * min(1.0, (now + 1) / warm)
    if settings.schedule == "constant":
        return settings.learning_rate
    return settings.learning_rate * (0.5 * (1 + math.cos(math.pi * (now - warm) / (end - warm))))


def optimiser_state(optimiser: torch.optim.Optimizer) -> dict[str, Tensor]:
    """What the optimiser remembers, by slot and parameter; nothing before the first step."""
    return {
        f"{name}.{i}": optimiser.state[parameter][slot]
        for i, parameter in enumerate(_parameters(optimiser))
        for name, slot in SLOTS.items()
        if optimiser.state[parameter].get(slot) is not None
    }


def restore_optimiser(optimiser: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> None:
    """Put back what `optimiser_state` gave, among whatever else there is in `tensors`."""
    for i, parameter in enumerate(_parameters(optimiser)):
        for name, slot in SLOTS.items():
            if (saved := tensors.get(f"{name}.{i}")) is None:
                continue
            # In the parameter's memory format; a count is a number.
            like = parameter.detach() if saved.shape == parameter.shape else saved
            optimiser.state[parameter][slot] = torch.empty_like(like, device=parameter.device).copy_(saved)


def _parameters(optimiser: torch.optim.Optimizer) -> list[Tensor]:
    return [p for group in optimiser.param_groups for p in group["params"]]
