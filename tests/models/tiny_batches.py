"""Batches of tiny random images, for models that compare two views."""

import torch
from torch import Tensor

from muc.models import Batch

SIZE = 4


def tiny_batch(n_retain: int, n_forget: int, third: bool = False, seed: int = 0) -> Batch:
    generator = torch.Generator().manual_seed(seed)

    def images(n: int) -> Tensor:
        return torch.randn(n, 3, SIZE, SIZE, dtype=torch.float64, generator=generator)

    n = n_retain + n_forget
    return Batch(
        first=images(n),
        second=images(n),
        n_retain=n_retain,
        log_weight=torch.randn(n, generator=generator),
        epsilon=n_forget / max(1, n_retain),
        third=images(n_forget) if third else None,
    )
