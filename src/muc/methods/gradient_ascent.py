"""Gradient ascent: maximise the training loss of the images to forget."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from muc.methods.method import Method, Range

if TYPE_CHECKING:
    from torch import Tensor

    from muc.models import Batch, ContrastiveModel


@dataclass(frozen=True)
class GradientAscent(Method):
    """Maximise InfoNCE on the images to forget, with tiny steps because nothing bounds it."""

    rows: ClassVar = "forget"
    search: ClassVar = {"learning_rate": Range(1e-6, 1e-4)}

    epochs: int | None = 5
    learning_rate: float | None = 1e-5

    def loss(self, model: ContrastiveModel, batch: Batch) -> dict[str, Tensor]:
        return {"forget": -model.contrast(batch).infonce().mean()}
