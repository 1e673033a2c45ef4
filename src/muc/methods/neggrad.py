"""NegGrad: descend on what is retained and ascend on what is to be forgotten, together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from muc.config import in_range
from muc.methods.method import Method, Range

if TYPE_CHECKING:
    from torch import Tensor

    from muc.models import Batch, ContrastiveModel


@dataclass(frozen=True)
class NegGrad(Method):
    """Minimise InfoNCE on the retained images and maximise it on those to forget.

    The paper gives no mixing weight; here each image counts the same, with its sign reversed if it is to be
    forgotten: L = E_R[InfoNCE] - weight * epsilon * E_U[InfoNCE], epsilon = |U| / |R|.
    """

    rows: ClassVar = "mixed"
    search: ClassVar = {"learning_rate": Range(0.003, 0.03)}

    learning_rate: float | None = 0.01
    ascent_weight: float = 1.0
    """How much the ascent counts, on top of epsilon."""

    def __post_init__(self) -> None:
        super().__post_init__()
        in_range("ascent-weight", self.ascent_weight, 0, 1e6)

    def loss(self, model: ContrastiveModel, batch: Batch) -> dict[str, Tensor]:
        infonce = model.contrast(batch).infonce()
        retain, forget = infonce[: batch.n_retain], infonce[batch.n_retain :]
        return {"retain": retain.mean(), "forget": -self.ascent_weight * batch.epsilon * forget.mean()}
