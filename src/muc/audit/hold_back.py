"""The randomised hold-back test: did the images to forget change more than those that chance held back?

The owner drew at random which of their images to have deleted. If the request had no influence, every other split
would have given the same alignment gap matrix, so the share of splits that look at least as changed as the owner's own
is an exact p-value: whatever the model, however the pairs depend on each other, whatever shift all images share.
"""

from dataclasses import dataclass

import numpy as np

from muc.audit.contrasts import STATISTICS, checked_groups, contrasts
from muc.audit.jackknife import NEGLIGIBLE, Estimate, diagonal_mean, off_diagonal_mean
from muc.audit.splits import DRAWS, possible_splits

ALPHA = 0.05


@dataclass(frozen=True)
class Contrast:
    """How much more the images to forget changed than the controls, in cosine, with a confidence interval."""

    value: float
    low: float
    high: float
    p: float
    """One-sided, of this statistic alone."""
    p_holm: float
    """The same, corrected for there being two. Secondary: the decision is by `HoldBack.p`."""


@dataclass(frozen=True)
class HoldBack:
    """What `hold_back_test` found. `p` is the primary result, of both contrasts together."""

    p: float
    FS: Contrast
    negative_alignment: Contrast
    n_forget: int
    n_control: int
    splits: int
    confidence: float


def hold_back_test(
    agm: np.ndarray, forget: np.ndarray, draws: int = DRAWS, seed: int = 0, confidence: float = 0.95
) -> HoldBack:
    """(n, n) alignment gap matrix, (n,) true where deletion was requested -> p-values, contrasts and intervals.

    The labels must be those of a split that was drawn at random, uniformly, before anything was requested.
    """
    agm, forget = checked_groups(agm, forget)
    splits = possible_splits(forget, draws, seed)
    primary, alone = permutation_p(contrasts(agm, splits))
    found = {
        name: Contrast(estimate.value, *estimate.interval(confidence), float(p), float(p_holm))
        for name, estimate, p, p_holm in zip(STATISTICS, estimates(agm, forget), alone, holm(alone), strict=True)
    }
    return HoldBack(
        p=float(primary),
        **found,
        n_forget=int(forget.sum()),
        n_control=int((~forget).sum()),
        splits=len(splits),
        confidence=confidence,
    )


def estimates(agm: np.ndarray, forget: np.ndarray) -> tuple[Estimate, Estimate]:
    """(n, n) symmetric, (n,) -> the FS and the negative-alignment contrast with their variances.

    Each group has its own spread here: unlearning may change that as well, and not the same for every image.
    """
    asked, kept = agm[np.ix_(forget, forget)], agm[np.ix_(~forget, ~forget)]
    fs = diagonal_mean(asked).minus(diagonal_mean(kept))
    return fs, off_diagonal_mean(kept).minus(off_diagonal_mean(asked))


def permutation_p(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(…, k, s): k statistics under s splits, the owner's split first -> (…) combined p, (…, k) p of each alone.

    Combined: every split has k p-values of its own, its rank among all splits in each statistic. The smallest of them
    is the split's best case; p is the share of splits whose best case is as good as the owner's. So the price of having
    looked at k statistics is paid under the same splits, and it is less than k where they go together.
    """
    ranks = at_least_as_large(values)
    best = ranks.min(axis=-2)
    return (best <= best[..., :1]).mean(axis=-1), ranks[..., 0] / values.shape[-1]


def at_least_as_large(values: np.ndarray) -> np.ndarray:
    """(…, s) -> how many of the s values are at least as large as each. Differences by rounding are ties."""
    order = np.argsort(values, axis=-1)
    ascending = np.take_along_axis(values, order, axis=-1)
    position = np.arange(values.shape[-1])
    starts = np.where(np.diff(ascending, axis=-1, prepend=-np.inf) > NEGLIGIBLE, position, 0)
    first_of_tie = np.maximum.accumulate(starts, axis=-1)
    counts = np.empty_like(order)
    np.put_along_axis(counts, order, values.shape[-1] - first_of_tie, axis=-1)
    return counts


def holm(p_values: np.ndarray) -> np.ndarray:
    """(k,) -> (k,) p-values that may be read one by one: the chance of any false alarm among them stays below alpha."""
    order = np.argsort(p_values)
    steps = np.maximum.accumulate(np.asarray(p_values)[order] * np.arange(len(p_values), 0, -1))
    adjusted = np.empty(len(p_values))
    adjusted[order] = np.minimum(steps, 1)
    return adjusted
