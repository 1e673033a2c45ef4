"""Models whose output is a point on a circle: the angles of their outputs, and how evenly these are spread."""

import numpy as np
import torch
from scipy.special import ive
from torch import Tensor

from muc.data.files import Pixels
from muc.evaluation.features import embed
from muc.models import ContrastiveModel
from muc.runtime import Runtime

TERMS = 40  # of a series that falls faster than exponentially
EVEN = float(np.log(ive(0, 4)))
"""Wang and Isola's uniformity of a perfectly even spread over the circle, about -1.575: no spread is below."""


def projected_angles(model: ContrastiveModel, pixels: Pixels | Tensor, runtime: Runtime) -> np.ndarray:
    """(n, c, h, w) uint8 -> (n,) arctan2 of what the contrastive loss compares, which has two dimensions."""
    x, y = embed(model, pixels, runtime, projected=True).unbind(dim=1)
    return torch.atan2(y, x).double().cpu().numpy()


def spread(angles: np.ndarray) -> dict[str, float]:
    """How far from even the angles are, in three ways."""
    return {"uniformity": uniformity(angles), "kuiper": kuiper(angles), "resultant": resultant(angles)}


def uniformity(angles: np.ndarray) -> float:
    """Wang and Isola's: log of the mean over pairs of exp(-2 |x - y|^2). From EVEN to 0, where all angles are equal.

    On the circle this is exp(4 cos(a - b) - 4), whose Fourier series needs sums over angles only, not over pairs.
    """
    n, k = len(angles), np.arange(1, TERMS)
    power = np.abs(np.exp(1j * k[:, None] * angles).mean(axis=1)) ** 2
    with_itself = ive(0, 4) + 2 * (ive(k, 4) * power).sum()  # ive is exp(-4) times the Bessel function I
    return float(np.log((n * with_itself - 1) / (n - 1)))


def kuiper(angles: np.ndarray) -> float:
    """Kuiper's V: by how much an arc's share of the angles can miss its share of the circle. 0 even, 1 a point."""
    at = np.sort(np.mod(angles / (2 * np.pi), 1))
    n = len(at)
    return float((np.arange(1, n + 1) / n - at).max() + (at - np.arange(n) / n).max())


def resultant(angles: np.ndarray) -> float:
    """Length of the mean of all points: 0 where they balance, 1 where they are one."""
    return float(np.abs(np.exp(1j * angles).mean()))
