"""Embedding images in batches: plain for the probe, many random views for alignment."""

import torch
from torch import Tensor
from torch.nn.functional import normalize

from muc import augment
from muc.config import Views
from muc.data.files import Pixels
from muc.evaluation.chunks import chunks
from muc.models import ContrastiveModel
from muc.runtime import Runtime

BATCH = 2048
LARGE = 64  # pixels; of images with longer sides, fewer go through the model at once


@torch.inference_mode()
def embed(model: ContrastiveModel, pixels: Pixels | Tensor, runtime: Runtime, projected: bool = False) -> Tensor:
    """(n, c, h, w) uint8, wherever they are -> (n, d) backbone features, or what the contrastive loss compares."""
    parts = chunks(pixels, chunk_size(pixels), runtime)
    return torch.cat([_features(model, runtime.as_input(augment.plain(part)), runtime, projected) for part in parts])


@torch.inference_mode()
def alignment(
    model: ContrastiveModel,
    pixels: Pixels | Tensor,
    views: Views,
    runtime: Runtime,
    seed: int,
    n_views: int = 10,
) -> Tensor:
    """(n,) mean cosine between all pairs of `n_views` random views of each image (45 pairs for 10 views).

    Views depend on the seed alone: two models compared with one seed see the same pixels.
    """
    generator = runtime.generator("alignment", seed)
    scores = []
    for part in chunks(pixels, max(1, chunk_size(pixels) // n_views), runtime):
        repeated, size = part.repeat_interleave(n_views, 0), part.shape[-1]
        parameters = augment.draw(len(repeated), size, size, views, generator)
        features = _features(model, runtime.transform(repeated, parameters, size, views), runtime)
        z = normalize(features, dim=-1).unflatten(0, (-1, n_views))
        # The sum over all pairs of unit vectors is |sum z|^2; without the n equal ones, over the n (n - 1) others.
        total = z.sum(dim=1).square().sum(dim=-1)
        scores.append((total - n_views) / (n_views * (n_views - 1)))
    return torch.cat(scores)


@torch.inference_mode()
def two_views(
    model: ContrastiveModel, pixels: Pixels | Tensor, views: Views, runtime: Runtime, seed: int
) -> tuple[Tensor, Tensor]:
    """(n, d), (n, d) unit backbone features of two random views of each image, which depend on the seed alone."""
    generator = runtime.generator("two views", seed)
    pairs = []
    for part in chunks(pixels, max(1, chunk_size(pixels) // 2), runtime):
        repeated, size = part.repeat(2, 1, 1, 1), part.shape[-1]
        parameters = augment.draw(len(repeated), size, size, views, generator)
        features = _features(model, runtime.transform(repeated, parameters, size, views), runtime)
        pairs.append(normalize(features, dim=-1).chunk(2))
    return torch.cat([first for first, _ in pairs]), torch.cat([second for _, second in pairs])


def chunk_size(pixels: Pixels | Tensor) -> int:
    """How many images the model embeds at once: what they take on the device does not grow with their size."""
    return max(1, BATCH * LARGE**2 // max(LARGE, pixels.shape[-1]) ** 2)


def _features(model: ContrastiveModel, images: Tensor, runtime: Runtime, projected: bool = False) -> Tensor:
    embedding = model.projected if projected else model.features
    with runtime.autocast():
        return torch.cat([embedding(piece).float() for piece in runtime.pieces(images)])
