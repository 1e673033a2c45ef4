"""What the model before remembers of the owner's images, as seen from outside: the yardstick for what can change.

Needs withheld images: of the same owner, of the same kind, that the model owner never had. Training pulls the views of
an image together; by how much more than those of images it never saw is what forgetting them could undo. How much that
is differs from model to model, so nobody else's figure can stand in for it.
"""

from dataclasses import dataclass

import numpy as np

from muc.audit.contrasts import check_size
from muc.audit.jackknife import mean
from muc.audit.power import Effect


@dataclass(frozen=True)
class Memory:
    """Positive alignment of the images trained on minus that of withheld ones, in cosine, with an interval."""

    value: float
    low: float
    high: float
    n_published: int
    n_withheld: int


def memory_of(published: np.ndarray, withheld: np.ndarray, confidence: float = 0.95) -> Memory:
    """(n,), (m,): positive alignments (the diagonal of the AM) by the model before, of images it was trained on and of
    withheld ones."""
    check_size("trained on", len(published))
    check_size("withheld", len(withheld))
    difference = mean(np.asarray(published)).minus(mean(np.asarray(withheld)))
    return Memory(difference.value, *difference.interval(confidence), len(published), len(withheld))


def effect_of_forgetting(memory: Memory) -> Effect | None:
    """The least that forgetting would change, by the interval; None where nothing is seen to be remembered."""
    if memory.low <= 0:
        return None
    # Nothing is said of different images: exact retraining leaves their similarity alone.
    return Effect("the least that forgetting them would make", memory.low, 0.0, (0.0, 0.0), (0.0, 0.0))
