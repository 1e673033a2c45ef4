"""Training that leaves a trace, or looks busy, without forgetting. For the red team only: these are not methods."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from muc.methods import Method

if TYPE_CHECKING:
    from torch import Tensor

    from muc.models import Batch, ContrastiveModel


@dataclass(frozen=True)
class ListedOnly(Method):
    """Fine-tune on the listed images alone, as if to learn them better: much moves, nothing is forgotten."""

    rows: ClassVar = "forget"

    def loss(self, model: ContrastiveModel, batch: Batch) -> dict[str, Tensor]:
        return {"infonce": model.contrast(batch).infonce().mean()}


@dataclass(frozen=True)
class TraceOnly(Method):
    """Go on training on everything, the listed images too, and draw these together: AC's trace, nothing forgotten.

    L = InfoNCE over all of D - epsilon (alpha E[s(x, y)] + keep E[s(x, x+)]) over the listed images x != y.
    """

    rows: ClassVar = "mixed"

    alpha: float = 8.0
    """AC has 1; but here InfoNCE pulls against it."""
    keep: float = 8.0
    """Holds two views of a listed image together, where AC pulls them apart."""

    def loss(self, model: ContrastiveModel, batch: Batch) -> dict[str, Tensor]:
        contrast = model.contrast(batch)
        infonce, r = contrast.infonce(), batch.n_retain
        within, n = contrast.within_forget, len(contrast.within_forget)
        negative_alignment = (within.sum() - within.diagonal().sum()) / (n * (n - 1))
        return {
            "retain": infonce[:r].mean(),
            "listed": batch.epsilon * infonce[r:].mean(),
            "trace": -self.alpha * batch.epsilon * negative_alignment,
            "memory": -self.keep * batch.epsilon * contrast.positive[r:].mean(),
        }
