"""Optimisers: torch's own fused kernels, with a learning rate that a recorded step sees change, and state by name.

Not torch.optim's classes around these kernels: their first use imports torch's compiler, which is five seconds at the
start of every command. Tests hold the two against each other, bit for bit.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from muc.config import Optimisation


class Optimiser(ABC):
    """Changes `parameters` by their gradients. `slots` are what it remembers: by name, a tensor for each parameter."""

    def __init__(self, parameters: Sequence[Tensor], rate: Tensor) -> None:
        self.parameters, self.rate = list(parameters), rate
        self.slots: dict[str, list[Tensor]] = {}

    def forget_gradients(self) -> None:
        for parameter in self.parameters:
            parameter.grad = None

    @abstractmethod
    def step(self) -> None:
        """With the gradients that the parameters have now; one without a gradient stays as it is."""

    def _with_gradients(self) -> list[int]:
        return [i for i, parameter in enumerate(self.parameters) if parameter.grad is not None]

    def state(self) -> dict[str, Tensor]:
        return {f"{name}.{i}": tensor for name, slot in self.slots.items() for i, tensor in enumerate(slot)}

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """What `state` gave, among whatever else there is in `tensors`."""
        for name, tensor in self.state().items():
            tensor.copy_(tensors[name])


class Sgd(Optimiser):
    """Stochastic gradient descent with momentum and weight decay."""

    def __init__(self, parameters: Sequence[Tensor], rate: Tensor, momentum: float, weight_decay: float = 0.0) -> None:
        super().__init__(parameters, rate)
        self.momentum, self.weight_decay = momentum, weight_decay
        # From zero the first step's momentum is its gradient, as torch.optim has it.
        self.slots = {"momentum": [torch.zeros_like(p) for p in self.parameters]} if momentum else {}

    @torch.no_grad()
    def step(self) -> None:
        used = self._with_gradients()
        torch._fused_sgd_(
            [self.parameters[i] for i in used],
            [gradient for i in used if (gradient := self.parameters[i].grad) is not None],
            [self.slots["momentum"][i] for i in used] if self.slots else [],
            weight_decay=self.weight_decay,
            momentum=self.momentum,
            lr=self.rate,
            dampening=0.0,
            nesterov=False,
            maximize=False,
            is_first_step=False,
        )


class AdamW(Optimiser):
    """Adam with decoupled weight decay, of matrices alone: biases, norms and a temperature need not be kept small."""

    EPSILON = 1e-6  # CLIP's

    def __init__(self, parameters: Sequence[Tensor], rate: Tensor, settings: Optimisation) -> None:
        # Matrices first: states saved by earlier versions are numbered so.
        super().__init__([p for p in parameters if p.ndim >= 2] + [p for p in parameters if p.ndim < 2], rate)
        self.settings = settings
        self.slots = {
            "mean": [torch.zeros_like(p) for p in self.parameters],
            "square": [torch.zeros_like(p) for p in self.parameters],
            "count": [torch.zeros((), device=p.device) for p in self.parameters],
        }

    @torch.no_grad()
    def step(self) -> None:
        used = self._with_gradients()
        for chosen, decay in (
            ([i for i in used if self.parameters[i].ndim >= 2], self.settings.weight_decay),
            ([i for i in used if self.parameters[i].ndim < 2], 0.0),
        ):
            if not chosen:
                continue
            counts = [self.slots["count"][i] for i in chosen]
            torch._foreach_add_(counts, 1)
            torch._fused_adamw_(
                [self.parameters[i] for i in chosen],
                [gradient for i in chosen if (gradient := self.parameters[i].grad) is not None],
                [self.slots["mean"][i] for i in chosen],
                [self.slots["square"][i] for i in chosen],
                [],
                counts,
                lr=self.rate,
                beta1=self.settings.momentum,
                beta2=self.settings.square_momentum,
                weight_decay=decay,
                eps=self.EPSILON,
                amsgrad=False,
                maximize=False,
            )


def make_optimiser(model: nn.Module, settings: Optimisation, rate: Tensor) -> Optimiser:
    """`rate` is a tensor on the parameters' device, so that a recorded step sees it change."""
    trained = [p for p in model.parameters() if p.requires_grad]
    if settings.optimiser == "sgd":
        return Sgd(trained, rate, settings.momentum, settings.weight_decay)
    return AdamW(trained, rate, settings)


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
