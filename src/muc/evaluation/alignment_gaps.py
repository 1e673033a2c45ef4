"""The alignment gap matrix of many images, AGM = AM(one model) - AM(another), which never exists as a whole.

AM[i, j] is the cosine between the first view of image i and the second view of image j.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

CHUNK = 1024  # rows of the matrix that exist at once

Views = tuple[Tensor, Tensor]
"""(n, d), (n, d): unit vectors of two views of each image."""


@dataclass(frozen=True)
class Spread:
    """Mean and standard deviation (n - 1 in the denominator) of so many values."""

    mean: float
    sd: float
    n: int


@dataclass(frozen=True)
class GapStatistics:
    """Of the AGM's diagonal (forgetting scores, if the first model is that before unlearning) and of all the rest."""

    positive: Spread
    negative: Spread


def gap_statistics(before: Views, after: Views, chunk: int = CHUNK) -> GapStatistics:
    """Over all n images, and over all n (n - 1) ordered pairs of different ones."""
    own = _cosines(before) - _cosines(after)
    total, squares = 0.0, 0.0
    for start in range(0, len(own), chunk):
        rows = slice(start, start + chunk)
        gap = (before[0][rows] @ before[1].T - after[0][rows] @ after[1].T).double()
        gap[torch.arange(len(gap)), torch.arange(start, start + len(gap))] = 0.0
        total += float(gap.sum())
        squares += float(gap.square().sum())
    n = len(own)
    return GapStatistics(_spread(float(own.sum()), float(own.square().sum()), n), _spread(total, squares, n * (n - 1)))


def _cosines(views: Views) -> Tensor:
    return (views[0] * views[1]).sum(dim=1).double()


def _spread(total: float, squares: float, n: int) -> Spread:
    mean = total / n
    return Spread(mean, (max(0.0, squares - n * mean**2) / (n - 1)) ** 0.5, n)
