"""What a step trains on: two views of each image, or an image and its caption; the model says which.

All kinds have one interface: `load(epoch, step)` before a step, `make()` inside it. A step reads the same tensors every
time, so that it can be recorded.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor

from muc import augment
from muc.config import Views
from muc.data.captions import Captions, tokenise_captions
from muc.data.feed import Feed
from muc.errors import UserError
from muc.methods import Method
from muc.models import CLIP, Batch, ContrastiveModel
from muc.runtime import Runtime


class Batches(ABC):
    """Batches of one training."""

    def __init__(self, feed: Feed, method: Method, views: Views, runtime: Runtime, generator: torch.Generator) -> None:
        self.feed, self.plan, self.third_view = feed, feed.plan, method.third_view
        self.views, self.runtime, self.generator = views, runtime, generator
        self.log_weight = feed.plan.log_weight().to(runtime.device)

    def load(self, epoch: int, step: int) -> None:
        self.feed.load(epoch, step)

    @abstractmethod
    def make(self) -> Batch:
        """Of the step that was loaded."""

    def _views(self, pixels: Tensor) -> Tensor:
        """(n, c, h, w) uint8 -> one fresh view of each."""
        size = pixels.shape[-1]
        parameters = augment.draw(len(pixels), size, size, self.views, self.generator)
        return self.runtime.transform(pixels, parameters, size, self.views)

    def _batch(self, first: Tensor, second: Tensor, third: Tensor | None) -> Batch:
        return Batch(first, second, self.plan.n_retain, self.log_weight, self.plan.epsilon, third)


class TwoViews(Batches):
    """Two fresh views of every image, and a third of those to forget where the method asks for one."""

    def make(self) -> Batch:
        pixels = self.feed.pixels()
        n, r = len(pixels), self.plan.n_retain
        made = self._views(torch.cat([pixels, pixels] + ([pixels[r:]] if self.third_view else [])))
        return self._batch(made[:n], made[n : 2 * n], made[2 * n :] if self.third_view else None)


class ViewAndCaption(Batches):
    """A view of every image and one of its captions, the same for all of an epoch.

    The third view of a pair to forget is its caption once more: what a method that swaps captions compares it with.
    """

    def __init__(
        self,
        feed: Feed,
        method: Method,
        views: Views,
        runtime: Runtime,
        generator: torch.Generator,
        captions: Captions,
        seed: int,
    ) -> None:
        super().__init__(feed, method, views, runtime, generator)
        self.captions, self.seed = captions, seed
        self.tokens = captions.tokens.to(runtime.device)
        self.chosen = torch.zeros(self.plan.n_retain + self.plan.n_forget, dtype=torch.long, device=runtime.device)
        self._epoch, self._epoch_chosen = -1, self.chosen

    def load(self, epoch: int, step: int) -> None:
        super().load(epoch, step)
        if epoch != self._epoch:
            drawn = torch.from_numpy(self.captions.draw(self.seed, epoch))
            self._epoch, self._epoch_chosen = epoch, drawn[self.plan.epoch(epoch)].to(self.chosen.device)
        self.chosen.copy_(self._epoch_chosen[step])

    def make(self) -> Batch:
        tokens = self.tokens[self.chosen].long()
        third = tokens[self.plan.n_retain :] if self.third_view else None
        return self._batch(self._views(self.feed.pixels()), tokens, third)


def make_batches(
    model: ContrastiveModel,
    method: Method,
    feed: Feed,
    captions: Sequence[Sequence[str]],
    views: Views,
    runtime: Runtime,
    generator: torch.Generator,
    seed: int,
) -> Batches:
    """Of the kind that the model learns from."""
    if not isinstance(model, CLIP):
        return TwoViews(feed, method, views, runtime, generator)
    check_paired(captions)
    tokens = tokenise_captions(captions, model.tokenise)
    return ViewAndCaption(feed, method, views, runtime, generator, tokens, seed)


def check_paired(captions: Sequence[Sequence[str]], name: str = "the data") -> None:
    """Refuse to train an image-text model on images alone."""
    if not len(captions):
        raise UserError(
            f"clip learns from image-text pairs and {name} has no captions; give --data glyph-pairs, "
            "tar shards, or a folder with a captions.json"
        )
