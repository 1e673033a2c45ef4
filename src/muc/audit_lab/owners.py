"""Simulated data owners: which images are theirs, and which of these chance chose for deletion."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from muc.errors import UserError

Kind = Literal["mixed", "one class"]
KINDS: tuple[Kind, ...] = ("mixed", "one class")


@dataclass(frozen=True)
class Owner:
    """Rows of the training images, and truth values: true where deletion is requested."""

    rows: np.ndarray
    forget: np.ndarray


def draw_owner(labels: np.ndarray, kind: Kind, n_forget: int, n_control: int, rng: np.random.Generator) -> Owner:
    """Images at random, of all classes or of one that has enough of them, and then the owner's own random split."""
    pool = np.arange(len(labels))
    n = n_forget + n_control
    if kind == "one class":
        counts = np.bincount(labels)
        large = np.flatnonzero(counts >= n)
        if not len(large):
            raise UserError(f"no class has {n} images; the largest has {counts.max()}: draw fewer an owner")
        pool = pool[labels == rng.choice(large)]
    if len(pool) < n:
        raise UserError(f"an owner of {n} images cannot be drawn from {len(pool)}; draw fewer")
    rows = rng.choice(pool, n, replace=False)
    return Owner(rows, rng.permutation(n) < n_forget)
