"""What a training step reads: pixels that stay on the device, or batches that are read ahead and copied to it.

Both have one interface: `load(epoch, step)` before a step, `pixels()` inside it, `close()` after the last. What a step
sees is the same tensors every time, so that it can be recorded; and it is the plan's rows, bit for bit, in both.
"""

import time
from collections import deque
from collections.abc import Generator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor

from muc.data.files import ImageFiles, Pixels, begin_reading, reading_threads
from muc.data.loader import BatchPlan
from muc.runtime import Runtime

BUFFERS = 4  # one is being copied from, the others are read ahead
WAITING_TOO_LONG = 0.05  # of the time: from here on, faster reading would make a run faster


def make_feed(images: Pixels | Tensor, plan: BatchPlan, epochs: int, runtime: Runtime) -> "Feed":
    """Resident where the pixels are in memory and there is room for them on the device."""
    if isinstance(images, ImageFiles) or (isinstance(images, np.ndarray) and not runtime.has_room(images.nbytes)):
        return Streamed(images, plan, epochs, runtime)
    return Resident(images, plan, runtime)


class Resident:
    """All pixels on the device; a step gathers its rows there."""

    waited: float | None = None  # there is nothing to wait for

    def __init__(self, images: np.ndarray | Tensor, plan: BatchPlan, runtime: Runtime) -> None:
        self.plan, self.images = plan, torch.as_tensor(images).to(runtime.device)
        self.rows = torch.zeros(plan.n_retain + plan.n_forget, dtype=torch.long, device=runtime.device)
        self._epoch, self._epoch_rows = -1, self.rows

    def load(self, epoch: int, step: int) -> None:
        if epoch != self._epoch:
            self._epoch, self._epoch_rows = epoch, self.plan.epoch(epoch).to(self.rows.device)
        self.rows.copy_(self._epoch_rows[step])

    def pixels(self) -> Tensor:
        """(n, c, h, w) uint8 of the step that was loaded."""
        return self.images[self.rows]

    def close(self) -> None:
        pass


@dataclass
class Buffer:
    """A batch in host memory: being filled, full, or being copied from."""

    pixels: Tensor
    copied: torch.cuda.Event | None  # None where a copy is done when it returns
    position: tuple[int, int] = (-1, -1)  # epoch and step
    pieces: list[Future[None]] = field(default_factory=list)


class Streamed:
    """Batches are read and decoded by threads, a few steps ahead and across the ends of epochs.

    The threads only ever touch host memory: whatever concerns the device is done by the thread that trains, so that
    nothing gets in the way of a step that is being recorded.
    """

    def __init__(self, images: Pixels, plan: BatchPlan, epochs: int, runtime: Runtime) -> None:
        self.images, self.plan, self.epochs, self.runtime = images, plan, epochs, runtime
        shape = (plan.n_retain + plan.n_forget, *images.shape[1:])
        self.batch = torch.zeros(shape, dtype=torch.uint8, device=runtime.device)
        self.waited: float | None = 0.0  # seconds in which there was nothing to compute for want of data
        on_gpu = runtime.on_gpu
        self._buffers = [
            Buffer(torch.empty(shape, dtype=torch.uint8, pin_memory=on_gpu), torch.cuda.Event() if on_gpu else None)
            for _ in range(BUFFERS)
        ]
        self._threads: ThreadPoolExecutor | None = None
        self._ahead: deque[Buffer] = deque()
        self._spent: Buffer | None = None

    def load(self, epoch: int, step: int) -> None:
        if not self._ahead or self._ahead[0].position != (epoch, step):
            self._begin(epoch, step)
        elif self._spent:
            self._refill(self._spent)
        buffer = self._ahead.popleft()
        self._wait_for(buffer)
        self.batch.copy_(buffer.pixels, non_blocking=True)
        if buffer.copied:
            buffer.copied.record(torch.cuda.current_stream(self.runtime.device))
        # Refilled only at the next step: by then the copy is done, or the device is a whole step behind and has enough
        # to do while this thread waits for it.
        self._spent = buffer

    def pixels(self) -> Tensor:
        """(n, c, h, w) uint8 of the step that was loaded."""
        return self.batch

    def close(self) -> None:
        """Stop reading; pictures that are being decoded right now are waited for. A later `load` begins anew."""
        self._ahead.clear()
        if self._threads:
            self._threads.shutdown(cancel_futures=True)
        self._threads = None

    def _begin(self, epoch: int, step: int) -> None:
        self.close()
        self._threads = reading_threads("muc-feed")
        self._coming = self._rows_from(epoch, step)
        for buffer in self._buffers:
            self._refill(buffer)

    def _rows_from(self, epoch: int, step: int) -> Generator[tuple[tuple[int, int], np.ndarray]]:
        for e in range(epoch, self.epochs):
            rows = self.plan.epoch(e).numpy()
            for s in range(step, len(rows)):
                yield (e, s), rows[s]
            step = 0

    def _refill(self, buffer: Buffer) -> None:
        if (coming := next(self._coming, None)) is None:
            return
        if buffer.copied:
            buffer.copied.synchronize()
        assert self._threads, "reading has begun"
        buffer.position, rows = coming
        buffer.pieces = begin_reading(self.images, rows, buffer.pixels.numpy(), self._threads)
        self._ahead.append(buffer)

    def _wait_for(self, buffer: Buffer) -> None:
        if not all(piece.done() for piece in buffer.pieces):
            if self.runtime.on_gpu:  # it may have work still; only when that is done is it waiting for data
                torch.cuda.current_stream(self.runtime.device).synchronize()
            begun = time.monotonic()
            wait(buffer.pieces)
            self.waited = (self.waited or 0.0) + time.monotonic() - begun
        for piece in buffer.pieces:
            piece.result()  # raises what went wrong in its thread


Feed: TypeAlias = Resident | Streamed


def bound_by(waiting: float) -> str:
    """What a faster one of would make the run faster, given the share of the time that it waited for data."""
    return "reading and decoding" if waiting > WAITING_TOO_LONG else "the device"
