"""What a data owner sees from outside: alignment matrices before and after unlearning, and their gap."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch

from muc import augment
from muc.config import Views, whole
from muc.errors import UserError

Embed = Callable[[np.ndarray], np.ndarray]
"""The whole interface to a model: (n, c, h, w) uint8 images -> (n, d) vectors."""


@dataclass(frozen=True)
class Look:
    """Alignment matrices (AM) of n images before and after, and their difference (AGM = before - after).

    Entry (i, j) is the cosine between a view of image i and a view of image j. On the diagonal of the AGM are the
    forgetting scores; the mean of the rest is the negative-alignment gap, below zero where AC has left its trace.
    """

    names: list[str]
    before: list[list[float]]
    after: list[list[float]]
    gap: list[list[float]]
    forgetting_scores: list[float]
    positive_alignment_before: float
    positive_alignment_after: float
    negative_alignment_before: float
    negative_alignment_after: float
    negative_alignment_gap: float
    view_pairs: int
    of_pairs: bool = False
    """Whether images are compared with captions, and not with each other."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def look(
    before: Embed,
    after: Embed,
    images: np.ndarray,
    views: Views,
    names: Sequence[str] | None = None,
    view_pairs: int = 8,
    seed: int = 0,
) -> Look:
    """Send the same random views of the owner's images to both models and compare. -> matrices and their summary.

    `view_pairs` pairs of views per image are averaged; one pair, as in the paper, is noisier.
    """
    if len(images) < 2:
        raise UserError(f"at least 2 images are needed, to compare them with each other; got {len(images)}")
    check_pixels(images)
    whole("--view-pairs", view_pairs, 1, 10_000)
    pixels = torch.from_numpy(np.ascontiguousarray(images))
    generator = torch.Generator().manual_seed(seed)
    n = len(images)
    am_before, am_after = np.zeros((n, n)), np.zeros((n, n))
    for _ in range(view_pairs):
        first, second = (_owner_views(pixels, views, generator) for _ in range(2))
        am_before += alignment_matrix(ask(before, first), ask(before, second)) / view_pairs
        am_after += alignment_matrix(ask(after, first), ask(after, second)) / view_pairs
    return summarise(am_before, am_after, list(names or map(str, range(n))), view_pairs)


def check_pixels(images: np.ndarray) -> None:
    """Colours from 0 to 1 would all be black."""
    if images.dtype != np.uint8 or images.ndim != 4 or images.shape[1] not in (1, 3):
        shape = " x ".join(map(str, images.shape))
        raise UserError(f"the images are {images.dtype}, {shape}; give uint8, (n, 1 or 3 channels, height, width)")


def _owner_views(pixels: torch.Tensor, views: Views, generator: torch.Generator) -> np.ndarray:
    """Augmented images as any endpoint takes them: whole uint8 pictures."""
    parameters = augment.draw(len(pixels), pixels.shape[2], pixels.shape[3], views, generator)
    made = augment.apply(pixels, parameters, pixels.shape[2], views)
    return (made * 255).round().to(torch.uint8).numpy()


def ask(model: Embed, images: np.ndarray) -> np.ndarray:
    """(n, d) the model's vectors; any other answer is refused, not guessed at."""
    vectors = np.asarray(model(images))
    shape = vectors.shape
    if len(shape) != 2 or shape[0] != len(images) or shape[1] == 0 or vectors.dtype.kind not in "fiu":
        raise UserError(
            f"the model answered with an array of shape {shape} and type {vectors.dtype} to {len(images)} images; "
            "expected one vector an image"
        )
    if not np.isfinite(vectors).all():
        raise UserError("the model answered with vectors that hold NaN or infinite values; expected finite numbers")
    return vectors


def alignment_matrix(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """(n, d), (n, d) -> (n, n): AM, the cosine between each first view and each second view."""
    if first.shape != second.shape:
        raise UserError(
            f"the model answered with arrays of shapes {first.shape} and {second.shape}; expected the same every time"
        )
    exact = first.astype(np.float64), second.astype(np.float64)
    a, b = (v / np.maximum(np.linalg.norm(v, axis=1, keepdims=True), 1e-12) for v in exact)
    return a @ b.T


def summarise(am_before: np.ndarray, am_after: np.ndarray, names: list[str], view_pairs: int) -> Look:
    """The numbers behind two alignment matrices."""
    agm = am_before - am_after
    off = ~np.eye(len(agm), dtype=bool)
    return Look(
        names=names,
        before=am_before.tolist(),
        after=am_after.tolist(),
        gap=agm.tolist(),
        forgetting_scores=agm.diagonal().tolist(),
        positive_alignment_before=float(am_before.diagonal().mean()),
        positive_alignment_after=float(am_after.diagonal().mean()),
        negative_alignment_before=float(am_before[off].mean()),
        negative_alignment_after=float(am_after[off].mean()),
        negative_alignment_gap=float(agm[off].mean()),
        view_pairs=view_pairs,
    )
