"""SimCLR: two views of each image, all other images of the batch as negatives (NT-Xent)."""

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from muc import objectives
from muc.models.contract import Batch, Contrast, ContrastiveModel
from muc.processes import spread


class SimCLR(ContrastiveModel):
    """`backbone` is any module from images to (n, feature_dim) features, `projector` any from those to projections."""

    def __init__(
        self,
        backbone: nn.Module,
        feature_dim: int,
        *,
        hidden_dim: int | None = None,
        projection_dim: int = 128,
        temperature: float = 0.5,
        projector: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.backbone = backbone
        self.temperature = temperature
        hidden_dim = hidden_dim or feature_dim
        self.projector = (
            projector
            if projector is not None
            else nn.Sequential(
                nn.Linear(feature_dim, hidden_dim, bias=False),
                nn.BatchNorm1d(hidden_dim),
                nn.ReLU(inplace=True),
                nn.Linear(hidden_dim, projection_dim, bias=False),
                nn.BatchNorm1d(projection_dim),
            )
        )

    def projected(self, images: Tensor) -> Tensor:
        return self.projector(self.backbone(images))

    def contrast(self, batch: Batch) -> Contrast:
        n, r, tau = len(batch.first), batch.n_retain, self.temperature
        views = [batch.first, batch.second] + ([] if batch.third is None else [batch.third])
        # One pass for all views: batch norm sees retain and forget rows together, as in the original SimCLR.
        z = normalize(spread(self.projected, torch.cat(views)).float(), dim=-1)
        first, second, third = z[:n], z[n : 2 * n], z[2 * n :]
        return Contrast(
            n_retain=r,
            positive=objectives.paired(first, second, tau),
            negatives=objectives.in_batch_negatives(first, second, tau, batch.log_weight),
            within_forget=objectives.pairwise(first[r:], second[r:], tau),
            third=None if batch.third is None else objectives.paired(first[r:], third, tau),
            temperature=tau,
        )
