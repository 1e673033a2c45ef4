"""A random view as one program: an image's crop, jitters, grayscale and normalisation without leaving the registers."""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from muc.augment import CONTRAST, HUE, LUMA, SATURATION, ViewParameters
from muc.config import IMAGENET_MEAN, IMAGENET_STD, Views

LARGEST = 64  # pixels a side that still fit into a program's registers

_CONTRAST, _SATURATION, _HUE = tl.constexpr(CONTRAST), tl.constexpr(SATURATION), tl.constexpr(HUE)
_RED, _GREEN, _BLUE = (tl.constexpr(weight) for weight in LUMA)
_MEAN_R, _MEAN_G, _MEAN_B = (tl.constexpr(mean) for mean in IMAGENET_MEAN)
_STD_R, _STD_G, _STD_B = (tl.constexpr(std) for std in IMAGENET_STD)


@triton.jit
def _resize_weights(start, length, mirrored, full, size, BLOCK: tl.constexpr):
    """(BLOCK, BLOCK): augment.resize_weights of one crop, row by row from the other end where mirrored."""
    row, pixel = tl.arange(0, BLOCK)[:, None], tl.arange(0, BLOCK)[None, :]
    place = tl.where(mirrored, size - 1 - row, row)
    scale = length / size
    distance = (pixel - start + 0.5 - (place + 0.5) * scale) / tl.maximum(scale, 1.0)
    weight = tl.maximum(1 - tl.abs(distance), 0)
    weight = tl.where((pixel >= start) & (pixel < start + length) & (pixel < full) & (row < size), weight, 0)
    total = tl.sum(weight, axis=1)[:, None]
    return weight / tl.where(total > 0, total, 1)


@triton.jit
def _crop(image, rows, columns, height, width, BLOCK: tl.constexpr):
    """One channel: rows @ pixels @ columnsᵀ."""
    y, x = tl.arange(0, BLOCK)[:, None], tl.arange(0, BLOCK)[None, :]
    pixels = tl.load(image + y * width + x, mask=(y < height) & (x < width), other=0).to(tl.float32) / 255
    return tl.dot(tl.dot(rows, pixels, input_precision="ieee"), tl.trans(columns), input_precision="ieee")


@triton.jit
def _gray(r, g, b):
    return _RED * r + _GREEN * g + _BLUE * b


@triton.jit
def _blend(x, other, factor):
    return tl.minimum(tl.maximum(factor * x + (1 - factor) * other, 0), 1)


@triton.jit
def _turned(value, saturation, hue, offset):
    """A channel of the colour with this hue, in sixths of the circle."""
    k = offset + hue
    k = k - 6 * tl.floor(k / 6)
    return value * (1 - saturation * tl.minimum(tl.maximum(tl.minimum(k, 4 - k), 0), 1))


@triton.jit
def _shift_hue(r, g, b, shift):
    value, low = tl.maximum(tl.maximum(r, g), b), tl.minimum(tl.minimum(r, g), b)
    chroma = value - low
    colourless = chroma == 0
    saturation = chroma / tl.where(value > 0, value, 1)
    safe = tl.where(colourless, 1, chroma)
    cr, cg, cb = (value - r) / safe, (value - g) / safe, (value - b) / safe
    hue = tl.where(r == value, cb - cg, tl.where(g == value, 2 + cr - cb, 4 + cg - cr)) / 6 + shift
    hue = 6 * (hue - tl.floor(hue))
    return (
        tl.where(colourless, r, _turned(value, saturation, hue, 5)),
        tl.where(colourless, g, _turned(value, saturation, hue, 3)),
        tl.where(colourless, b, _turned(value, saturation, hue, 1)),
    )


@triton.jit
def _view(
    images, result, box, flip, jitter, factors, order, grayscale, height, width, size,
    JITTER: tl.constexpr, TURN: tl.constexpr, GRAYSCALE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    n = tl.program_id(0)
    top, left = tl.load(box + 4 * n), tl.load(box + 4 * n + 1)
    h, w = tl.load(box + 4 * n + 2), tl.load(box + 4 * n + 3)
    rows = _resize_weights(top, h, False, height, size, BLOCK)
    columns = _resize_weights(left, w, tl.load(flip + n) != 0, width, size, BLOCK)
    image = images + n.to(tl.int64) * 3 * height * width
    r = _crop(image, rows, columns, height, width, BLOCK)
    g = _crop(image + height * width, rows, columns, height, width, BLOCK)
    b = _crop(image + 2 * height * width, rows, columns, height, width, BLOCK)
    if JITTER and tl.load(jitter + n) != 0:
        for slot in tl.static_range(4):
            kind = tl.load(order + 4 * n + slot).to(tl.int32)
            factor = tl.load(factors + 4 * n + kind)
            if kind == _HUE:
                if TURN:
                    r, g, b = _shift_hue(r, g, b, factor)
            else:
                gray = _gray(r, g, b)
                mean = tl.sum(gray) / (size * size)  # what lies beyond the image is black and stays so
                other = tl.where(kind == _CONTRAST, mean, tl.where(kind == _SATURATION, gray, 0))
                inside = (tl.arange(0, BLOCK)[:, None] < size) & (tl.arange(0, BLOCK)[None, :] < size)
                other = tl.where(inside, other, 0)
                r, g, b = _blend(r, other, factor), _blend(g, other, factor), _blend(b, other, factor)
    if GRAYSCALE and tl.load(grayscale + n) != 0:
        gray = _gray(r, g, b)
        r, g, b = gray, gray, gray
    y, x = tl.arange(0, BLOCK)[:, None], tl.arange(0, BLOCK)[None, :]
    at = result + n.to(tl.int64) * 3 * size * size + 3 * (y * size + x)
    mask = (y < size) & (x < size)
    tl.store(at, (r - _MEAN_R) / _STD_R, mask=mask)
    tl.store(at + 1, (g - _MEAN_G) / _STD_G, mask=mask)
    tl.store(at + 2, (b - _MEAN_B) / _STD_B, mask=mask)


def fits(images: Tensor, size: int) -> bool:
    """Whether the kernel takes such images: small and in colour."""
    return images.shape[1] == 3 and max(*images.shape[2:], size) <= LARGEST


def transform(images: Tensor, parameters: ViewParameters, size: int, views: Views) -> Tensor:
    """(n, 3, h, w) uint8 -> (n, 3, size, size) float32 in channels_last: what augment.transform does."""
    n, _, height, width = images.shape
    result = torch.empty(n, 3, size, size, device=images.device, memory_format=torch.channels_last)
    strongest = max(views.brightness, views.contrast, views.saturation, views.hue)
    options: dict[str, Any] = {
        "JITTER": views.jitter > 0 and strongest > 0,
        "TURN": views.hue > 0,
        "GRAYSCALE": views.grayscale > 0,
        "BLOCK": max(16, triton.next_power_of_2(max(height, width, size))),
    }
    p = parameters
    _view[(n,)](
        images.contiguous(), result, p.box, p.flip, p.jitter, p.factors, p.order, p.grayscale, height, width, size,
        **options,
    )  # fmt: skip
    return result
