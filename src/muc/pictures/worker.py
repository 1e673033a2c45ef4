"""A process that decodes pictures and does nothing else: `python -m muc.pictures.worker FD`, started by the pool.

Standard input is a socket. A line of JSON from it is a job: side, channels, and where the pictures are. Their pixels go
into memory that both processes see (behind the file descriptor), then a byte for each back: SOUND or BROKEN. (Not to
standard output, where a site's Python may print something when it starts.) Why one is broken is for the other side to
find out, and to say. The process ends with its input, however the other side ended.
"""

import json
import sys
from collections.abc import Iterator
from contextlib import suppress
from io import BytesIO
from mmap import mmap
from pathlib import Path
from typing import BinaryIO, TypeAlias

import numpy as np

from muc.pictures.decode import decode_image

Piece: TypeAlias = tuple[str, int, int]
"""Of a file: its path, the first byte, and how many; -1 for all."""

SOUND, BROKEN = 1, 0


def serve(jobs: BinaryIO, answers: BinaryIO, memory: mmap) -> None:
    for line in jobs:
        side, channels, pieces = json.loads(line)
        answers.write(bytes(_decode(pieces, batch_in(memory, len(pieces), side, channels))))
        answers.flush()


def batch_in(memory: mmap, n: int, side: int, channels: int) -> np.ndarray:
    """(n, channels, side, side) uint8: how both sides see the memory."""
    shape = n, channels, side, side
    return np.frombuffer(memory, np.uint8, n * channels * side**2).reshape(shape)


def _decode(pieces: list[Piece], out: np.ndarray) -> Iterator[int]:
    for pixels, piece in zip(out, pieces, strict=True):
        try:
            pixels[...] = decode_image(_open(piece), out.shape[2], out.shape[1])
        except (OSError, ValueError):
            yield BROKEN
        else:
            yield SOUND


def _open(piece: Piece) -> Path | BytesIO:
    path, start, size = piece
    if size < 0:
        return Path(path)
    with open(path, "rb") as f:
        f.seek(start)
        data = f.read(size)
    if len(data) < size:
        raise ValueError("is cut off")
    return BytesIO(data)


if __name__ == "__main__":
    gone = suppress(BrokenPipeError, ConnectionResetError)  # nobody is there to answer
    with gone, open(sys.stdin.fileno(), "wb", closefd=False) as to_pool:
        serve(sys.stdin.buffer, to_pool, mmap(int(sys.argv[1]), 0))
