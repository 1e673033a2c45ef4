"""The unlearning methods. A new one is a file beside these and a line here (docs/methods.md)."""

from muc.methods.alignment_calibration import AlignmentCalibration
from muc.methods.balanced_calibration import BalancedCalibration
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
    "balanced_calibration": BalancedCalibration,
}
PAPER_METHODS = ("retrain", "finetune", "gradient_ascent", "neggrad", "l1_sparsity", "alignment_calibration")


def usual_methods(algorithm: str) -> tuple[str, ...]:
    """What is tried unless something else is asked for: the paper's, and for pairs the one that was made for them."""
    return (*PAPER_METHODS, "balanced_calibration") if algorithm == "clip" else PAPER_METHODS


__all__ = [
    "METHODS",
    "PAPER_METHODS",
    "AlignmentCalibration",
    "BalancedCalibration",
    "FineTune",
    "GradientAscent",
    "L1Sparsity",
    "Method",
    "NegGrad",
    "Range",
    "Retrain",
    "usual_methods",
]
