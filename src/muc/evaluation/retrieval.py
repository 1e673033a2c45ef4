"""Finding a pair's other half: image-to-text and text-to-image retrieval, and zero-shot classification.

Pure functions on unit embeddings. Ties count against the model: one that finds everything alike finds nothing.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

CHUNK = 1024  # rows of the similarity matrix that exist at once
RANKS = (1, 5, 10)


def retrieval(images: Tensor, texts: Tensor, owner: Tensor) -> dict[str, float]:
    """(n, d), (m, d), (m,) the image that each text belongs to -> R@1, R@5 and R@10 in %, both ways."""
    return {
        **_recalls("image_to_text", image_to_text_ranks(images, texts, owner)),
        **_recalls("text_to_image", text_to_image_ranks(images, texts, owner)),
    }


def _recalls(way: str, ranks: Tensor) -> dict[str, float]:
    return {f"{way}_R@{k}": 100 * float((ranks < k).double().mean()) for k in RANKS}


def image_to_text_ranks(images: Tensor, texts: Tensor, owner: Tensor) -> Tensor:
    """(n,) how many texts of other images are at least as close to each image as the closest of its own."""
    ranks = []
    for start in range(0, len(images), CHUNK):
        scores = images[start : start + CHUNK] @ texts.T
        own = owner[None, :] == torch.arange(start, start + len(scores), device=owner.device)[:, None]
        best = scores.masked_fill(~own, -torch.inf).amax(dim=1, keepdim=True)
        ranks.append(((scores >= best) & ~own).sum(dim=1))
    return torch.cat(ranks)


def text_to_image_ranks(images: Tensor, texts: Tensor, owner: Tensor) -> Tensor:
    """(m,) how many other images are at least as close to each text as its own."""
    ranks = []
    for part, mine in zip(texts.split(CHUNK), owner.split(CHUNK), strict=True):
        scores = part @ images.T
        own = scores.gather(1, mine[:, None])
        ranks.append((scores >= own).sum(dim=1) - 1)
    return torch.cat(ranks)


def zero_shot(images: Tensor, classes: Tensor, labels: Tensor) -> float:
    """(n, d), (classes, d), (n,) -> the share (%) of images whose own class name is the closest."""
    return 100 * float((text_to_image_ranks(classes, images, labels) == 0).double().mean())


def prompts(template: str, class_names: Sequence[str]) -> list[str]:
    """Class names as captions."""
    return [template.replace("{}", name) for name in class_names]
