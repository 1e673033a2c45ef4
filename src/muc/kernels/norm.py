"""Batch norm in groups, with the residual and the ReLU that follow it, over channels_last images."""

from typing import Any

import torch
import triton
from torch import Tensor

from muc.kernels.norm_passes import (
    close_gradients,
    close_moments,
    normalise,
    spread_gradients,
    sum_gradients,
    sum_moments,
)

ROWS, COLUMNS = 64, 64  # of the tile a program works on
TALL_ROWS = 128  # where the gradient of a plain norm is summed: more loads in flight, and registers still suffice
PROGRAMS = 528  # that share a sum: four for each multiprocessor of a large GPU
ADDING = {"PARTIALS": 128, "COLUMNS": 16}  # partial sums and channels that a program adds up at a time


class _Shape:
    """How a batch is cut into tiles and shares."""

    def __init__(self, x: Tensor, groups: int, tile: int = ROWS) -> None:
        self.tile = tile
        images, self.channels, height, width = x.shape
        self.groups = groups
        self.rows = images * height * width // groups
        self.columns = triton.cdiv(self.channels, COLUMNS)
        parts = max(1, PROGRAMS // (groups * self.columns))
        self.share = triton.cdiv(triton.cdiv(self.rows, tile), parts) * tile
        self.parts = triton.cdiv(self.rows, self.share)

    @property
    def sizes(self) -> tuple[int, int, int]:
        return self.rows, self.groups, self.channels

    @property
    def tiling(self) -> dict[str, Any]:
        return {"ROWS": self.tile, "COLUMNS": COLUMNS}

    def sums(self, x: Tensor) -> Tensor:
        return torch.empty(self.groups, self.parts, 2, self.channels, device=x.device)

    def over_shares(self, kernel: Any) -> Any:
        return kernel[self.parts, self.groups, self.columns]

    def over_tiles(self, kernel: Any) -> Any:
        return kernel[triton.cdiv(self.rows, self.tile), self.groups, self.columns]

    def over_channels(self, kernel: Any) -> Any:
        return kernel[triton.cdiv(self.channels, ADDING["COLUMNS"]), self.groups]


def channels_last(x: Tensor) -> Tensor:
    return x.contiguous(memory_format=torch.channels_last)


class _BatchNorm(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        residual: Tensor | None,
        weight: Tensor,
        bias: Tensor,
        running: tuple[Tensor, Tensor, Tensor],
        groups: int,
        momentum: float,
        eps: float,
        relu: bool,
    ) -> tuple[Tensor, Tensor]:
        x = channels_last(x)
        residual = None if residual is None else channels_last(residual)
        shape = _Shape(x, groups)
        if shape.rows < 2:
            raise ValueError("a norm needs more than 1 value per channel when training")  # in torch's words
        mean, var = torch.empty(2, groups, shape.channels, device=x.device).unbind()
        sums = shape.sums(x)
        shape.over_shares(sum_moments)(x, running[0], sums, *shape.sizes, shape.share, **shape.tiling)
        shape.over_channels(close_moments)(
            sums, running[0], mean, var, shape.parts, shape.rows, shape.channels, **ADDING
        )
        y = _apply(shape, x, residual, mean, var, weight, bias, running, momentum, eps, relu, train=True)
        ctx.save_for_backward(x, y if residual is not None and relu else None, mean, var, weight, bias)
        ctx.shape, ctx.eps, ctx.relu, ctx.residual = shape, eps, relu, residual is not None
        ctx.set_materialize_grads(False)
        return y, y.view_as(y)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        x, y, mean, var, weight, bias = ctx.saved_tensors
        shape = ctx.shape
        first, *others = (channels_last(gradient) for gradient in gradients if gradient is not None)
        second = others[0] if others else None
        masked = ctx.residual and ctx.relu
        passed = torch.empty_like(first) if masked or second is not None else first
        summing = _Shape(x, shape.groups, TALL_ROWS if passed is first else ROWS)
        sums, means = summing.sums(x), torch.empty(shape.groups, 2, shape.channels, device=x.device)
        dweight, dbias = torch.empty_like(weight), torch.empty_like(bias)
        norm = (mean, var, weight, bias)
        summing.over_shares(sum_gradients)(
            first, second, x, y, passed, sums, *norm, *shape.sizes, summing.share, ctx.eps,
            RELU=ctx.relu, RESIDUAL=masked, ALSO=second is not None, **summing.tiling,
        )  # fmt: skip
        shape.over_channels(close_gradients)(sums, means, summing.parts, shape.rows, shape.channels, **ADDING)
        dx = torch.empty_like(x)
        shape.over_tiles(spread_gradients)(
            passed, x, dx, means, dweight, dbias, *norm, *shape.sizes, ctx.eps,
            RELU=ctx.relu and passed is first, **shape.tiling,
        )  # fmt: skip
        return dx, passed if ctx.residual else None, dweight, dbias, None, None, None, None, None


def _apply(
    shape: _Shape,
    x: Tensor,
    residual: Tensor | None,
    mean: Tensor,
    var: Tensor,
    weight: Tensor,
    bias: Tensor,
    running: tuple[Tensor, Tensor, Tensor],
    momentum: float,
    eps: float,
    relu: bool,
    train: bool,
) -> Tensor:
    y = torch.empty_like(x)
    shape.over_tiles(normalise)(
        x, residual, y, mean, var, weight, bias, *running, *shape.sizes, momentum, eps,
        TRAIN=train, RESIDUAL=residual is not None, RELU=relu, **shape.tiling,
    )  # fmt: skip
    return y


def train(
    x: Tensor,
    residual: Tensor | None,
    weight: Tensor,
    bias: Tensor,
    running: tuple[Tensor, Tensor, Tensor],  # mean, variance, number of batches; updated in place
    groups: int,
    momentum: float,
    eps: float,
    relu: bool,
) -> tuple[Tensor, Tensor]:
    """Normalise each group of images by its own statistics, add the residual, cut off below zero; differentiable.

    The result comes twice: where it has two readers, their gradients are then added on the way and not in a pass of
    their own.
    """
    return _BatchNorm.apply(x, residual, weight, bias, running, groups, momentum, eps, relu)


def evaluate(
    x: Tensor,
    residual: Tensor | None,
    weight: Tensor,
    bias: Tensor,
    running: tuple[Tensor, Tensor, Tensor],
    eps: float,
    relu: bool,
) -> Tensor:
    """The same by running statistics; not differentiable."""
    x = channels_last(x)
    residual = None if residual is None else channels_last(residual)
    mean, var, _ = running
    return _apply(_Shape(x, 1), x, residual, mean, var, weight, bias, running, 0.0, eps, relu, train=False)
