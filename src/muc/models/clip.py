"""CLIP: an image and its caption are the two views of a pair; the other captions and images are the negatives."""

from collections.abc import Sequence
from math import log

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from muc import objectives
from muc.models.contract import Batch, Contrast, ContrastiveModel
from muc.models.text import TextTower
from muc.processes import spread

MAX_SCALE = 100.0  # 1 / the smallest temperature, as in the original


class CLIP(ContrastiveModel):
    """`backbone` is any module from images to (n, feature_dim) features, `text` any text tower.

    A `projection_dim` of None leaves the projections out, for towers that end in one space already.
    """

    reads_text = True
    views_trained = 1  # of the image; the caption has a tower of its own

    def __init__(
        self,
        backbone: nn.Module,
        feature_dim: int,
        text: TextTower,
        *,
        projection_dim: int | None = 128,
        temperature: float = 0.07,
    ) -> None:
        super().__init__()
        self.backbone, self.text = backbone, text
        self.projector: nn.Module = nn.Identity()
        self.text_projector: nn.Module = nn.Identity()
        if projection_dim is not None:
            self.projector = nn.Linear(feature_dim, projection_dim, bias=False)
            self.text_projector = nn.Linear(text.width, projection_dim, bias=False)
        # Its logarithm is learnt, as in the original: a step then changes the temperature by a ratio.
        self.log_scale = nn.Parameter(torch.tensor(-log(temperature)))

    @property
    def temperature(self) -> Tensor:
        return (-self.log_scale.float()).exp()

    def projected(self, images: Tensor) -> Tensor:
        return self.projector(self.backbone(images))

    def projected_texts(self, tokens: Tensor) -> Tensor:
        """(n, context) int64 -> (n, p): what `projected` gives is compared with this."""
        return self.text_projector(self.text(tokens))

    def tokenise(self, texts: Sequence[str]) -> Tensor:
        return self.text.tokenise(texts)

    def contrast(self, batch: Batch) -> Contrast:
        """A third view is a caption too: with swapped captions (AC's compat reading), the row's own one."""
        n, r, tau = len(batch.first), batch.n_retain, self.temperature
        with self.beside():
            # A copy even of one: gradients read it here when the main stream may already use the batch's memory anew.
            tokens = torch.cat([batch.second] if batch.third is None else [batch.second, batch.third])
            texts = normalize(spread(self.projected_texts, tokens).float(), dim=-1)
        images = normalize(spread(self.projected, batch.first).float(), dim=-1)
        self.join()
        texts, third = texts[:n], texts[n:]
        return Contrast(
            n_retain=r,
            positive=objectives.paired(images, texts, tau),
            negatives=objectives.cross_negatives(images, texts, tau, batch.log_weight),
            within_forget=objectives.pairwise(images[r:], texts[r:], tau),
            third=None if batch.third is None else objectives.paired(images[r:], third, tau),
            temperature=tau,
        )

    def compile_backbones(self) -> None:
        super().compile_backbones()
        self.text.compile()

    @torch.no_grad()
    def after_step(self) -> None:
        """Keep the temperature between 1 and 0.01: without the bound it shrinks until training breaks down."""
        self.log_scale.clamp_(0, log(MAX_SCALE))
