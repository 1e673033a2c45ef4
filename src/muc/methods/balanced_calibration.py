"""Balanced Calibration: Alignment Calibration whose forces cancel out where they should. Not in the paper."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from muc.config import in_range
from muc.methods.alignment_calibration import AlignmentCalibration
from muc.methods.method import Method, Range

if TYPE_CHECKING:
    from torch import Tensor

    from muc.models import Batch, ContrastiveModel


@dataclass(frozen=True)
class BalancedCalibration(Method):
    """AC with alpha = gamma + beta.

    InfoNCE does not notice when all similarities rise or fall by the same amount, so nothing holds a model back there.
    AC's own terms push along that way with beta + gamma - alpha: with the paper's alpha = gamma every step lowers the
    similarity of all image-text pairs, also those to keep. NegGrad, (alpha, beta, gamma) = (0, 1, -1), does not.
    """

    rows: ClassVar = "mixed"
    search: ClassVar = {"learning_rate": Range(0.003, 0.03), "beta": Range(0.1, 10.0)}

    beta: float = 1.0
    """Positive calibration, in the equation's units: the forgetting itself."""
    gamma: float = 1.0
    """Performance preserving: keeps what is to be forgotten apart from all else."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("beta", "gamma"):
            in_range(name, getattr(self, name), 0, 1e6)

    def loss(self, model: ContrastiveModel, batch: Batch) -> dict[str, Tensor]:
        calibration = AlignmentCalibration(alpha=self.gamma + self.beta, beta=self.beta, gamma=self.gamma)
        return calibration.loss(model, batch)
