"""Picture files as an array that is never in memory as a whole: decoded when, and as far as, they are asked for.

A picture is a file of its own, or a slice of a larger one (an archive that was indexed).
"""

import os
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache, cached_property
from hashlib import file_digest, sha256
from io import BytesIO
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TypeAlias

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
HASHED_AT_ONCE = 4096  # files whose digests are under way together: a million futures would take a gigabyte


@dataclass(frozen=True)
class Slices:
    """Pieces of files, one a row."""

    files: Sequence[Path]
    where: np.ndarray  # (n, 3) int64: which of the files, first byte, number of bytes

    def read(self, row: int) -> bytes:
        number, start, size = self.where[row].tolist()
        try:
            with open(self.files[number], "rb") as f:
                f.seek(start)
                data = f.read(size)
        except OSError as error:
            raise unreadable(self.files[number], error) from None
        if len(data) < size:
            raise UserError(f"{self.files[number]} is shorter than it was when it was indexed; restore it")
        return data

    def select(self, rows: np.ndarray) -> "Slices":
        return replace(self, where=self.where[rows])

    def without(self, rows: np.ndarray) -> "Slices":
        where = self.where.copy()
        where[rows, 2] = 0
        return replace(self, where=where)


@dataclass(frozen=True)
class ImageFiles:
    """Like an (n, channels, side, side) uint8 array: rows that are asked for come back decoded."""

    root: Path
    names: Sequence[str]  # paths below the root; of slices, their keys
    side: int
    channels: int = 3
    slices: Slices | None = None  # None: every picture is a file of its own
    hashes: np.ndarray | None = None  # (n, 32) uint8 SHA-256 of the files' bytes, where someone read them all already

    ndim = 4
    dtype = np.dtype(np.uint8)

    @property
    def shape(self) -> tuple[int, ...]:
        return len(self.names), self.channels, self.side, self.side

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Once decoded."""
        return self.size

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, rows: int | slice | np.ndarray) -> np.ndarray:
        if isinstance(rows, int | np.integer):
            return self._decode(int(rows))
        chosen = np.arange(len(self))[rows]
        out = np.empty((len(chosen), *self.shape[1:]), self.dtype)
        pieces = begin_reading(self, chosen, out, shared_threads())
        try:
            for piece in pieces:
                piece.result()
        finally:
            for piece in pieces:
                piece.cancel()  # where one was broken, nobody wants the others
        return out

    def select(self, rows: np.ndarray) -> "ImageFiles":
        """Some of the files, still undecoded."""
        rows = np.arange(len(self))[rows]
        return replace(
            self,
            names=[self.names[i] for i in rows],
            slices=self.slices and self.slices.select(rows),
            hashes=None if self.hashes is None else self.hashes[rows],
        )

    def location(self, row: int) -> Path:
        """Where a picture is, for a person to find it."""
        if self.slices:
            return Path(f"{self.slices.files[self.slices.where[row, 0]]}:{self.names[row]}")
        return self.root / self.names[row]

    def read(self, row: int) -> bytes:
        """The bytes of one picture, undecoded."""
        return self.slices.read(row) if self.slices else self.location(row).read_bytes()

    def _decode(self, row: int) -> np.ndarray:
        data = BytesIO(self.slices.read(row)) if self.slices else None
        return read_image(self.location(row), self.side, self.channels, data)

    def without(self, rows: np.ndarray) -> "ImageFiles":
        """The same places, but nothing can be read in these."""
        names = list(self.names)
        for row in rows.tolist():
            names[row] = f"image {row}, which was erased"
        hashes = None if self.hashes is None else self.hashes.copy()
        if hashes is not None:
            hashes[rows] = 0
        return replace(self, names=names, slices=self.slices and self.slices.without(rows), hashes=hashes)

    def digest(self) -> bytes:
        """SHA-256 of names and file bytes: what identifies the pixels without decoding them."""
        state = sha256()
        for name, found in zip(self.names, self.contents, strict=True):
            state.update(sha256(name.encode(errors="surrogateescape")).digest() + found.tobytes())
        return state.digest()

    @cached_property
    def contents(self) -> np.ndarray:
        """(n, 32) uint8 SHA-256 of every file's bytes. All are read for it, and once."""
        if self.hashes is not None:
            return self.hashes
        found = bytearray()
        for start in range(0, len(self), HASHED_AT_ONCE):
            rows = range(start, min(start + HASHED_AT_ONCE, len(self)))
            found += b"".join(shared_threads().map(self._hash, rows))
        return np.frombuffer(found, np.uint8).reshape(-1, 32)

    def _hash(self, row: int) -> bytes:
        return sha256(self.slices.read(row)).digest() if self.slices else _hash_file(self.location(row))


Pixels: TypeAlias = np.ndarray | ImageFiles


def select(images: Pixels, rows: np.ndarray) -> Pixels:
    """Some of the images, of the same kind: files stay files."""
    return images.select(rows) if isinstance(images, ImageFiles) else images[rows]


def contents(pixels: Pixels) -> np.ndarray:
    """(n, 32) uint8 SHA-256 of what each image shows, or of its file."""
    if isinstance(pixels, ImageFiles):
        return pixels.contents
    found = b"".join(sha256(np.ascontiguousarray(image).data).digest() for image in pixels)
    return np.frombuffer(found, np.uint8).reshape(-1, 32)


def join(first: ImageFiles, second: ImageFiles) -> ImageFiles:
    """The files of both, one after the other, by their whole paths."""
    if first.slices and second.slices:
        shift = np.array([len(first.slices.files), 0, 0])
        where = np.concatenate([first.slices.where, second.slices.where + shift])
        slices, names = Slices([*first.slices.files, *second.slices.files], where), [*first.names, *second.names]
    else:
        slices, names = None, [str(files.location(row)) for files in (first, second) for row in range(len(files))]
    return replace(first, names=names, slices=slices, hashes=np.concatenate([first.contents, second.contents]))


def thread_count() -> int:
    """One a core to decode (Pillow does it outside of Python's lock), and some that wait for the disk: not many, for
    what is not Pillow's work is done in turns."""
    cores = len(os.sched_getaffinity(0))
    return cores + max(1, cores // 4)


def reading_threads(name: str) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(thread_count(), thread_name_prefix=name)


@cache
def shared_threads() -> ThreadPoolExecutor:
    return reading_threads("muc-read")


os.register_at_fork(after_in_child=shared_threads.cache_clear)  # threads do not survive a fork


def begin_reading(images: Pixels, rows: np.ndarray, out: np.ndarray, threads: ThreadPoolExecutor) -> list[Future[None]]:
    """Start to fill `out` with the rows. -> one future for each thread's piece; together they are the whole."""
    pieces = max(1, min(len(rows), thread_count()))
    return [
        threads.submit(_fill, images, some, places)
        for some, places in zip(np.array_split(rows, pieces), np.array_split(out, pieces), strict=True)
    ]


def _fill(images: Pixels, rows: np.ndarray, out: np.ndarray) -> None:
    for place, row in zip(out, rows, strict=True):
        place[...] = images[row]


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


def _hash_file(path: Path) -> bytes:
    try:
        with open(path, "rb") as f:
            return file_digest(f, "sha256").digest()
    except OSError as error:
        raise unreadable(path, error) from None


def unreadable(path: Path, error: OSError) -> UserError:
    return UserError(f"{path} cannot be read ({error.strerror}); make it readable or remove it")
