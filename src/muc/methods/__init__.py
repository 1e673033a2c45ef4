"""The unlearning methods. A new one is a file beside these and a line here (docs/methods.md)."""

from muc.methods.alignment_calibration import AlignmentCalibration
from muc.methods.finetune import FineTune
from muc.methods.gradient_ascent import GradientAscent
from muc.methods.l1_sparsity import L1Sparsity
from muc.methods.method import Method, Range
from muc.methods.neggrad import NegGrad
from muc.methods.retrain import Retrain

METHODS: dict[str, type[Method]] = {
    "retrain": Retrain,
    "finetune": FineTune,
    "gradient_ascent": GradientAscent,
    "neggrad": NegGrad,
    "l1_sparsity": L1Sparsity,
    "alignment_calibration": AlignmentCalibration,
}

__all__ = [
    "METHODS",
    "AlignmentCalibration",
    "FineTune",
    "GradientAscent",
    "L1Sparsity",
    "Method",
    "NegGrad",
    "Range",
    "Retrain",
]
