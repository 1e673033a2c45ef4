"""The first convolution: 3x3, from three channels to many. So few channels leave cuDNN's kernels mostly idle; here each
pixel's 27 neighbours are one row of a matrix product, gathered on the way into it.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

ROWS = 128  # pixels a program multiplies at a time
NEIGHBOURS, CHANNELS = 32, 64  # 27, and zeros up to what the matrix units take; results at a time
TILE: dict[str, Any] = {"ROWS": ROWS, "NEIGHBOURS": NEIGHBOURS, "CHANNELS": CHANNELS}
PROGRAMS = 528  # that share the sum over all pixels: four for each multiprocessor of a large GPU


@triton.jit
def _neighbours(x, pixel, pixels, height, width, NEIGHBOURS: tl.constexpr):
    """(len(pixel), NEIGHBOURS): the values around each pixel of channels_last images, zeros beyond the edges."""
    k = tl.arange(0, NEIGHBOURS)[None, :]
    column = (pixel % width)[:, None] + (k // 3) % 3 - 1
    row = ((pixel // width) % height)[:, None] + k // 9 - 1
    inside = (column >= 0) & (column < width) & (row >= 0) & (row < height) & (k < 27) & (pixel < pixels)[:, None]
    shift = ((k // 9 - 1) * width + (k // 3) % 3 - 1) * 3 + k % 3
    return tl.load(x + pixel[:, None].to(tl.int64) * 3 + shift, mask=inside, other=0)


@triton.jit
def _convolve(
    x, weight, y, pixels, height, width, channels,
    ROWS: tl.constexpr, NEIGHBOURS: tl.constexpr, CHANNELS: tl.constexpr,
):  # fmt: skip
    pixel = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    k, channel = tl.arange(0, NEIGHBOURS)[:, None], tl.program_id(1) * CHANNELS + tl.arange(0, CHANNELS)[None, :]
    patch = _neighbours(x, pixel, pixels, height, width, NEIGHBOURS).to(y.dtype.element_ty)
    kernel = tl.load(weight + channel * 27 + k, mask=(k < 27) & (channel < channels), other=0).to(y.dtype.element_ty)
    value = tl.dot(patch, kernel, input_precision="ieee")
    at = y + pixel[:, None].to(tl.int64) * channels + channel
    tl.store(at, value.to(y.dtype.element_ty), mask=(pixel < pixels)[:, None] & (channel < channels))


@triton.jit
def _sum_products(
    x, dy, sums, pixels, height, width, channels, share,
    ROWS: tl.constexpr, NEIGHBOURS: tl.constexpr, CHANNELS: tl.constexpr,
):  # fmt: skip
    """Sum of neighbours times gradient over a share of the pixels, (parts, NEIGHBOURS, channels)."""
    part = tl.program_id(0)
    channel = tl.program_id(1) * CHANNELS + tl.arange(0, CHANNELS)[None, :]
    total = tl.zeros((NEIGHBOURS, CHANNELS), tl.float32)
    end = tl.minimum(part * share + share, pixels)
    for start in range(part * share, end, ROWS):
        pixel = start + tl.arange(0, ROWS)
        patch = _neighbours(x, pixel, end, height, width, NEIGHBOURS).to(dy.dtype.element_ty)
        at = dy + pixel[:, None].to(tl.int64) * channels + channel
        gradient = tl.load(at, mask=(pixel < end)[:, None] & (channel < channels), other=0)
        total += tl.dot(tl.trans(patch), gradient, input_precision="ieee")
    k = tl.arange(0, NEIGHBOURS)[:, None]
    tl.store(sums + (part * NEIGHBOURS + k) * channels + channel, total, mask=channel < channels)


class _Stem(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, dtype: torch.dtype) -> Tensor:
        n, _, height, width = x.shape
        channels = len(weight)
        x, weight = (value.contiguous(memory_format=torch.channels_last) for value in (x, weight))
        y = torch.empty(n, channels, height, width, device=x.device, dtype=dtype, memory_format=torch.channels_last)
        pixels = n * height * width
        grid = (triton.cdiv(pixels, ROWS), triton.cdiv(channels, CHANNELS))
        _convolve[grid](x, weight, y, pixels, height, width, channels, **TILE)
        ctx.save_for_backward(x)
        return y

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (x,), (dy,) = ctx.saved_tensors, gradients
        n, channels, height, width = dy.shape
        pixels = n * height * width
        share = triton.cdiv(triton.cdiv(pixels, ROWS), PROGRAMS) * ROWS
        parts = triton.cdiv(pixels, share)
        sums = torch.empty(parts, NEIGHBOURS, channels, device=x.device)
        _sum_products[parts, triton.cdiv(channels, CHANNELS)](
            x, dy.contiguous(memory_format=torch.channels_last), sums, pixels, height, width, channels, share,
            **TILE,
        )  # fmt: skip
        gradient = sums.sum(0)[:27].T.reshape(channels, 3, 3, 3).permute(0, 3, 1, 2)
        return None, gradient, None


def convolve(x: Tensor, weight: Tensor, dtype: torch.dtype) -> Tensor:
    """(n, 3, h, w) images, (c, 3, 3, 3) -> (n, c, h, w) of `dtype`, padded by one; differentiable by the weight."""
    return _Stem.apply(x, weight, dtype)
