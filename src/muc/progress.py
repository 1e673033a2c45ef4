"""Progress for anything longer than a few seconds: a live bar on a terminal, a line now and then in a log."""

import sys
import time
from collections.abc import Generator
from contextlib import contextmanager

QUIET_SECONDS = 10.0
_silent = False


def silence() -> None:
    """No progress from this process any more: another one watches over it."""
    global _silent
    _silent = True


class Meter:
    """Counts units of work; says how many, how fast, how long still, and a few numbers."""

    def __init__(self, title: str, total: int, unit: str) -> None:
        self.title, self.total, self.unit = title, total, unit
        self.done = 0
        self._begun = self._said = time.monotonic()
        self._first = 0

    def start_at(self, done: int) -> None:
        """What an earlier session did; it does not count towards the rate."""
        self.done = self._first = done

    def advance(self, units: int = 1, note: str = "") -> None:
        self.done += units
        now = time.monotonic()
        if not _silent and now - self._said >= QUIET_SECONDS:
            self._said = now
            print(self.line(note), file=sys.stderr, flush=True)

    def line(self, note: str = "") -> str:
        seconds = max(time.monotonic() - self._begun, 1e-9)
        rate = (self.done - self._first) / seconds
        left = (self.total - self.done) / rate if rate else float("inf")
        return f"{self.title} {self.done}/{self.total} {self.unit} · {rate:.3g}/s · {clock(left)} left  {note}".rstrip()

    def close(self) -> None:
        """Nothing to clear in a log."""


class Bar(Meter):
    """The same on a terminal, with rich."""

    def __init__(self, title: str, total: int, unit: str) -> None:
        super().__init__(title, total, unit)
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn

        columns = (TextColumn("{task.fields[line]}"), BarColumn(bar_width=24))
        self._bar = Progress(*columns, console=Console(stderr=True), transient=True)
        self._task = self._bar.add_task("", total=total, line=self.line())
        self._bar.start()

    def advance(self, units: int = 1, note: str = "") -> None:
        self.done += units
        self._bar.update(self._task, completed=self.done, line=self.line(note))

    def close(self) -> None:
        self._bar.stop()


@contextmanager
def meter(title: str, total: int, unit: str = "epochs") -> Generator[Meter]:
    """A live bar where a person watches, lines where not."""
    live = sys.stderr.isatty() and not _silent
    progress = (Bar if live else Meter)(title, total, unit)
    try:
        yield progress
    finally:
        progress.close()


def clock(seconds: float) -> str:
    """90 -> '1:30'."""
    if seconds == float("inf"):
        return "?"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
