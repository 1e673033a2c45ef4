"""What is left to an owner who held no images back: tests of the negative-alignment gap against a fixed value.

None of them can tell unlearning from another training of the same model: two trainings differ by a shift that all
images share, and more images make these tests surer of that shift. Their false alarms believe a cheat. Hold images
back wherever that is still possible (`hold_back`).

A t-test over the images' row means is not offered: the rows share pairs, and it rejects 20 to 32 % true nulls at 5 %.
"""

from dataclasses import dataclass

import numpy as np

from muc.audit.contrasts import FEWEST, checked_matrix
from muc.audit.jackknife import Estimate, mean, off_diagonal_mean
from muc.errors import UserError

NO_CONTROLS = "holds only if no shift is common to all images; another training of the same model has such a shift"


@dataclass(frozen=True)
class GapTest:
    """The negative-alignment gap against `null`, two-sided."""

    test: str
    gap: float
    low: float
    high: float
    p: float
    n_images: int
    limits: str
    """What must be said wherever p is shown."""


def jackknife_test(agm: np.ndarray, null: float = 0.0, confidence: float = 0.95) -> GapTest:
    """All pairs, with the jackknife's variance and Student's t of N - 1 degrees of freedom.

    Takes into account that pairs share images; conservative where they hardly depend on each other. It believes that
    the gap of another model would be `null` on average: against a common shift it is as helpless as the others.
    """
    agm = checked_matrix(agm)
    return _gap_test("jackknife", off_diagonal_mean(agm), null, confidence, len(agm), NO_CONTROLS)


def disjoint_pairs_test(agm: np.ndarray, null: float = 0.0, confidence: float = 0.95) -> GapTest:
    """Pairs (1, 2), (3, 4), … in the order given: no two share an image, so a plain t-test is right for them.

    Uses N/2 of N(N-1)/2 pairs and has little power. Order the images before looking at any gap.
    """
    agm = checked_matrix(agm)
    if len(agm) < FEWEST + 1:
        raise UserError(f"{len(agm)} images were given; two disjoint pairs need at least {FEWEST + 1}")
    first = np.arange(0, len(agm) - 1, 2)
    return _gap_test("disjoint pairs", mean(agm[first, first + 1]), null, confidence, len(agm), NO_CONTROLS)


def pair_t_test(agm: np.ndarray, null: float = 0.0, confidence: float = 0.95) -> GapTest:
    """The paper's: a t-test that takes all N(N-1)/2 pairs for independent. NOT VALID FOR DECISIONS.

    The pairs share images, so it rejects true nulls far more often than it says, and the more images the more so.
    Here to show what the paper's test would have said.
    """
    agm = checked_matrix(agm)
    limits = "not valid for decisions: it takes pairs that share images for independent"
    pairs = agm[np.triu_indices(len(agm), k=1)]
    return _gap_test("t-test over pairs (the paper's)", mean(pairs), null, confidence, len(agm), limits)


def _gap_test(test: str, gap: Estimate, null: float, confidence: float, n_images: int, limits: str) -> GapTest:
    return GapTest(test, gap.value, *gap.interval(confidence), gap.p_two_sided(null), n_images, limits)
