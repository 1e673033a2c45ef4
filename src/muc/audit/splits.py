"""The ways in which the owner's images could have been split into forget and control."""

from functools import lru_cache
from itertools import combinations
from math import comb

import numpy as np

MOST_SPLITS = 20_000
"""Up to so many, all splits are looked at; beyond, random ones."""
DRAWS = 9_999


def possible_splits(
    forget: np.ndarray, draws: int = DRAWS, seed: int = 0, most_splits: int = MOST_SPLITS
) -> np.ndarray:
    """(n,) true where deletion was requested -> (s, n) of 0 and 1, the owner's own split in the first row.

    All splits into groups of these sizes where there are at most `most_splits`. Otherwise the owner's and `draws`
    random ones: if the request had no influence, nothing tells the owner's, drawn at random too, from the others.
    """
    own, n, n_forget = forget.astype(np.float64), len(forget), int(forget.sum())
    if comb(n, n_forget) <= most_splits:
        others = _all(n, n_forget)
        others = others[(others != own).any(axis=1)]
    else:
        others = _drawn(n, n_forget, draws, seed)
    return np.concatenate([own[None], others])


@lru_cache(maxsize=8)  # neither depends on which images are to forget, so audits of equal size share them
def _all(n: int, n_forget: int) -> np.ndarray:
    rows = np.zeros((comb(n, n_forget), n))
    np.put_along_axis(rows, np.array(list(combinations(range(n), n_forget))), 1.0, axis=1)
    return rows


@lru_cache(maxsize=8)
def _drawn(n: int, n_forget: int, draws: int, seed: int) -> np.ndarray:
    first = np.tile((np.arange(n) < n_forget).astype(np.float64), (draws, 1))
    return np.random.default_rng(seed).permuted(first, axis=1)
