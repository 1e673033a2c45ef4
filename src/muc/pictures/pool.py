"""Many pictures at once, by processes.

Most of decoding is done outside of Python's lock, but not all of it, and threads get into each other's way over the
rest: 20 of them on 16 cores decoded less than one alone can elsewhere (docs/log.md).
"""

import atexit
import json
import os
import socket
import sys
from collections import defaultdict
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from mmap import mmap
from pathlib import Path
from queue import Empty, SimpleQueue
from subprocess import DEVNULL, Popen
from tempfile import TemporaryFile

import numpy as np

from muc.errors import UserError
from muc.pictures.worker import SOUND, Piece, batch_in

MANY = 2000  # pictures; of fewer, all are decoded by the time the processes have started
MEMORY = 8 * 2**20  # bytes that a process shares with this one


def decode(pieces: Sequence[Piece], out: np.ndarray) -> list[int]:
    """Fill `out` (n, channels, side, side). -> the places of pictures that could not be read."""
    if not len(out):
        return []
    at_once = MEMORY // out[0].nbytes
    if not at_once:
        return list(range(len(out)))
    broken = []
    with _borrowed() as worker:
        for start in range(0, len(out), at_once):
            stop = start + at_once
            broken += [start + place for place in worker.decode(pieces[start:stop], out[start:stop])]
    return broken


def shared_memory() -> int:
    """A file descriptor of memory without a name, which is gone with the last who has it."""
    if hasattr(os, "memfd_create"):
        shared = os.memfd_create("muc-pictures")
    else:  # not on Linux
        with TemporaryFile() as file:
            shared = os.dup(file.fileno())
    os.ftruncate(shared, MEMORY)
    return shared


class Worker:
    """A process that decodes. One thread at a time may use it."""

    def __init__(self) -> None:
        shared = shared_memory()
        self._memory = mmap(shared, MEMORY)
        here, there = socket.socketpair()
        places = [str(Path(place).absolute()) for place in sys.path if isinstance(place, str)]  # "" is where one is
        one_thread = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        self.process = Popen(
            [sys.executable, "-P", "-W", "ignore", "-m", "muc.pictures.worker", str(shared)],
            stdin=there.fileno(),
            stdout=DEVNULL,
            pass_fds=[shared],
            env={**os.environ, **one_thread, "PYTHONPATH": os.pathsep.join(places)},
            process_group=0,  # Ctrl-C is for the one who asked: a training goes on to the end of its step
        )
        os.close(shared)
        there.close()
        with here:
            self._talk = here.makefile("rwb")

    def decode(self, pieces: Sequence[Piece], out: np.ndarray) -> list[int]:
        n, channels, side, _ = out.shape
        try:
            self._talk.write(json.dumps((side, channels, pieces)).encode() + b"\n")
            self._talk.flush()
            answer = self._talk.read(n)
        except (BrokenPipeError, ConnectionResetError):
            answer = b""
        if len(answer) < n:
            raise self._ended(pieces)
        out[...] = batch_in(self._memory, n, side, channels)
        return [place for place, what in enumerate(answer) if what != SOUND]

    def _ended(self, pieces: Sequence[Piece]) -> UserError:
        return UserError(
            f"the process that decoded {pieces[0][0]} and the {len(pieces) - 1} pictures after it ended with code "
            f"{self.process.wait()}; if there was memory enough, find out which of them is damaged and remove it"
        )

    def close(self) -> None:
        """At once: it may be in the middle of an answer that nobody will read."""
        self.process.kill()
        self.process.wait()
        with suppress(OSError):
            self._talk.close()


_idle: dict[int, SimpleQueue[Worker]] = defaultdict(SimpleQueue)  # of each process: a fork has no use for its parent's


@contextmanager
def _borrowed() -> Generator[Worker]:
    """One that nobody uses, or a new one: there are as many as threads ever asked at once."""
    idle = _idle[os.getpid()]
    try:
        while (worker := idle.get_nowait()).process.poll() is not None:
            worker.close()  # it ended while nobody used it
    except Empty:
        worker = Worker()
    try:
        yield worker
    except BaseException:
        worker.close()  # what it has still to say would be taken for the next one's answer
        raise
    idle.put(worker)


@atexit.register
def close_all() -> None:
    idle = _idle[os.getpid()]
    while not idle.empty():
        idle.get().close()
