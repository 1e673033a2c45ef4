"""Which rows make up each step: fixed counts of retain and forget rows, planned an epoch at a time."""

from dataclasses import dataclass
from math import log
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from muc.errors import UserError
from muc.seeds import derive_seed

MIN_RETAIN = 2


@dataclass(frozen=True)
class BatchPlan:
    """How batches are drawn from retain and forget rows.

    Each step has n_retain rows of R first, then n_forget rows of U. For mixed batches the counts follow the
    sets' sizes, but at least two forget rows are in every batch, however small the request: nothing is ever
    averaged over no rows. `log_weight` undoes that where an expectation runs over all of D.
    """

    retain: np.ndarray
    forget: np.ndarray
    n_retain: int
    n_forget: int
    steps: int
    seed: int

    @property
    def epsilon(self) -> float:
        return len(self.forget) / max(1, len(self.retain))

    def log_weight(self) -> Tensor:
        """(n_retain + n_forget,) log of (a row's share of D / its share of the batch)."""
        if not (self.n_retain and self.n_forget):
            return torch.zeros(self.n_retain + self.n_forget)
        data, batch = len(self.retain) + len(self.forget), self.n_retain + self.n_forget
        retain = log(len(self.retain) / data) - log(self.n_retain / batch)
        forget = log(len(self.forget) / data) - log(self.n_forget / batch)
        return torch.tensor([retain] * self.n_retain + [forget] * self.n_forget)

    def epoch(self, epoch: int) -> Tensor:
        """(steps, n_retain + n_forget) indices of the epoch's rows; depends on seed and epoch alone."""
        generator = np.random.default_rng(derive_seed("rows", self.seed, epoch))
        parts = [
            _deal(rows, self.steps, n, generator)
            for rows, n in ((self.retain, self.n_retain), (self.forget, self.n_forget))
            if n
        ]
        return torch.from_numpy(np.concatenate(parts, axis=1))


def plan_batches(
    retain: np.ndarray,
    forget: np.ndarray,
    rows: Literal["retain", "forget", "mixed"],
    batch_size: int,
    seed: int,
) -> BatchPlan:
    """Fix the batches' make-up. An epoch passes once over the retain rows (or the forget rows alone)."""
    if rows != "retain" and len(forget) < 2:
        raise UserError(
            f"the request names {len(forget)} image, and this method compares those to forget with each other; serve "
            "it by retrain, finetune or l1_sparsity, or together with a second request"
        )
    if rows != "forget" and len(retain) < MIN_RETAIN:
        raise UserError(f"the request leaves {len(retain)} images to retain; at least {MIN_RETAIN} must stay")
    if rows == "mixed" and batch_size < MIN_RETAIN + 2:
        raise UserError(
            f"a batch size of {batch_size} has no room for {MIN_RETAIN} images to retain and 2 to forget; "
            f"give at least {MIN_RETAIN + 2}"
        )
    if rows == "retain":
        n_retain, n_forget = min(batch_size, len(retain)), 0
    elif rows == "forget":
        n_retain, n_forget = 0, min(batch_size, len(forget))
    else:
        n_retain, n_forget = _mixed_counts(len(retain), len(forget), batch_size)
    steps = len(retain) // n_retain if n_retain else len(forget) // n_forget
    return BatchPlan(retain, forget, n_retain, n_forget, steps, seed)


def _mixed_counts(retain: int, forget: int, batch_size: int) -> tuple[int, int]:
    size = min(batch_size, retain + forget)
    n_forget = round(size * forget / (retain + forget))
    if size % 8 == 0 and n_forget >= 8:
        n_forget = 8 * round(n_forget / 8)  # keeps MoCo's batch-norm groups equal
    n_forget = min(max(n_forget, 2), size - MIN_RETAIN, forget)
    n_forget = max(n_forget, size - retain)  # the retain rows that are left must fill the batch
    return size - n_forget, n_forget


def _deal(rows: np.ndarray, steps: int, n: int, generator: np.random.Generator) -> np.ndarray:
    """(steps, n) of the rows: shuffled, no row again before all have had their turn, and none twice in a step."""
    deck = rows[:0]
    dealt = []
    for _ in range(steps):
        if len(deck) < n:
            fresh = generator.permutation(rows)
            waiting = np.isin(fresh, deck)
            deck = np.concatenate([deck, fresh[~waiting], fresh[waiting]])
        dealt.append(deck[:n])
        deck = deck[n:]
    return np.stack(dealt)
