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
from typing import TypeAlias

import numpy as np

from muc.errors import UserError
from muc.machine import core_count
from muc.pictures import pool
from muc.pictures.decode import read_image
from muc.pictures.worker import Piece
from muc.progress import meter

MOST_THREADS = 64  # a container can see all of its host's cores, and each has a process of 25 MB
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

    def piece(self, row: int) -> Piece:
        """Where the bytes of one picture are, for other processes, which began in the folder of that time."""
        if self.slices:
            number, start, size = self.slices.where[row].tolist()
            return str(self.slices.files[number].absolute()), start, size
        return str(self.location(row).absolute()), 0, -1

    def fill(self, rows: np.ndarray, out: np.ndarray) -> None:
        """Decode these rows into `out`."""
        for place in self.fill_by_pool(rows, out):  # what cannot be read: here it is said why
            out[place] = self._decode(int(rows[place]))

    def fill_by_pool(self, rows: Sequence[int] | np.ndarray, out: np.ndarray) -> Sequence[int]:
        """Decode these rows into `out`, in another process. -> the places that are left: all, where there are few
        pictures, and those that cannot be read."""
        if len(self) < pool.MANY:
            return range(len(rows))
        return pool.decode([self.piece(int(row)) for row in rows], out)

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
        with meter("read", len(self), "images") as bar:
            for start in range(0, len(self), HASHED_AT_ONCE):
                rows = range(start, min(start + HASHED_AT_ONCE, len(self)))
                found += b"".join(shared_threads().map(self._hash, rows))
                bar.advance(len(rows))
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
    """One a core to decode, by itself or by a process of its own, and some that wait for the disk."""
    return min(core_count() * 5 // 4, MOST_THREADS)


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
    if isinstance(images, ImageFiles):
        images.fill(rows, out)
        return
    for place, row in zip(out, rows, strict=True):
        place[...] = images[row]


def _hash_file(path: Path) -> bytes:
    try:
        with open(path, "rb") as f:
            return file_digest(f, "sha256").digest()
    except OSError as error:
        raise unreadable(path, error) from None


def unreadable(path: Path, error: OSError) -> UserError:
    return UserError(f"{path} cannot be read ({error.strerror}); make it readable or remove it")
