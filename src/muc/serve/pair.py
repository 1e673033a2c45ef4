"""The two models behind the endpoint."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from muc import config
from muc.errors import UserError
from muc.run_folder import RunFolder

Which = Literal["before", "after"]
Embed = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Pair:
    before: Embed
    after: Embed
    sha256: dict[Which, str]
    shape: tuple[int, int]
    """Channels and side length of what both take."""
    dimension: int
    views: config.Views
    """What the model before was trained with, and so what an owner's questions should look like."""

    def embed(self, which: Which, pixels: np.ndarray) -> np.ndarray:
        """(n, channels, side, side) uint8 -> (n, d) float64 of length 1. Rows that are not finite stay so."""
        features = (self.before if which == "before" else self.after)(pixels).astype(np.float64)
        return features / np.maximum(np.linalg.norm(features, axis=1, keepdims=True), np.finfo(np.float32).tiny)


def open_pair(before: RunFolder, after: RunFolder, runtime: config.Runtime) -> Pair:
    """Both finished runs, tried on a grey image."""
    from muc.opening import embedder

    first, second = embedder(before, runtime), embedder(after, runtime)
    if first.input_shape != second.input_shape:
        raise UserError(
            f"{before} takes {first.input_shape} images (channels, side) and {after} {second.input_shape}; "
            "serve a model with its own predecessor"
        )
    channels, side = first.input_shape
    grey = np.full((1, channels, side, side), 128, np.uint8)
    vectors = [first(grey), second(grey)]
    for run, vector in zip((before, after), vectors, strict=True):
        if not np.isfinite(vector).all():
            raise UserError(f"the model in {run} gives no finite vector for a grey image; serve another run")
    if vectors[0].shape != vectors[1].shape:
        sizes = " and ".join(str(vector.shape[1]) for vector in vectors)
        raise UserError(f"{before} and {after} give vectors of {sizes} numbers; serve a model with its own predecessor")
    digests: dict[Which, str] = {"before": before.result()["model_sha256"], "after": after.result()["model_sha256"]}
    return Pair(first, second, digests, first.input_shape, vectors[0].shape[1], first.views)
