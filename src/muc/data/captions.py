"""Captions of image-text pairs: tokenised once; of an image that has several, one is drawn every epoch."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from muc.errors import UserError
from muc.seeds import derive_seed

TOKENISED_AT_ONCE = 4096


@dataclass(frozen=True)
class Captions:
    """The tokens of all images' captions, one row a caption; image i has rows first[i] to first[i + 1]."""

    tokens: Tensor  # (captions, context) int32: half the memory of what the model takes, on a device for good
    first: np.ndarray  # (images + 1,)

    @property
    def counts(self) -> np.ndarray:
        """(images,) how many captions each image has."""
        return np.diff(self.first)

    def draw(self, seed: int, epoch: int) -> np.ndarray:
        """(images,) the row of each image's caption in an epoch; depends on seed and epoch alone."""
        uniform = np.random.default_rng(derive_seed("captions", seed, epoch)).random(len(self.counts))
        return self.first[:-1] + (uniform * self.counts).astype(np.int64)


def tokenise_captions(captions: Sequence[Sequence[str]], tokenise: Callable[[Sequence[str]], Tensor]) -> Captions:
    """Captions as the model that tokenises them reads them."""
    flat = [text for some in captions for text in some]
    parts = [tokenise(flat[i : i + TOKENISED_AT_ONCE]).int() for i in range(0, len(flat), TOKENISED_AT_ONCE)]
    return Captions(torch.cat(parts), np.cumsum([0, *map(len, captions)]))


def check_captions(
    name: str, train: Sequence[Sequence[str]], test: Sequence[Sequence[str]], n_train: int, n_test: int
) -> None:
    """Refuse captions that do not belong to the images one to one; no captions at all are none to check."""
    if not len(train) and not len(test):
        return
    for part, captions, n in (("training", train, n_train), ("test", test, n_test)):
        if len(captions) != n:
            raise UserError(f"{name}: {n} {part} images but captions for {len(captions)}; give each image its captions")
        for i, some in enumerate(captions):
            if isinstance(some, str) or not len(some) or not all(isinstance(text, str) and text for text in some):
                raise UserError(f"{name}: {part} image {i} has the captions {some!r}; give one or more texts in a list")
