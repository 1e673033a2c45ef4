"""Alignment Calibration (AC), the paper's method."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias

from muc.config import in_range
from muc.errors import UserError
from muc.methods.method import Method, Range

if TYPE_CHECKING:
    from torch import Tensor

    from muc.models import Batch, Contrast, ContrastiveModel

Reading: TypeAlias = Literal["equations", "compat"]
"""Of the paper: as it is printed, or as its released code has it."""


@dataclass(frozen=True)
class AlignmentCalibration(Method):
    """Lower the positive alignment of the images to forget, raise the alignment between them, keep the rest.

    L = L_retain + epsilon * L_unlearn, epsilon = |U| / |R|, where
    L_unlearn = - alpha E[s(x, y)] + beta E[s(x, x+)] + gamma E[log E_D exp s(x, .)] over the images x != y of U.
    """

    rows: ClassVar = "mixed"
    search: ClassVar = {"learning_rate": Range(0.003, 0.03), "paper_beta": Range(0.0, 20.0, log=False)}

    alpha: float = 1.0
    """Negative calibration: raises the similarity between different images to forget; the visible trace."""
    beta: float | None = None
    """Positive calibration: lowers the similarity of two views of an image to forget; the forgetting itself.
    In the equation's units; default: temperature * paper_beta."""
    paper_beta: float = 8.0
    """The same in the units the paper prints, a weight of the raw cosine; used unless beta is given."""
    gamma: float = 1.0
    """Performance preserving: keeps the images to forget apart from all others."""
    reading: Reading = "equations"
    """compat repeats the released code: swapped second views (alpha = gamma = 1), raw-cosine beta, mean over D."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("alpha", "beta", "paper_beta", "gamma"):
            in_range(name, getattr(self, name) or 0, 0, 1e6)
        if self.reading == "compat":
            for name in ("alpha", "gamma"):  # the released code ties both to the swapped InfoNCE
                if (value := getattr(self, name)) != 1:
                    raise UserError(f"{name} is {value}; the compat reading knows only 1, so leave it out")

    @property
    def third_view(self) -> bool:
        return self.reading == "compat"

    def loss(self, model: ContrastiveModel, batch: Batch) -> dict[str, Tensor]:
        if self.reading == "compat":
            return self._compat(model.contrast(batch.swapped()), batch)
        return self._equations(model.contrast(batch), batch)

    def _equation_beta(self, contrast: Contrast) -> float | Tensor:
        return self.paper_beta * contrast.temperature if self.beta is None else self.beta

    def _equations(self, contrast: Contrast, batch: Batch) -> dict[str, Tensor]:
        r, epsilon = batch.n_retain, batch.epsilon
        n = len(contrast.within_forget)
        similarity = contrast.within_forget
        negative_alignment = (similarity.sum() - similarity.diagonal().sum()) / (n * (n - 1))
        # U rows leave their positive out of the log-sum: as a draw from D it has no weight, and beta is its lever.
        uniformity = contrast.negatives[:, r:].mean()
        return {
            "retain": contrast.infonce()[:r].mean(),
            "negative_calibration": -self.alpha * epsilon * negative_alignment,
            "positive_calibration": self._equation_beta(contrast) * epsilon * contrast.positive[r:].mean(),
            "performance_preserving": self.gamma * epsilon * uniformity,
        }

    def _compat(self, contrast: Contrast, batch: Batch) -> dict[str, Tensor]:
        """InfoNCE over the whole mixed batch, with each forget row's positive replaced by another forget image."""
        assert contrast.third is not None, "the compat reading needs third views"
        r = batch.n_retain
        share = batch.epsilon / (1 + batch.epsilon)  # |U| / |D|
        infonce = contrast.infonce()
        return {
            "retain": (1 - share) * infonce[:r].mean(),
            "swapped": share * infonce[r:].mean(),
            "positive_calibration": self._equation_beta(contrast) * share * contrast.third.mean(),
        }
