"""Contrastive objectives as pure functions: tensors in, per-sample values out; no state, no reduction, no ranks.

Similarities are written s(x, y) = cos(g(x), g(y)) / temperature, as in the paper. Embeddings come in L2-normalised.
A row's *negatives* is log sum_y w_y exp s(x, y) over everything but the row itself and its positive; with the weights
w it estimates log E_{y in D} exp s(x, y) up to a constant (log of the number of terms), which no gradient sees.
"""

import torch
from torch import Tensor


def pairwise(x: Tensor, y: Tensor, temperature: float | Tensor) -> Tensor:
    """(n, d), (m, d) -> (n, m): s(x_i, y_j); not autocast, because losses are small differences of these."""
    with torch.autocast("cuda" if x.is_cuda else "cpu", enabled=False):
        return x @ y.T / temperature


def paired(x: Tensor, y: Tensor, temperature: float | Tensor) -> Tensor:
    """(n, d), (n, d) -> (n,): s(x_i, y_i)."""
    return (x * y).sum(dim=-1) / temperature


def infonce(positive: Tensor, negatives: Tensor) -> Tensor:
    """(n,), (anchors, n) -> (n,): -s(x, x+) + log(exp s(x, x+) + sum_y exp s(x, y)), averaged over a row's anchors.

    For SimCLR (two anchors a row) its mean over rows is NT-Xent, for MoCo (one anchor) it is the usual InfoNCE, for
    CLIP (image and text as anchors) its symmetric loss.
    """
    return torch.nn.functional.softplus(negatives - positive).mean(dim=0)


def in_batch_negatives(first: Tensor, second: Tensor, temperature: float | Tensor, log_weight: Tensor) -> Tensor:
    """(n, d), (n, d), (n,) -> (2, n): SimCLR's negatives of each row's two anchors, all other rows' two views."""
    embeddings = torch.cat([first, second])
    scores = pairwise(embeddings, embeddings, temperature) + torch.cat([log_weight, log_weight])
    n = len(first)
    row = torch.arange(2 * n, device=first.device)
    own = (row[:, None] - row[None, :]) % n == 0  # itself and its positive
    return scores.masked_fill(own, -torch.inf).logsumexp(dim=1).view(2, n)


def cross_negatives(images: Tensor, texts: Tensor, temperature: float | Tensor, log_weight: Tensor) -> Tensor:
    """(n, d), (n, d), (n,) -> (2, n): CLIP's negatives, an image's among the texts and a text's among the images."""
    scores = pairwise(images, texts, temperature)
    scores = torch.stack([scores, scores.T]) + log_weight
    own = torch.eye(len(images), dtype=torch.bool, device=images.device)
    return scores.masked_fill(own, -torch.inf).logsumexp(dim=2)


def queue_negatives(query: Tensor, queue: Tensor, temperature: float | Tensor, log_weight: Tensor) -> Tensor:
    """(n, d), (k, d), (k,) -> (1, n): MoCo's negatives, the keys of earlier batches."""
    return (pairwise(query, queue, temperature) + log_weight).logsumexp(dim=1)[None]
