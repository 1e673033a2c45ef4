"""Exact unlearning: train from scratch on what is retained. Also what pretraining is, with nothing to forget."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from muc.methods.method import Method

if TYPE_CHECKING:
    from torch import Tensor

    from muc.models import Batch, ContrastiveModel


@dataclass(frozen=True)
class Retrain(Method):
    """Train from scratch without the images to forget: slow, exact, what the others are compared with."""

    rows: ClassVar = "retain"
    start: ClassVar = "scratch"

    epochs: int | None = None
    """Default: as many as the original was trained for."""
    learning_rate: float | None = None
    """Default: the original's, with its schedule."""

    def loss(self, model: ContrastiveModel, batch: Batch) -> dict[str, Tensor]:
        return {"infonce": model.contrast(batch).infonce().mean()}
