"""A small world for the protocol's tests: an owner's image files, and models that are plain functions of pixels."""

from collections.abc import Sequence
from pathlib import Path
from random import Random

import numpy as np
from PIL import Image

from muc.audit.protocol.endpoint import About, Reply
from muc.audit.protocol.folder import AuditFolder, Phase
from muc.audit.protocol.pictures import from_png
from muc.audit.protocol.start import start
from muc.config import Views

SIZE, DIMENSION = 8, 12
MILD = Views(min_scale=1, flip=0.5, brightness=0.2, contrast=0, saturation=0, hue=0, jitter=1, grayscale=0)
"""Views by which a picture can still be told: flips and brightness."""
HASHES = {"before": "a" * 64, "after": "b" * 64}


def write_images(folder: Path, n: int, seed: int = 0, name: str = "picture") -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 200, (n, SIZE, SIZE, 3), dtype=np.uint8)
    paths = [folder / f"{name}-{i:02}.png" for i in range(n)]
    for path, array in zip(paths, pixels, strict=True):
        Image.fromarray(array).save(path)
    return paths


def begin(
    out: Path, paths: Sequence[Path], views: int = 4, seed: int = 0, withheld: Sequence[Path] = ()
) -> AuditFolder:
    names, kept = ([path.name for path in some] for some in (paths, withheld))
    return start(paths, names, out, None, views, MILD, Random(seed), (withheld, kept))


class Models:
    """Both models behind one endpoint. The model after treats the pictures of `forgotten` files in another way."""

    def __init__(self, forgotten: Sequence[Path] = (), strength: float = 0.6, seed: int = 1) -> None:
        rng = np.random.default_rng(seed)
        self.map = rng.normal(size=(3 * SIZE * SIZE, DIMENSION))
        self.trained = self.map + 0.01 * np.random.default_rng(seed + 1).normal(size=self.map.shape)  # on, a little
        self.common = rng.normal(size=DIMENSION)
        self.strength = strength
        arrays = [np.asarray(Image.open(path)).transpose(2, 0, 1) for path in forgotten]
        self.templates = [pattern(a) for array in arrays for a in (array, array[:, :, ::-1])]
        self.asked: dict[str, list[bytes]] = {"before": [], "after": []}
        self.batches: list[int] = []
        self.budget: int | None = None
        self.hashes: dict[str, str] = dict(HASHES)

    def about(self, phase: Phase) -> About:
        return About(3, SIZE, self.hashes[phase], DIMENSION, self.budget)

    def embed(self, pngs: Sequence[bytes], phase: Phase) -> Reply:
        self.asked[phase] += pngs
        self.batches.append(len(pngs))
        if self.budget is not None:
            self.budget -= len(pngs)
        vectors = [self.vector(from_png(png, 3), phase) for png in pngs]
        return Reply([v.tolist() for v in vectors], self.hashes[phase], self.budget)

    def vector(self, pixels: np.ndarray, phase: Phase) -> np.ndarray:
        made = pattern(pixels) @ (self.trained if phase == "after" else self.map)
        if phase == "after" and any(float(t @ pattern(pixels)) > 0.9 for t in self.templates):
            made = (1 - self.strength) * made + self.strength * np.linalg.norm(made) * self.common / 3
        return made


def pattern(pixels: np.ndarray) -> np.ndarray:
    flat = pixels.reshape(-1).astype(np.float64)
    flat -= flat.mean()
    return flat / max(float(np.linalg.norm(flat)), 1e-9)
