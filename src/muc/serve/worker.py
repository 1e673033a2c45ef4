"""One thread for what takes long, and a line in front of it that cannot grow without end."""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from math import ceil
from typing import TypeVar

from muc.serve.refusal import busy

T = TypeVar("T")
LONGEST_WAIT = 60  # what a client is told at most


class Worker:
    def __init__(self, waiting: int, name: str) -> None:
        self.room = waiting + 1  # one is under way
        self.jobs = 0
        self.seconds = 0.0  # the last job took
        self.thread = ThreadPoolExecutor(1, thread_name_prefix=f"muc-{name}")

    async def do(self, job: Callable[[], T]) -> T:
        """The job's result; refused at once where too many are waiting."""
        if self.jobs >= self.room:
            wait = min(LONGEST_WAIT, max(1, ceil(self.jobs * self.seconds)))
            raise busy("too many requests wait in line; try again later", wait)
        self.jobs += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self.thread, self._timed, job)
        finally:
            self.jobs -= 1

    def _timed(self, job: Callable[[], T]) -> T:
        begun = time.monotonic()
        try:
            return job()
        finally:
            self.seconds = time.monotonic() - begun

    def close(self) -> None:
        self.thread.shutdown(wait=True, cancel_futures=True)
