"""The line in front of a thread."""

import asyncio
import threading

import pytest

from muc.serve.refusal import Refusal
from muc.serve.worker import Worker


def test_a_full_line_is_refused_at_once_and_moves_on() -> None:
    worker, go = Worker(2, "test"), threading.Event()

    async def crowd() -> list[int | BaseException]:
        jobs = [asyncio.create_task(worker.do(lambda i=i: (go.wait(5), i)[1])) for i in range(3)]
        await asyncio.sleep(0)  # they are in line
        with pytest.raises(Refusal) as refusal:
            await worker.do(lambda: 0)
        assert refusal.value.status == 429
        assert int(refusal.value.headers["Retry-After"]) >= 1
        go.set()
        first = await asyncio.gather(*jobs)
        return [*first, await worker.do(lambda: 3)]

    assert asyncio.run(crowd()) == [0, 1, 2, 3]
    worker.close()


def test_a_job_that_fails_leaves_its_place() -> None:
    worker = Worker(0, "test")

    async def fail() -> None:
        for _ in range(3):
            with pytest.raises(ZeroDivisionError):
                await worker.do(lambda: 1 // 0)

    asyncio.run(fail())
    assert worker.jobs == 0
    worker.close()
