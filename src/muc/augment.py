"""Batched random views: every image gets its own crop, flip, jitter and grayscale, from one explicit generator.

Drawing the parameters and applying them are separate, so that each operation can be compared with torchvision's
for the same parameters. Shapes never depend on what was drawn: nothing here forces a GPU to wait for the host.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import log

import torch
from torch import Generator, Tensor

from muc.config import GRAY_MEAN, GRAY_STD, IMAGENET_MEAN, IMAGENET_STD, Views

BRIGHTNESS, CONTRAST, SATURATION, HUE = range(4)
CROP_ATTEMPTS = 10  # as torchvision's RandomResizedCrop
LUMA = (0.2989, 0.587, 0.114)  # torchvision's rgb_to_grayscale


@dataclass(frozen=True)
class ViewParameters:
    """What was drawn for n views."""

    box: Tensor  # (n, 4) top, left, height, width in whole pixels
    flip: Tensor  # (n,) bool
    jitter: Tensor  # (n,) bool
    factors: Tensor  # (n, 4) brightness, contrast, saturation, hue
    order: Tensor  # (n, 4) which of the four comes first, second, …
    grayscale: Tensor  # (n,) bool


def draw(n: int, height: int, width: int, views: Views, generator: Generator) -> ViewParameters:
    """Draw the parameters of n views of (height, width) images."""
    device = generator.device

    def uniform(*shape: int, low: float = 0.0, high: float = 1.0) -> Tensor:
        return torch.rand(*shape, generator=generator, device=device) * (high - low) + low

    # Filled, not copied from the host: a copy would stop a GPU that runs ahead (and cannot be captured in a graph).
    strengths = ((views.brightness, 1.0), (views.contrast, 1.0), (views.saturation, 1.0), (views.hue, 0.0))
    factors = [uniform(n, low=centre - strength, high=centre + strength) for strength, centre in strengths]
    return ViewParameters(
        box=_draw_boxes(n, height, width, views.min_scale, uniform),
        flip=uniform(n) < views.flip,
        jitter=uniform(n) < views.jitter,
        factors=torch.stack(factors, dim=1),
        order=_draw_orders(n, uniform),
        grayscale=uniform(n) < views.grayscale,
    )


def _draw_boxes(n: int, height: int, width: int, min_scale: float, uniform: Callable[..., Tensor]) -> Tensor:
    """Crops of min_scale to 1 of the area and 3:4 to 4:3 in shape; the first of ten tries that fits, else all."""
    area = height * width * uniform(n, CROP_ATTEMPTS, low=min_scale)
    ratio = uniform(n, CROP_ATTEMPTS, low=log(3 / 4), high=log(4 / 3)).exp()
    w, h = (area * ratio).sqrt().round(), (area / ratio).sqrt().round()
    fits = (w >= 1) & (w <= width) & (h >= 1) & (h <= height)
    first = fits.int().argmax(dim=1, keepdim=True)
    any_fits = fits.any(dim=1, keepdim=True)
    w = w.gather(1, first).where(any_fits, torch.full_like(area[:, :1], width))
    h = h.gather(1, first).where(any_fits, torch.full_like(area[:, :1], height))
    top = (uniform(n, 1) * (height - h + 1)).floor().minimum(height - h)
    left = (uniform(n, 1) * (width - w + 1)).floor().minimum(width - w)
    return torch.cat([top, left, h, w], dim=1)


def _draw_orders(n: int, uniform: Callable[..., Tensor]) -> Tensor:
    """Random orders of the four jitters in which hue comes first, second, third and last equally often.

    Balancing hue's place over the batch (in random rows; evenly where n is a multiple of four) leaves the order an
    image sees as random as before, and lets `jitter_colours` shift the costly hue on a quarter of the rows at a time.
    """
    others = uniform(n, 3).argsort(dim=1)  # brightness, contrast, saturation in random order
    place = uniform(n).argsort() % 4
    slot = torch.arange(4, device=others.device)
    hue_here = slot == place[:, None]
    rank = (slot - (slot > place[:, None]).long()).clamp(max=2)
    return others.gather(1, rank).where(~hue_here, torch.full_like(rank, HUE))


def apply(images: Tensor, parameters: ViewParameters, size: int, views: Views) -> Tensor:
    """(n, c, h, w) uint8 -> (n, c, size, size) float in [0, 1]."""
    x = resized_crop(images.float() / 255, parameters.box, parameters.flip, size)
    if views.jitter > 0 and max(views.brightness, views.contrast, views.saturation, views.hue) > 0:
        x = jitter_colours(x, parameters, hue=views.hue > 0)
    if views.grayscale > 0 and x.shape[1] == 3:
        x = grayscale(x).where(parameters.grayscale[:, None, None, None], x)
    return x


def resized_crop(images: Tensor, box: Tensor, flip: Tensor, size: int) -> Tensor:
    """Crop and resize (bilinear, antialiased) each image by its own box: two small matrix products per image."""
    top, left, h, w = box.unbind(dim=1)
    rows = resize_weights(top, h, images.shape[2], size)
    columns = resize_weights(left, w, images.shape[3], size)
    columns = columns.flip(1).where(flip[:, None, None], columns)
    return rows[:, None] @ images @ columns[:, None].transpose(2, 3)


def resize_weights(start: Tensor, length: Tensor, full: int, size: int) -> Tensor:
    """(n,), (n,) -> (n, size, full): row i holds the weights that pixel i of the result gives to the source pixels.

    The triangle filter of torchvision's antialiased bilinear resize, cut off at the crop's edges and renormalised.
    """
    scale = (length / size)[:, None, None]
    support = scale.clamp(min=1)
    centre = (torch.arange(size, device=start.device)[None, :, None] + 0.5) * scale
    pixel = torch.arange(full, device=start.device)[None, None, :] - start[:, None, None]
    weight = (1 - ((pixel + 0.5 - centre) / support).abs()).clamp(min=0)
    inside = (pixel >= 0) & (pixel < length[:, None, None])
    weight = weight * inside
    return weight / weight.sum(dim=2, keepdim=True)


def jitter_colours(x: Tensor, parameters: ViewParameters, hue: bool) -> Tensor:
    """Brightness, contrast, saturation and hue in each image's own order, where its jitter is on."""
    colour = x.shape[1] == 3
    hue = hue and colour
    place = (parameters.order == HUE).int().argmax(dim=1)
    if hue:  # bring the rows whose hue comes first to the front, and so on
        rows = place.argsort(stable=True)
        x, factors = x[rows], parameters.factors[rows]
        order, active = parameters.order[rows], parameters.jitter[rows]
    else:
        rows, factors, order, active = None, parameters.factors, parameters.order, parameters.jitter
    stop = 0
    for slot in range(4):
        kind = order[:, slot]
        x = _blend(x, kind, factors, active & (kind != HUE))
        if hue:
            start, stop = stop, stop + (len(x) + 3 - slot) // 4  # how many orders of n have hue here
            part = slice(start, stop)
            shifted = shift_hue(x[part], factors[part, HUE])
            x = torch.cat([x[:start], shifted.where(active[part, None, None, None], x[part]), x[stop:]])
    return x if rows is None else x[rows.argsort()]


def _blend(x: Tensor, kind: Tensor, factors: Tensor, active: Tensor) -> Tensor:
    """f x + (1 - f) y, where y is black (brightness), the mean gray (contrast) or the gray image (saturation)."""
    gray = grayscale(x) if x.shape[1] == 3 else x
    kind = kind[:, None, None, None]
    mean = gray.mean(dim=(1, 2, 3), keepdim=True)
    other = mean.where(kind == CONTRAST, gray * (kind == SATURATION))
    factor = factors.gather(1, kind[:, :1, 0, 0].clamp(max=SATURATION))[:, :, None, None]
    factor = factor.where(active[:, None, None, None], torch.ones_like(factor))
    return (factor * x + (1 - factor) * other).clamp(0, 1)


def grayscale(x: Tensor) -> Tensor:
    """(n, 3, h, w) -> (n, 1, h, w), which broadcasts against the colours."""
    return LUMA[0] * x[:, :1] + LUMA[1] * x[:, 1:2] + LUMA[2] * x[:, 2:]


def shift_hue(x: Tensor, shift: Tensor) -> Tensor:
    """Turn the hue of each (3, h, w) image by `shift` of the full circle (through HSV, as torchvision)."""
    red, green, blue = x.unbind(dim=1)
    value, low = x.amax(dim=1), x.amin(dim=1)
    chroma = value - low
    gray = chroma == 0
    saturation = chroma / value.where(value > 0, torch.ones_like(value))
    safe = chroma.where(~gray, torch.ones_like(chroma))
    r, g, b = (value - red) / safe, (value - green) / safe, (value - blue) / safe
    hue = torch.where(red == value, b - g, torch.where(green == value, 2 + r - b, 4 + g - r))
    hue = (hue / 6 + shift[:, None, None]) % 1.0
    # In HSV each channel is value * (1 - saturation * ramp), the ramp being a trapezoid in the hue: no six-way branch.
    offset = 5.0 - 2.0 * torch.arange(3, device=x.device)[:, None, None]
    k = (offset + 6 * hue[:, None]) % 6
    ramp = torch.minimum(k, 4 - k).clamp(0, 1)
    turned = value[:, None] * (1 - saturation[:, None] * ramp)
    return turned.where(~gray[:, None], x)


def normalise(x: Tensor) -> Tensor:
    """Colours to ImageNet's mean and standard deviation, gray images to [-1, 1]; what every encoder gets."""
    mean, std = (IMAGENET_MEAN, IMAGENET_STD) if x.shape[1] == 3 else (GRAY_MEAN, GRAY_STD)
    channels = [(x[:, c : c + 1] - m) / s for c, (m, s) in enumerate(zip(mean, std, strict=True))]
    return torch.cat(channels, dim=1)


def transform(images: Tensor, parameters: ViewParameters, size: int, views: Views) -> Tensor:
    """Apply and normalise: all of a view's arithmetic, and no random numbers."""
    return normalise(apply(images, parameters, size, views))


def plain(images: Tensor) -> Tensor:
    """(n, c, h, w) uint8 -> normalised floats, no augmentation."""
    return normalise(images.float() / 255)


@dataclass(frozen=True)
class Shifts:
    """What was drawn to shift n images."""

    padding: int
    offset: Tensor  # (2, n, 1) down and to the right, of the image with a border of `padding` pixels
    flip: Tensor  # (n, 1) bool

    def part(self, start: int, stop: int) -> "Shifts":
        return Shifts(self.padding, self.offset[:, start:stop], self.flip[start:stop])


def draw_shifts(n: int, padding: int, flip: float, generator: Generator) -> Shifts:
    """Draw shifts of up to `padding` pixels, and flips."""
    offset = torch.randint(2 * padding + 1, (2, n, 1), generator=generator, device=generator.device)
    return Shifts(padding, offset, torch.rand(n, 1, generator=generator, device=generator.device) < flip)


def shift(images: Tensor, shifts: Shifts) -> Tensor:
    """(n, c, h, w) uint8 -> the same, shifted over black and flipped as was drawn."""
    n, c, h, w = images.shape
    device = images.device
    padded = torch.nn.functional.pad(images, (shifts.padding,) * 4)
    rows = shifts.offset[0] + torch.arange(h, device=device)
    columns = shifts.offset[1] + torch.arange(w, device=device)
    columns = columns.flip(1).where(shifts.flip, columns)
    image, channel = torch.arange(n, device=device), torch.arange(c, device=device)
    return padded[image[:, None, None, None], channel[:, None, None], rows[:, None, :, None], columns[:, None, None, :]]
