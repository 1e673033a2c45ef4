"""What an unlearning method is: hyper-parameters, three declarations and a loss."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple

from muc.config import in_range, whole

if TYPE_CHECKING:
    from torch import Tensor

    from muc.models import Batch, ContrastiveModel


class Range(NamedTuple):
    """Where a hyper-parameter search may look: the paper's ranges."""

    low: float
    high: float
    log: bool = True


@dataclass(frozen=True)
class Method(ABC):
    """A way to make a model forget. Subclasses are frozen dataclasses that know nothing of SimCLR, MoCo or CLIP."""

    rows: ClassVar[Literal["retain", "forget", "mixed"]]
    """What a batch is drawn from; an epoch is one pass over these rows (mixed: over the retain rows)."""
    start: ClassVar[Literal["pretrained", "scratch"]] = "pretrained"
    search: ClassVar[dict[str, Range]] = {}

    epochs: int | None = 10
    """How many epochs to unlearn for."""
    learning_rate: float | None = 0.006
    """Constant learning rate."""

    def __post_init__(self) -> None:
        """Subclasses with more to check call this first."""
        if self.epochs is not None:
            whole("epochs", self.epochs, 1, 1_000_000)
        if self.learning_rate is not None:
            in_range("learning-rate", self.learning_rate, 0, 1000)

    @property
    def third_view(self) -> bool:
        """Whether the loss looks at a third view of the forget rows."""
        return False

    @abstractmethod
    def loss(self, model: ContrastiveModel, batch: Batch) -> dict[str, Tensor]:
        """Named terms, already weighted: their sum is what a step minimises, and each is logged."""
