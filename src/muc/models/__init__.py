"""Contrastive models: SimCLR and MoCo around any backbone, CLIP around any two towers."""

from muc.models.build import build_model
from muc.models.clip import CLIP
from muc.models.contract import Batch, Contrast, ContrastiveModel
from muc.models.moco import MoCo
from muc.models.simclr import SimCLR
from muc.models.text import ByteTransformer, TextTower

__all__ = [
    "CLIP",
    "Batch",
    "ByteTransformer",
    "Contrast",
    "ContrastiveModel",
    "MoCo",
    "SimCLR",
    "TextTower",
    "build_model",
]
