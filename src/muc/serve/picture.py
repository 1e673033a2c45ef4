"""One uploaded file to pixels. What it is, and what it would cost to decode, is found out from its bytes first."""

from io import BytesIO

import numpy as np

from muc.pictures.decode import decode_image
from muc.serve.limits import Limits
from muc.serve.refusal import Refusal

PNG, JPEG = b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff"
MOST_CHUNKS = 10_000  # of a PNG; usual are a few hundred, and 5 MB could hold 400,000, each some work
MOST_SCANS = 64  # of a JPEG; usual are 1 to 14, and every one is a pass over all pixels


def decode_picture(data: bytes, number: int, shape: tuple[int, int], limits: Limits) -> np.ndarray:
    """(channels, side, side) uint8, as they are made of a file. `number` counts from 1, for the sentence."""
    width, height = _size(data, number)
    if width * height > limits.pixels_per_image:
        raise Refusal(
            413, f"image {number} has {width}x{height} pixels; at most {limits.pixels_per_image:,} are read; shrink it"
        )
    channels, side = shape
    try:
        return decode_image(BytesIO(data), side, channels)
    except ValueError:
        raise _damaged(number) from None


def _size(data: bytes, number: int) -> tuple[int, int]:
    """Width and height from the header. Not by Image.open, which for a bomb warns or raises as it likes."""
    from PIL.JpegImagePlugin import JpegImageFile
    from PIL.PngImagePlugin import PngImageFile

    if data.startswith(PNG):
        kind, work, most = PngImageFile, _count_chunks(data), MOST_CHUNKS
    elif data.startswith(JPEG):
        kind, work, most = JpegImageFile, data.count(b"\xff\xda"), MOST_SCANS
    else:
        raise Refusal(415, f"image {number} is neither PNG nor JPEG; convert it to one of them")
    if work > most:
        raise Refusal(413, f"image {number} is made of too many pieces to be decoded; save it again as a plain image")
    try:
        with kind(BytesIO(data)) as image:
            return image.size
    except Exception:  # Pillow raises a dozen kinds for broken files
        raise _damaged(number) from None


def _count_chunks(data: bytes) -> int:
    place, count = len(PNG), 0
    while place < len(data) and count <= MOST_CHUNKS:
        place += int.from_bytes(data[place : place + 4], "big") + 12  # length, type and checksum take 12 bytes
        count += 1
    return count


def _damaged(number: int) -> Refusal:
    return Refusal(422, f"image {number} is damaged and cannot be decoded; save it again as PNG or JPEG")
