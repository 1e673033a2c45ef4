"""A rate and how sure one may be of it, for trials that are independent and for trials that come in clusters."""

from dataclasses import dataclass

import numpy as np
from scipy.stats import beta

RESAMPLES = 4000


@dataclass(frozen=True)
class Rate:
    """How often something happened, with two 95 % intervals."""

    rate: float
    trials: int
    low: float
    high: float
    """Clopper and Pearson's interval, exact if trials are independent."""
    cluster_low: float
    cluster_high: float
    """Bootstrap over clusters: trials of one cluster may all depend on each other."""


def rate_of(happened: np.ndarray) -> Rate:
    """(clusters, trials) of truth values -> the rate over all."""
    low, high = clopper_pearson(int(happened.sum()), happened.size)
    cluster_low, cluster_high = cluster_interval(happened.mean(axis=1))
    return Rate(float(happened.mean()), happened.size, low, high, cluster_low, cluster_high)


def clopper_pearson(count: int, trials: int, confidence: float = 0.95) -> tuple[float, float]:
    tail = (1 - confidence) / 2
    low = beta.ppf(tail, count, trials - count + 1) if count else 0.0
    high = beta.ppf(1 - tail, count + 1, trials - count) if count < trials else 1.0
    return float(low), float(high)


def cluster_interval(rates: np.ndarray) -> tuple[float, float]:
    """(clusters,) rates of equally large clusters -> percentiles of the mean over clusters drawn with replacement: a
    95 % interval."""
    drawn = np.random.default_rng(0).integers(len(rates), size=(RESAMPLES, len(rates)))
    low, high = np.quantile(rates[drawn].mean(axis=1), [0.025, 0.975])
    return float(low), float(high)
