"""Contrastive models: SimCLR and MoCo around any backbone."""

from muc.models.build import build_model
from muc.models.contract import Batch, Contrast, ContrastiveModel
from muc.models.moco import MoCo
from muc.models.simclr import SimCLR

__all__ = ["Batch", "Contrast", "ContrastiveModel", "MoCo", "SimCLR", "build_model"]
