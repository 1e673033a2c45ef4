"""Are the deleted images now treated like images that were never trained on?

Needs withheld twins: images of the same owner, drawn at random, that the model owner never had. Failing to find a
difference is no proof of sameness, so the question is turned round: the null is "they differ by the margin or more",
and both sides of it must be rejected (two one-sided tests, TOST).
"""

from dataclasses import dataclass

import numpy as np

from muc.audit.contrasts import checked_groups
from muc.audit.hold_back import ALPHA
from muc.audit.jackknife import Estimate, diagonal_mean, off_diagonal_mean
from muc.errors import UserError


@dataclass(frozen=True)
class Difference:
    """Deleted minus withheld, in cosine. The interval (confidence 1 - 2 alpha) lies within the margin iff p <= alpha.

    Above zero in positive alignment: still remembered. Below it: over-unlearned, which shows that they were members.
    Above zero in negative alignment: the trace of AC, which shows the same.
    """

    value: float
    low: float
    high: float
    margin: float
    p: float


@dataclass(frozen=True)
class Equivalence:
    """`p` is small where both alignments are equivalent: the larger of the two, as both must hold."""

    p: float
    positive_alignment: Difference
    negative_alignment: Difference
    n_deleted: int
    n_withheld: int


def equivalence_test(
    am_after: np.ndarray, deleted: np.ndarray, positive_margin: float, negative_margin: float, alpha: float = ALPHA
) -> Equivalence:
    """(n, n) alignment matrix of the model after, (n,) true for deleted, false for withheld images -> both tests.

    The matrix after, not the gap: before unlearning the two groups differed, so their gaps should. Margins are the
    largest differences in mean cosine that the owner calls none, fixed before anything is embedded.
    """
    for name, margin in (("positive", positive_margin), ("negative", negative_margin)):
        if not 0 < margin <= 2:
            raise UserError(f"the {name} margin is {margin}; give a difference between cosines, above 0 and at most 2")
    am, deleted = checked_groups(am_after, deleted)
    ours, twins = am[np.ix_(deleted, deleted)], am[np.ix_(~deleted, ~deleted)]
    positive = _within(diagonal_mean(ours).minus(diagonal_mean(twins)), positive_margin, alpha)
    negative = _within(off_diagonal_mean(ours).minus(off_diagonal_mean(twins)), negative_margin, alpha)
    return Equivalence(max(positive.p, negative.p), positive, negative, len(ours), len(twins))


def _within(difference: Estimate, margin: float, alpha: float) -> Difference:
    p = max(difference.p_above(-margin), difference.p_below(margin))
    return Difference(difference.value, *difference.interval(1 - 2 * alpha), margin, p)
