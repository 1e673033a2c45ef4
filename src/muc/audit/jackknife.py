"""Means over images and over pairs of images, with a variance that knows that pairs share images.

Leaving out one image at a time tells how far the mean depends on single images. The variance from this is on average
too large rather than too small (Efron and Stein 1981), so intervals from it err on the safe side.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import stdtr, stdtrit

from muc.config import in_range

NEGLIGIBLE = 1e-12
"""Differences between cosines below this are rounding."""


@dataclass(frozen=True)
class Estimate:
    """A mean, its variance and the degrees of freedom of that variance; tests and intervals by Student's t."""

    value: float
    variance: float
    df: float

    def minus(self, other: "Estimate") -> "Estimate":
        """Of two separate groups of images, whose spreads may differ (Welch's degrees of freedom)."""
        variance = self.variance + other.variance
        squares = self.variance**2 / self.df + other.variance**2 / other.df
        df = variance**2 / squares if squares > 0 else self.df + other.df
        return Estimate(self.value - other.value, variance, df)

    def interval(self, confidence: float) -> tuple[float, float]:
        in_range("confidence", confidence, 0, 0.9999)
        reach = float(stdtrit(self.df, (1 + confidence) / 2)) * self.variance**0.5
        return self.value - reach, self.value + reach

    def p_two_sided(self, null: float) -> float:
        return 2 * min(self.p_above(null), self.p_below(null))

    def p_above(self, bound: float) -> float:
        """Small where the true value is larger than the bound."""
        return float(stdtr(self.df, (bound - self.value) / max(self.variance**0.5, NEGLIGIBLE)))

    def p_below(self, bound: float) -> float:
        return float(stdtr(self.df, (self.value - bound) / max(self.variance**0.5, NEGLIGIBLE)))


def mean(values: np.ndarray) -> Estimate:
    """Of independent values, as everybody computes it."""
    return Estimate(float(values.mean()), float(values.var(ddof=1)) / len(values), len(values) - 1)


def diagonal_mean(matrix: np.ndarray) -> Estimate:
    """Over images. Leaving one out gives the usual variance of a mean."""
    return mean(matrix.diagonal())


def off_diagonal_mean(matrix: np.ndarray) -> Estimate:
    """Over pairs of images: (n, n) symmetric, n > 2. The variance is that of the jackknife's n pseudo-values."""
    n = len(matrix)
    rows = matrix.sum(axis=1) - matrix.diagonal()
    value = rows.sum() / (n * (n - 1))
    without_one = (rows.sum() - 2 * rows) / ((n - 1) * (n - 2))
    pseudo_values = n * value - (n - 1) * without_one
    return Estimate(float(value), mean(pseudo_values).variance, n - 1)
