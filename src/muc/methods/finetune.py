"""Fine-tuning: go on training on what is retained and hope that the rest fades."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from muc.methods.method import Method, Range

if TYPE_CHECKING:
    from torch import Tensor

    from muc.models import Batch, ContrastiveModel


@dataclass(frozen=True)
class FineTune(Method):
    """Continue training on the retained images only."""

    rows: ClassVar = "retain"
    search: ClassVar = {"learning_rate": Range(0.003, 0.03)}

    learning_rate: float | None = 0.01

    def loss(self, model: ContrastiveModel, batch: Batch) -> dict[str, Tensor]:
        return {"infonce": model.contrast(batch).infonce().mean()}
