"""Convolutions for GPUs that are kept busy: weights are cast once a step, and their gradients are computed beside the
rest of the backward pass.

The gradient by the weights leads nowhere further, so that it need not be waited for: it runs on a stream of its own
while the main one works on the norm's backward, which is bound by memory where this is bound by arithmetic.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from muc.models.lane import Lane


class Convolution(nn.Conv2d):
    """nn.Conv2d without bias; between `prepare` and `release` with what was prepared."""

    ready: Tensor | None = None
    lane: Lane | None = None

    def __init__(self, channels: int, out: int, size: int, stride: int = 1) -> None:
        super().__init__(channels, out, size, stride, size // 2, bias=False)

    def forward(self, input: Tensor) -> Tensor:
        if self.ready is None:
            return super().forward(input)
        return _Convolve.apply(input.to(self.ready.dtype), self.ready, self.stride, self.padding, self.lane)


def prepare(convolutions: Sequence[Convolution], lane: Lane, dtype: torch.dtype) -> None:
    """Cast all weights at once. Their gradients are ready when the lane is joined, at the end of the backward pass."""
    weights = _Prepare.apply(lane, dtype, *(convolution.weight for convolution in convolutions))
    for convolution, weight in zip(convolutions, weights, strict=True):
        convolution.ready, convolution.lane = weight, lane


def release(convolutions: Sequence[Convolution]) -> None:
    for convolution in convolutions:
        convolution.ready = None


class _Prepare(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, lane: Lane, dtype: torch.dtype, *weights: Tensor) -> tuple[Tensor, ...]:
        ctx.lane, ctx.dtype = lane, weights[0].dtype
        return cast_all(weights, dtype)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Any, ...]:
        ctx.lane.join()
        ctx.lane.keep(*gradients)
        return None, None, *cast_all(gradients, ctx.dtype)


def cast_all(tensors: Sequence[Tensor], dtype: torch.dtype) -> tuple[Tensor, ...]:
    """New tensors of another type, in one kernel."""
    results = tuple(torch.empty_like(tensor, dtype=dtype) for tensor in tensors)
    torch._foreach_copy_(list(results), list(tensors))
    return results


class _Convolve(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, stride: Any, padding: Any, lane: Lane) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.stride, ctx.padding, ctx.lane = stride, padding, lane
        return torch.nn.functional.conv2d(x, weight, None, stride, padding)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (x, weight), (dy,) = ctx.saved_tensors, gradients

        def gradient(of: Sequence[bool]) -> Any:
            return torch.ops.aten.convolution_backward(
                dy, x, weight, None, ctx.stride, ctx.padding, (1, 1), False, (0, 0), 1, of
            )

        ctx.lane.join()
        dx = gradient((True, False, False))[0]
        with ctx.lane.beside(x, dy):
            dweight = gradient((False, True, False))[1]
        return dx, dweight, None, None, None
