"""Picture files as an array that is never in memory as a whole: decoded when, and as far as, they are asked for."""

import os
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from hashlib import file_digest, sha256
from math import prod
from pathlib import Path
from typing import TypeAlias

import numpy as np

from muc.errors import UserError

MAX_PIXELS = 64_000_000  # a larger image in a folder is a mistake or an attack
HASHED_AT_ONCE = 4096  # files whose digests are under way together: a million futures would take a gigabyte


@dataclass(frozen=True)
class ImageFiles:
    """Like an (n, channels, side, side) uint8 array: rows that are asked for come back decoded."""

    root: Path
    names: Sequence[str]  # paths below the root
    side: int
    channels: int = 3

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
            return read_image(self.root / self.names[int(rows)], self.side, self.channels)
        chosen = np.arange(len(self))[rows]
        out = np.empty((len(chosen), *self.shape[1:]), self.dtype)
        pieces = begin_reading(self, chosen, out, _shared_threads())
        try:
            for piece in pieces:
                piece.result()
        finally:
            for piece in pieces:
                piece.cancel()  # where one was broken, nobody wants the others
        return out

    def select(self, rows: np.ndarray) -> "ImageFiles":
        """Some of the files, still undecoded."""
        return replace(self, names=[self.names[i] for i in np.arange(len(self))[rows]])

    def digest(self) -> bytes:
        """SHA-256 of names and file bytes: what identifies the pixels without decoding them."""
        state = sha256()
        for start in range(0, len(self), HASHED_AT_ONCE):
            names = self.names[start : start + HASHED_AT_ONCE]
            hashes = _shared_threads().map(lambda name: _hash_file(self.root / name), names)
            for name, found in zip(names, hashes, strict=True):
                state.update(sha256(name.encode(errors="surrogateescape")).digest() + found)
        return state.digest()


Pixels: TypeAlias = np.ndarray | ImageFiles


def select(images: Pixels, rows: np.ndarray) -> Pixels:
    """Some of the images, of the same kind: files stay files."""
    return images.select(rows) if isinstance(images, ImageFiles) else images[rows]


def thread_count() -> int:
    """One a core to decode (Pillow does it outside of Python's lock), and a few that wait for the disk."""
    return len(os.sched_getaffinity(0)) + 4


def reading_threads(name: str) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(thread_count(), thread_name_prefix=name)


@cache
def _shared_threads() -> ThreadPoolExecutor:
    return reading_threads("muc-read")


os.register_at_fork(after_in_child=_shared_threads.cache_clear)  # threads do not survive a fork


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


def read_image(path: Path, size: int, channels: int = 3) -> np.ndarray:
    """(channels, size, size) uint8: shorter side brought to `size`, centre kept. A broken file is named."""
    from PIL import Image, ImageOps

    try:
        with Image.open(path) as image:
            if image.width * image.height > MAX_PIXELS:
                raise UserError(f"{path} has {image.width}x{image.height} pixels; at most {MAX_PIXELS:,} are read")
            rgb = image.convert("RGB" if channels == 3 else "L")
            fitted = ImageOps.fit(rgb, (size, size), Image.Resampling.BILINEAR)
    except UserError:
        raise
    except Exception as error:  # Pillow raises a dozen kinds for broken files
        raise UserError(f"{path} is not a readable image ({error}); repair or remove it") from None
    array = np.asarray(fitted)
    return array.transpose(2, 0, 1) if channels == 3 else array[None]


def _hash_file(path: Path) -> bytes:
    try:
        with open(path, "rb") as f:
            return file_digest(f, "sha256").digest()
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}); make it readable or remove it") from None
