"""Machine unlearning for contrastive encoders: forget training data, choose the method by evidence, let owners check.

The public names are listed here and loaded when first used, so that `import muc` costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from muc.api import embedder, evaluate, pretrain, unlearn
    from muc.audit import look
    from muc.config import Optimisation, Probe, Request, Runtime, Views
    from muc.data import ImageSet, from_dataset, from_pairs, load_images
    from muc.errors import UserError
    from muc.evaluation.gaps import gaps
    from muc.methods import (
        METHODS,
        AlignmentCalibration,
        BalancedCalibration,
        FineTune,
        GradientAscent,
        L1Sparsity,
        Method,
        NegGrad,
        Retrain,
    )
    from muc.models import CLIP, ByteTransformer, ContrastiveModel, MoCo, SimCLR, TextTower
    from muc.models.inputs import expecting
    from muc.run_folder import RunFolder

_HOMES = {
    "muc.api": ("embedder", "evaluate", "pretrain", "unlearn"),
    "muc.audit": ("look",),
    "muc.config": ("Optimisation", "Probe", "Request", "Runtime", "Views"),
    "muc.data": ("ImageSet", "from_dataset", "from_pairs", "load_images"),
    "muc.errors": ("UserError",),
    "muc.evaluation.gaps": ("gaps",),
    "muc.models": ("CLIP", "ByteTransformer", "ContrastiveModel", "MoCo", "SimCLR", "TextTower"),
    "muc.models.inputs": ("expecting",),
    "muc.run_folder": ("RunFolder",),
    "muc.methods": (
        "METHODS",
        "AlignmentCalibration",
        "BalancedCalibration",
        "FineTune",
        "GradientAscent",
        "L1Sparsity",
        "Method",
        "NegGrad",
        "Retrain",
    ),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "CLIP",
    "METHODS",
    "AlignmentCalibration",
    "BalancedCalibration",
    "ByteTransformer",
    "ContrastiveModel",
    "FineTune",
    "GradientAscent",
    "ImageSet",
    "L1Sparsity",
    "Method",
    "MoCo",
    "NegGrad",
    "Optimisation",
    "Probe",
    "Request",
    "Retrain",
    "RunFolder",
    "Runtime",
    "SimCLR",
    "TextTower",
    "UserError",
    "Views",
    "embedder",
    "evaluate",
    "expecting",
    "from_dataset",
    "from_pairs",
    "gaps",
    "load_images",
    "look",
    "pretrain",
    "unlearn",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'muc' has no attribute '{name}'")
    return getattr(import_module(_HOME_OF[name]), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
