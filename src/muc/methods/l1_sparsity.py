"""l1-sparsity: fine-tune towards sparse weights; a sparser model remembers less."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from muc.config import in_range
from muc.methods.method import Method, Range

if TYPE_CHECKING:
    from torch import Tensor

    from muc.models import Batch, ContrastiveModel


@dataclass(frozen=True)
class L1Sparsity(Method):
    """Fine-tune on the retained images with an l1 penalty on the weights."""

    rows: ClassVar = "retain"
    search: ClassVar = {"l1": Range(1e-6, 1e-3)}

    l1: float = 1e-5
    """Weight of the sum of absolute weights."""

    def __post_init__(self) -> None:
        super().__post_init__()
        in_range("l1", self.l1, 0, 1e6)

    def loss(self, model: ContrastiveModel, batch: Batch) -> dict[str, Tensor]:
        infonce = model.contrast(batch).infonce().mean()
        norm = sum((p.abs().sum() for p in model.parameters() if p.requires_grad), start=0 * infonce)
        return {"infonce": infonce, "l1": self.l1 * norm}
