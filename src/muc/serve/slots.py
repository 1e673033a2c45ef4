"""How many requests are worked on at one time: bounds the memory, and keeps one key from shutting out the others."""

from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager

from muc.serve.refusal import busy


class Slots:
    def __init__(self, per_key: int, total: int) -> None:
        self.per_key, self.total = per_key, total
        self.taken: Counter[str] = Counter()

    @contextmanager
    def take(self, key_id: str) -> Generator[None]:
        """Hold one for the key. Only used on the event loop's thread, so nothing comes between check and count."""
        if self.taken[key_id] >= self.per_key:
            raise busy(f"this key has as many requests under way as it may ({self.per_key}); wait for one to end")
        if self.taken.total() >= self.total:
            raise busy("the server is busy with other requests; try again later")
        self.taken[key_id] += 1
        try:
            yield
        finally:
            self.taken[key_id] -= 1
            if not self.taken[key_id]:
                del self.taken[key_id]
