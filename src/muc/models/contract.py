"""The contract every contrastive model keeps, so that no unlearning method knows which one it works on."""

from abc import ABC, abstractmethod
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor, nn

from muc import objectives
from muc.models.lane import Lane


@dataclass(frozen=True)
class Batch:
    """Rows of one step in fixed shapes: `n_retain` retain rows first, then the forget rows.

    `log_weight` corrects the rows' shares: where a tiny request would hardly ever be drawn, its rows are drawn more
    often than their share of the training data D, and weigh that much less wherever an expectation runs over D.
    """

    first: Tensor  # (n, ...) first view of each row; an image
    second: Tensor  # (n, ...) second view; for image-text models the text
    n_retain: int
    log_weight: Tensor  # (n,) log of (share of the row's kind in D / its share in the batch)
    epsilon: float = 0.0  # |U| / |R|
    third: Tensor | None = None  # (n_forget, ...) one more second view of the forget rows, for methods that ask for it

    def swapped(self) -> Self:
        """Each forget row's second view comes from another forget row: its positive is now a negative within U."""
        n = self.n_retain
        return replace(self, second=torch.cat([self.second[:n], self.second[n:].roll(1, dims=0)]))


@dataclass(frozen=True)
class Contrast:
    """What a model makes of a batch: per-row similarities s = cosine / temperature, and log-sums over negatives."""

    n_retain: int
    positive: Tensor  # (n,) s(x, x+)
    negatives: Tensor  # (anchors, n) log sum over other rows (and the queue) of w exp s(x, y)
    within_forget: Tensor  # (n_forget, n_forget) s(x_i, y_j), first views against second views
    third: Tensor | None  # (n_forget,) s(x, x+) with the third view
    temperature: float | Tensor

    def infonce(self) -> Tensor:
        """(n,) the training loss of each row."""
        return objectives.infonce(self.positive, self.negatives)


class ContrastiveModel(nn.Module, ABC):
    """A backbone (what is published and evaluated) with whatever its contrastive training needs around it."""

    fast = False  # set by the runtime on GPUs
    backbone: nn.Module
    views_trained: int = 2
    """How many views of a row a step differentiates; one that is only embedded costs a third."""
    views_embedded: int = 0
    reads_text: bool = False
    """Whether a batch's second views are texts (as tokens) instead of images."""
    _lane: Lane | None = None

    def features(self, images: Tensor) -> Tensor:
        """(n, c, h, w) normalised images -> (n, d) backbone features."""
        return self.backbone(images)

    @abstractmethod
    def projected(self, images: Tensor) -> Tensor:
        """(n, c, h, w) -> (n, p): what the contrastive loss compares."""

    @abstractmethod
    def contrast(self, batch: Batch) -> Contrast:
        """Compare the batch's views."""

    @contextmanager
    def beside(self) -> Generator[None]:
        """For second views with an encoder of their own: on a GPU it works beside the first views' one until `join`."""
        if not (self.fast and next(self.parameters()).is_cuda):
            yield
            return
        self._lane = self._lane or Lane()
        with self._lane.beside():
            yield

    def join(self) -> None:
        if self._lane is not None:
            self._lane.join()

    def compile_backbones(self) -> None:
        """Compile what does most of the work; names and weights stay as they are."""
        self.backbone.compile()

    def after_step(self) -> None:
        """Called after each optimiser step, for what is not the optimiser's to decide (MoCo's keys, CLIP's bounds)."""


def set_fast(model: nn.Module, fast: bool) -> None:
    """Whether the parts of a model that have kernels for GPUs use them."""
    for module in model.modules():
        if hasattr(module, "fast"):
            setattr(module, "fast", fast)  # noqa: B010
