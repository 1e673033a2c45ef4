"""MoCo: a slowly moving key encoder and a queue of past keys as negatives."""

from copy import deepcopy
from math import gcd

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from muc import objectives
from muc.models.contract import Batch, Contrast, ContrastiveModel
from muc.processes import spread


class MoCo(ContrastiveModel):
    """`backbone` is any module from images to (n, feature_dim) features, `projector` any from those to projections;
    their weights are the query encoder's."""

    views_trained, views_embedded = 1, 1

    queue: Tensor
    queue_log_weight: Tensor
    queue_position: Tensor

    def __init__(
        self,
        backbone: nn.Module,
        feature_dim: int,
        *,
        projection_dim: int = 128,
        temperature: float = 0.1,
        queue_size: int = 4096,
        key_momentum: float = 0.99,
        norm_groups: int = 1,
        projector: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.backbone = backbone
        self.temperature = temperature
        self.key_momentum = key_momentum
        self.norm_groups = norm_groups
        self.projector = projector if projector is not None else nn.Linear(feature_dim, projection_dim)
        self.key_backbone = deepcopy(backbone).requires_grad_(False)
        self.key_projector = deepcopy(self.projector).requires_grad_(False)
        # Random directions, as in the original, until real keys have filled the queue.
        self.register_buffer("queue", normalize(torch.randn(queue_size, projection_dim), dim=-1))
        self.register_buffer("queue_log_weight", torch.zeros(queue_size))
        self.register_buffer("queue_position", torch.zeros((), dtype=torch.long))
        self._pending: tuple[Tensor, Tensor] | None = None
        self._orders: dict[tuple[int, torch.device], tuple[Tensor, Tensor]] = {}

    def projected(self, images: Tensor) -> Tensor:
        return self.projector(self.backbone(images))

    def _queries(self, images: Tensor) -> Tensor:
        """Queries, with rows dealt out to the batch-norm groups: retain and forget rows, which come in order, mix."""
        groups = gcd(len(images), self.norm_groups)
        queries = spread(self.projected, images.unflatten(0, (-1, groups)).transpose(0, 1).flatten(0, 1))
        return normalize(queries.float(), dim=-1).unflatten(0, (groups, -1)).transpose(0, 1).flatten(0, 1)

    @torch.no_grad()
    def _keys(self, images: Tensor) -> Tensor:
        """Keys of shuffled rows, put back in order: batch-norm groups must not give a key's query away."""
        order, back = self._shuffle(len(images), images.device)
        keys = spread(lambda some: self.key_projector(self.key_backbone(some)), images[order])
        return normalize(keys.float(), dim=-1)[back]

    def _shuffle(self, n: int, device: torch.device) -> tuple[Tensor, Tensor]:
        """A fixed random order of n rows and its inverse; the rows themselves are drawn anew in every step."""
        if (n, device) not in self._orders:
            order = torch.randperm(n, generator=torch.Generator().manual_seed(n))
            self._orders[n, device] = (order.to(device), order.argsort().to(device))
        return self._orders[n, device]

    def contrast(self, batch: Batch) -> Contrast:
        n, r, tau = len(batch.first), batch.n_retain, self.temperature
        with self.beside():
            keys = self._keys(batch.second if batch.third is None else torch.cat([batch.second, batch.third]))
        query = self._queries(batch.first)
        self.join()
        second, third = keys[:n], keys[n:]
        self._pending = (second, batch.log_weight)
        return Contrast(
            n_retain=r,
            positive=objectives.paired(query, second, tau),
            negatives=objectives.queue_negatives(query, self.queue, tau, self.queue_log_weight),
            within_forget=objectives.pairwise(query[r:], second[r:], tau),
            third=None if batch.third is None else objectives.paired(query[r:], third, tau),
            temperature=tau,
        )

    def compile_backbones(self) -> None:
        super().compile_backbones()
        self.key_backbone.compile()

    @torch.no_grad()
    def after_step(self) -> None:
        """Queue the step's keys and let the key encoder follow the query encoder."""
        assert self._pending is not None, "after_step() needs a contrast() before it"
        (keys, log_weight), self._pending = self._pending, None
        size = len(self.queue)
        slot = (self.queue_position + torch.arange(len(keys), device=keys.device)) % size
        # A batch larger than the queue would write some slots twice; its last rows win.
        keys, log_weight, slot = keys[-size:], log_weight[-size:], slot[-size:]
        self.queue[slot] = keys
        self.queue_log_weight[slot] = log_weight
        self.queue_position.copy_((slot[-1] + 1) % size)
        follow(self.key_backbone, self.backbone, self.key_momentum)
        follow(self.key_projector, self.projector, self.key_momentum)


def follow(slow: nn.Module, fast: nn.Module, momentum: float) -> None:
    """Exponential moving average of the parameters; buffers (batch-norm statistics) are the slow module's own."""
    slow_values, fast_values = ([p.data for p in module.parameters()] for module in (slow, fast))
    torch._foreach_lerp_(slow_values, fast_values, 1 - momentum)
