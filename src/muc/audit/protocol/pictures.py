"""The pictures behind the queries: random views of the owner's images, and decoys made of them."""

from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from io import BytesIO
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from muc import augment
from muc.audit.protocol.folder import Phase, Secret, Terms
from muc.audit.protocol.queries import Query, derived
from muc.audit.protocol.records import digest, read_bytes
from muc.errors import UserError
from muc.pictures.decode import read_image


class Pictures:
    """Makes any picture of an audit when it is asked for: the same seed gives the same pixels."""

    def __init__(self, images: np.ndarray, seed: str, terms: Terms) -> None:
        """images: (n, c, size, size) uint8, in the order of the secret."""
        self.images = torch.from_numpy(np.ascontiguousarray(images))
        self.seed, self.terms = seed, terms
        self.drawn: dict[str, np.ndarray] = {}

    def pixels(self, query: Query, phase: Phase) -> np.ndarray:
        """(c, size, size) uint8."""
        if query.kind == "decoy":
            return self._decoy(query.number)
        if query.kind == "near":
            near = np.random.default_rng(derived(self.seed, f"near/{query.image}/{query.number}"))
            return touched(self.pixels(replace(query, kind="shared"), phase), near)
        purpose = f"view/{query.number}" + (f"/{phase}" if query.kind == "fresh" else "")
        if purpose not in self.drawn:
            self.drawn[purpose] = self._views(self.images, purpose)
        return self.drawn[purpose][query.image]

    def _views(self, images: torch.Tensor, purpose: str) -> np.ndarray:
        generator = torch.Generator().manual_seed(derived(self.seed, purpose))
        side = images.shape[2]
        parameters = augment.draw(len(images), side, side, self.terms.augmentation, generator)
        made = augment.apply(images, parameters, side, self.terms.augmentation)
        return (made * 255).round().to(torch.uint8).numpy()

    def _decoy(self, number: int) -> np.ndarray:
        """Left half of a view of one image, right half of a view of another: to whoever looks for the owner's pictures
        it is one of them, but it belongs to no image."""
        purpose = f"decoy/{number}"
        if purpose not in self.drawn:
            draw = np.random.default_rng(derived(self.seed, f"{purpose}/images"))
            two = draw.choice(len(self.images), size=2, replace=False)
            left, right = self._views(self.images[torch.from_numpy(two)], purpose)
            middle = left.shape[2] // 2
            self.drawn[purpose] = np.concatenate([left[:, :, :middle], right[:, :, middle:]], axis=2)
        return self.drawn[purpose]


def touched(pixels: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Near-duplicates that nobody could see: one value in twenty is a grey level higher or lower."""
    shift = rng.choice([-1, 0, 1], size=pixels.shape, p=[0.025, 0.95, 0.025])
    return np.clip(pixels.astype(np.int16) + shift, 0, 255).astype(np.uint8)


def read_images(secret: Secret, paths: Sequence[Path], channels: int, size: int) -> np.ndarray:
    """The owner's images as a model takes them; they must be the files that the audit began with."""
    made = []
    for image, path in zip(secret.asked, paths, strict=True):
        if not path.is_file():
            raise UserError(f"the image {path} is missing; put it back, or say with --images where your images are now")
        if digest(read_bytes(path)) != image.sha256:
            raise UserError(f"the image {path} is not the file that the audit began with; restore it from a copy")
        made.append(read_image(path, size, channels))
    return np.stack(made)


def pixel_digest(pixels: np.ndarray) -> str:
    """Of the pixels, not of their encoding, which may differ between versions."""
    return sha256(f"{pixels.shape}".encode() + np.ascontiguousarray(pixels).tobytes()).hexdigest()


def to_png(pixels: np.ndarray) -> bytes:
    """(1 or 3, h, w) uint8 -> PNG."""
    buffer = BytesIO()
    Image.fromarray(pixels[0] if len(pixels) == 1 else pixels.transpose(1, 2, 0)).save(buffer, format="PNG")
    return buffer.getvalue()


def from_png(content: bytes, channels: int) -> np.ndarray:
    """-> (channels, h, w) uint8."""
    with Image.open(BytesIO(content)) as image:
        array = np.asarray(image.convert("RGB" if channels == 3 else "L"))
    return array.transpose(2, 0, 1) if channels == 3 else array[None]
