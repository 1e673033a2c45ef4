"""A picture file as pixels: which kinds are read, and what they show."""

from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from muc.errors import UserError

if TYPE_CHECKING:
    from PIL import Image

MAX_PIXELS = 64_000_000  # a larger image in a folder is a mistake or an attack
FORMATS = {  # what is decoded (Pillow would run Ghostscript on others), and what such files are called
    "JPEG": (".jpg", ".jpeg"),
    "PNG": (".png",),
    "WEBP": (".webp",),
    "BMP": (".bmp",),
    "GIF": (".gif",),
    "TIFF": (".tif", ".tiff"),
    "PPM": (".ppm", ".pgm", ".pbm"),
}
IMAGE_SUFFIXES = tuple(suffix for suffixes in FORMATS.values() for suffix in suffixes)


def read_image(path: Path, size: int, channels: int = 3, data: BinaryIO | None = None) -> np.ndarray:
    """(channels, size, size) uint8: shorter side brought to `size`, centre kept. A broken file is named.

    Where its bytes are at hand as `data`, the path is a name only.
    """
    try:
        return decode_image(path if data is None else data, size, channels)
    except ValueError as error:
        raise UserError(f"{path} {error}; repair or remove it") from None


def decode_image(source: Path | BinaryIO, size: int, channels: int) -> np.ndarray:
    """The same; a ValueError says what is wrong with the picture."""
    from PIL import Image, ImageOps, UnidentifiedImageError

    try:
        with Image.open(source, formats=tuple(FORMATS)) as image:
            pixels = image.width * image.height
            plain = as_mode(upright(image), "RGB" if channels == 3 else "L") if pixels <= MAX_PIXELS else None
            fitted = plain and ImageOps.fit(plain, (size, size), Image.Resampling.BILINEAR)
    except UnidentifiedImageError:
        raise ValueError(f"is not a readable image (none of {', '.join(FORMATS)})") from None
    except Exception as error:  # Pillow raises a dozen kinds for broken files
        raise ValueError(f"is not a readable image ({error})") from None
    if fitted is None:
        raise ValueError(f"has {image.width}x{image.height} pixels, and at most {MAX_PIXELS:,} are read")
    array = np.asarray(fitted)
    return array.transpose(2, 0, 1) if channels == 3 else array[None]


def upright(image: "Image.Image") -> "Image.Image":
    """As its camera was held, where that can be read: what else stands beside a picture may be damaged (Pillow's
    exif_transpose would write all of it anew)."""
    from PIL import Image

    image.load()  # its pixels may not be damaged
    try:
        held = image.getexif().get(0x0112)
    except Exception:  # Pillow raises many kinds here, too
        return image
    turn = Image.Transpose
    ways = {2: turn.FLIP_LEFT_RIGHT, 3: turn.ROTATE_180, 4: turn.FLIP_TOP_BOTTOM, 5: turn.TRANSPOSE}
    ways |= {6: turn.ROTATE_270, 7: turn.TRANSVERSE, 8: turn.ROTATE_90}
    return image.transpose(ways[held]) if held in ways else image


def as_mode(image: "Image.Image", mode: str) -> "Image.Image":
    """A picture as L or RGB, by what it shows, on white where it is transparent; a ValueError says why that cannot be
    known."""
    from PIL import Image

    if image.mode in ("I", "F"):
        raise ValueError(f"Pillow's mode {image.mode} does not say which number is white")
    if image.mode.startswith("I;16"):  # the upper byte, as Pillow takes it of colours; here it would clip at 255
        image = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    if image.has_transparency_data:
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image.convert("RGBA"))
    return image.convert(mode)
