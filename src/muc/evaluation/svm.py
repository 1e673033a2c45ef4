"""A support vector machine on one number: what CMIA needs, exact, in a fraction of a second for 20,000 points.

The RBF kernel on an interval of length about one is so smooth that some twenty functions span it to machine precision:
exp(-g (x - y)^2) = sum_k f_k(x) f_k(y) with f_k(x) = exp(-g x^2) sqrt((2g)^k / k!) x^k. The dual problem then has a
matrix of that rank plus a diagonal, and each step of an interior-point method costs n times the rank squared
(Fine and Scheinberg, 2001). Made for thousands of points in two classes of about one size; a handful of points, or very
unequal classes, can be so degenerate that scikit-learn's solver comes closer to the optimum.
"""

from dataclasses import dataclass
from math import lgamma

import numpy as np

GAMMA = 1.0  # scikit-learn's gamma="auto" for one feature
TERMS = 40
STEPS = 100


@dataclass(frozen=True)
class Machine:
    """A trained machine: the sign of its decision is the class."""

    weights: np.ndarray
    bias: float
    centre: float

    def decision(self, x: np.ndarray) -> np.ndarray:
        """(n,) -> (n,): above zero where x is more like the first class."""
        return features(x - self.centre) @ self.weights + self.bias


def features(x: np.ndarray) -> np.ndarray:
    """(n,) numbers between -1 and 1 -> (n, TERMS) whose inner products are the kernel."""
    k = np.arange(TERMS)
    log_scale = 0.5 * (k * np.log(2 * GAMMA) - np.array([lgamma(i + 1) for i in k]))
    return np.exp(-GAMMA * x[:, None] ** 2 + log_scale) * x[:, None] ** k


def train(first: np.ndarray, second: np.ndarray, cost: float) -> Machine:
    """Tell `first` (+1) from `second` (-1), numbers from 0 to 1: the optimum of SVC(C=cost, gamma="auto")."""
    centre = 0.5  # the kernel sees differences only, and around zero few terms are enough
    x = np.concatenate([first, second]) - centre
    label = np.concatenate([np.ones(len(first)), -np.ones(len(second))])
    # A basis of what the features span: without it the small terms would drown in rounding.
    left, size, right = np.linalg.svd(features(x), full_matrices=False)
    kept = size > 1e-10 * size[0]  # the kernel has their squares
    weights, bias = solve(left[:, kept] * size[kept], label, cost)
    return Machine(right[kept].T @ weights, bias, centre)


@dataclass(frozen=True)
class Point:
    """Where an interior-point method is, or the direction it takes: alpha, the bias, and the bounds' multipliers."""

    alpha: np.ndarray
    bias: float
    lower: np.ndarray
    upper: np.ndarray

    def moved(self, step: float, to: "Point") -> "Point":
        pairs = zip(vars(self).values(), vars(to).values(), strict=True)
        return Point(*(here + step * there for here, there in pairs))

    def gap(self, cost: float) -> float:
        """Mean complementarity: zero at the optimum."""
        return float(self.alpha @ self.lower + (cost - self.alpha) @ self.upper) / (2 * len(self.alpha))


def solve(basis: np.ndarray, label: np.ndarray, cost: float, tolerance: float = 1e-9) -> tuple[np.ndarray, float]:
    """The linear machine on `basis` (n, d) by Mehrotra's predictor-corrector method; -> (weights, bias).

    Minimises |v' alpha|^2 / 2 - sum(alpha) over alpha in [0, cost] with label @ alpha = 0, where v = label * basis.
    """
    v = basis * label[:, None]
    n = len(label)
    # From a point where everything but complementarity holds already; from elsewhere the method can get stuck.
    share = np.where(label > 0, (label < 0).sum() / (label > 0).sum(), (label > 0).sum() / (label < 0).sum())
    alpha = cost / 2 * np.minimum(share, 1)
    slope = v @ (v.T @ alpha) - 1
    lower = np.maximum(slope, 0) + 1
    at = Point(alpha, 0.0, lower, lower - slope)
    for _ in range(STEPS):
        gap = at.gap(cost)
        if gap < tolerance * cost:
            break
        slope = v @ (v.T @ at.alpha) - 1 + label * at.bias - at.lower + at.upper
        # First straight at the optimum, to see how far that gets; then with as much centring as it showed to need.
        aim = _direction(at, v, label, cost, slope, np.zeros(n), np.zeros(n))
        target = (at.moved(_longest(at, aim, cost), aim).gap(cost) / gap) ** 3 * gap
        low, high = target - aim.alpha * aim.lower, target + aim.alpha * aim.upper
        way = _direction(at, v, label, cost, slope, low, high)
        at = at.moved(0.99 * _longest(at, way, cost), way)
    weights = v.T @ at.alpha
    return weights, _bias(at, label - basis @ weights, label, cost)


def _bias(at: Point, wanted: np.ndarray, label: np.ndarray, cost: float) -> float:
    """Where no alpha is strictly inside its bounds, an interval of biases is optimal; libsvm takes its middle."""
    # Of a number and its multiplier the one that goes to zero is the smaller.
    zero, full = at.alpha / cost < at.lower, 1 - at.alpha / cost < at.upper
    if not (zero | full).all():
        return at.bias
    least = wanted[(zero & (label > 0)) | (full & (label < 0))].max()
    most = wanted[(zero & (label < 0)) | (full & (label > 0))].min()
    return float(least + most) / 2


def _direction(
    at: Point, v: np.ndarray, label: np.ndarray, cost: float, slope: np.ndarray, low: np.ndarray, high: np.ndarray
) -> Point:
    """Newton's step towards alpha * lower = low and (cost - alpha) * upper = high.

    Its matrix is a diagonal plus v v', so only matrices of the basis' size are inverted (Woodbury).
    """
    slack = cost - at.alpha
    diagonal = at.lower / at.alpha + at.upper / slack
    scaled = v / diagonal[:, None]
    inner = np.linalg.inv(np.eye(v.shape[1]) + v.T @ scaled)

    def solved(right: np.ndarray) -> np.ndarray:
        return right / diagonal - scaled @ (inner @ (scaled.T @ right))

    to_low, to_high = low / at.alpha - at.lower, high / slack - at.upper
    free, tied = solved(to_low - to_high - slope), solved(label)
    bias = float((label @ free + label @ at.alpha) / (label @ tied))
    alpha = free - bias * tied
    return Point(alpha, bias, to_low - at.lower / at.alpha * alpha, to_high + at.upper / slack * alpha)


def _longest(at: Point, way: Point, cost: float) -> float:
    """The longest step up to one that keeps alpha inside its bounds and the multipliers positive."""
    step = 1.0
    for value, change in (
        (at.alpha, way.alpha),
        (cost - at.alpha, -way.alpha),
        (at.lower, way.lower),
        (at.upper, way.upper),
    ):
        falling = change < 0
        step = min(step, float((-value[falling] / change[falling]).min(initial=np.inf)))
    return step
