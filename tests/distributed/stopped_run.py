"""`muc …`, but a signal reaches the second process alone, in its fifth step."""

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from itertools import count

from muc import processes, train
from muc.__main__ import main


@contextmanager
def reaching_the_second() -> Generator[Callable[[], bool]]:
    steps = count(1)
    yield lambda: next(steps) == 5 and processes.rank() == 1


if __name__ == "__main__":
    train.interrupts = reaching_the_second
    sys.exit(main(sys.argv[1:]))
