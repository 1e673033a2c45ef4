"""How likely the hold-back test is to find a change of a given size: before the audit to plan it, after it to judge it.

Before, alignment gaps are simulated as normal with the paper's means and deviations. After, nothing is assumed about
their spread: the change is planted into the owner's own matrix.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np

from muc.audit.contrasts import FEWEST, check_sizes, checked_groups, contrasts
from muc.audit.hold_back import ALPHA, permutation_p
from muc.audit.splits import possible_splits
from muc.config import in_range
from muc.errors import UserError

ENOUGH = 0.8
"""The power an audit should have, and must have before "no change found" may be said."""
CAUTIOUS_RHO, HOPEFUL_RHO = 0.3, 0.03
"""The correlation between pairs that share an image is not known before the audit; this is the range to plan for."""
DRAWS = 999  # enough to tell whether p is below alpha, and ten times as fast as an audit's
LARGEST_SCALE = 8.0
MOST_SIMULATED, MOST_PLANTED = 200, 400
"""Images that power is computed for, before and after: more would take minutes, and only have more power."""
AT_ONCE = 16
"""Matrices at a time: one by one takes long on a busy machine, and all together much memory."""


@dataclass(frozen=True)
class Effect:
    """What a way of unlearning does to the images to forget, and how single values scatter: (forget, control).

    `fs` and `negative_alignment` are contrasts, signed like those of the hold-back test.
    """

    name: str
    fs: float
    negative_alignment: float
    fs_sd: tuple[float, float]
    negative_alignment_sd: tuple[float, float]


# From the paper's t-tests: MoCo on CIFAR-10, 10 % forgotten, one pair of views; control = its null arm, another seed.
AC = Effect(
    "Alignment Calibration's in the paper", 0.0084 + 0.0026, 0.0057 + 0.0359, (0.04438, 0.0587), (0.0295, 0.0403)
)
RETRAIN = Effect("Retrain's in the paper", 0.0353 + 0.0026, 0.0, (0.0575, 0.0587), (0.0403, 0.0403))
EFFECTS = {"ac": AC, "retrain": RETRAIN}
"""What a change can be compared with, by the names that commands know."""
# The same of muc's own encoder: MoCo on CIFAR-10, 800 epochs, seed 0, 10 % forgotten (docs/reproduction.md, "What can
# be seen from outside"); control = test images. How AC's values scatter over these was not kept: assumed equal.
MEASURED = {
    "ac": Effect(
        "that of Alignment Calibration on our CIFAR-10 encoder", 0.0131, 0.0039, (0.0344, 0.0344), (0.0292, 0.0292)
    ),
    "retrain": Effect(
        "that of a training without the images, on our CIFAR-10 encoder",
        0.0200,
        0.0068,
        (0.0418, 0.0397),
        (0.0403, 0.0398),
    ),
}
"""Smaller than in the paper, whose null arm is another seed: what a method does to all images is no forgetting."""


def shift(effect: Effect, n_forget: int, n_control: int) -> np.ndarray:
    """(n, n): what the effect adds to an AGM, images to forget first. AC's calibration is about pairs among these."""
    forget = (np.arange(n_forget + n_control) < n_forget).astype(np.float64)
    matrix = -effect.negative_alignment * np.outer(forget, forget)
    np.fill_diagonal(matrix, effect.fs * forget)
    return matrix


def scatter(effect: Effect, n_forget: int, n_control: int, rho: float, rng: np.random.Generator) -> np.ndarray:
    """(n, n) a random AGM around zero; pairs that share one image have correlation rho, other pairs none."""
    in_range("rho", rho, 0, 0.5)  # at most half: each of a pair's two images brings rho of its variance
    n = n_forget + n_control
    images, pairs = rng.normal(size=n), np.triu(rng.normal(size=(n, n)), k=1)
    unit = rho**0.5 * (images[:, None] + images) + (1 - 2 * rho) ** 0.5 * (pairs + pairs.T)
    sd = np.repeat(effect.negative_alignment_sd, (n_forget, n_control))
    agm = unit * (sd[:, None] + sd) / 2
    np.fill_diagonal(agm, np.repeat(effect.fs_sd, (n_forget, n_control)) * rng.normal(size=n))
    return agm


def model_power(
    n_forget: int,
    n_control: int,
    effect: Effect = AC,
    rho: float = CAUTIOUS_RHO,
    alpha: float = ALPHA,
    repetitions: int = 1000,
    seed: int = 0,
) -> float:
    """Share of simulated audits that find the effect."""
    noise, signal = _simulated(n_forget, n_control, effect, rho, repetitions, seed)
    return _rejected(noise + signal, alpha)


def planted_power(
    agm: np.ndarray, n_forget: int, effect: Effect = AC, alpha: float = ALPHA, repetitions: int = 500, seed: int = 0
) -> float:
    """Share of random splits of the owner's own images at which the effect, added to their AGM, would be found.

    So spread, correlation and odd images are those of this audit. A change that is there already adds to the spread,
    and the power comes out too low rather than too high. Only means are planted, not the effect's deviations. Of more
    than `MOST_PLANTED` images, so many are drawn each time: that, too, is too low rather than too high.
    """
    agm, _ = checked_groups(agm, np.arange(len(agm)) < n_forget)
    n_forget, n_control = at_most(MOST_PLANTED, n_forget, len(agm) - n_forget)
    n, rng = n_forget + n_control, np.random.default_rng(seed)
    orders = [rng.permutation(len(agm))[:n] for _ in range(repetitions)]
    rows = _splits(np.arange(n) < n_forget, seed)
    noise = _contrasts_of((agm[np.ix_(order, order)] for order in orders), rows)
    return _rejected(noise + contrasts(shift(effect, n_forget, n_control), rows), alpha)


def at_most(most: int, n_forget: int, n_control: int) -> tuple[int, int]:
    """These sizes of the groups, or smaller ones in the same proportion."""
    n = n_forget + n_control
    if n <= most:
        return n_forget, n_control
    fewer = min(max(round(most * n_forget / n), FEWEST), most - FEWEST)
    return fewer, most - fewer


def minimal_effect(
    n_forget: int,
    n_control: int,
    effect: Effect = AC,
    rho: float = CAUTIOUS_RHO,
    alpha: float = ALPHA,
    repetitions: int = 400,
    seed: int = 0,
) -> float | None:
    """The smallest multiple of the effect that is found with power `ENOUGH`; None where 8 times it is too little."""
    noise, signal = _simulated(n_forget, n_control, effect, rho, repetitions, seed)
    low, high = 0.0, LARGEST_SCALE
    if _rejected(noise + high * signal, alpha) < ENOUGH:
        return None
    while high - low > 0.02:
        middle = (low + high) / 2
        low, high = (low, middle) if _rejected(noise + middle * signal, alpha) >= ENOUGH else (middle, high)
    return high


@dataclass(frozen=True)
class Plan:
    """How to split a number of images, what the audit could then find, and what it costs."""

    n_forget: int
    n_control: int
    reference: str
    power: float
    """With much correlation between pairs that share an image; plan for this."""
    power_at_best: float
    """With hardly any."""
    minimal_effect: float | None
    """The smallest change found with 80 % power, as a multiple of the reference; None where even 8 times is not."""
    queries: int
    """Embeddings over both models."""
    images_simulated: int
    """How many images the powers and the smallest change are for; with more, the powers are higher."""


def plan(
    n_images: int,
    effect: Effect = AC,
    alpha: float = ALPHA,
    views: int = 16,
    extras: int = 0,
    seed: int = 0,
) -> Plan:
    """Half of the images to forget, half held back: of all splits of a given number, the one with the most power.

    `views` of each image go to each of the two models, and `extras` further pictures to each.
    """
    if n_images < 2 * FEWEST:
        raise UserError(f"{n_images} images are too few to audit with; give at least {2 * FEWEST}")
    n_forget = n_images // 2
    n_control = n_images - n_forget
    sizes = at_most(MOST_SIMULATED, n_forget, n_control)
    return Plan(
        n_forget=n_forget,
        n_control=n_control,
        reference=effect.name,
        power=model_power(*sizes, effect, CAUTIOUS_RHO, alpha, seed=seed),
        power_at_best=model_power(*sizes, effect, HOPEFUL_RHO, alpha, seed=seed),
        minimal_effect=minimal_effect(*sizes, effect, CAUTIOUS_RHO, alpha, seed=seed),
        queries=2 * (n_images * views + extras),
        images_simulated=sum(sizes),
    )


def enough_images(effect: Effect, more_than: int) -> int | None:
    """How many images find the effect with power `ENOUGH`, by steps of a quarter; None if `MOST_SIMULATED` do not."""
    n = more_than
    while n < MOST_SIMULATED:
        n = min(MOST_SIMULATED, 2 * math.ceil(0.625 * n))  # in halves
        if model_power(n // 2, n // 2, effect, CAUTIOUS_RHO, ALPHA, repetitions=400, seed=0) >= ENOUGH:
            return n
    return None


def _simulated(
    n_forget: int, n_control: int, effect: Effect, rho: float, repetitions: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """(repetitions, 2, s) contrasts of chance alone, (2, s) what the effect adds to each: contrasts are linear."""
    check_sizes(n_forget, n_control)
    rng = np.random.default_rng(seed)
    rows = _splits(np.arange(n_forget + n_control) < n_forget, seed)
    agms = (scatter(effect, n_forget, n_control, rho, rng) for _ in range(repetitions))
    return _contrasts_of(agms, rows), contrasts(shift(effect, n_forget, n_control), rows)


def _splits(forget: np.ndarray, seed: int) -> np.ndarray:
    return possible_splits(forget, DRAWS, seed, most_splits=DRAWS + 1)


def _contrasts_of(agms: Iterator[np.ndarray], rows: np.ndarray) -> np.ndarray:
    """(s, n) splits -> (matrices, 2, s)"""
    made = []
    while some := list(islice(agms, AT_ONCE)):
        made.append(contrasts(np.stack(some), rows))
    return np.concatenate(made)


def _rejected(values: np.ndarray, alpha: float) -> float:
    """(repetitions, 2, s) -> share of repetitions with p <= alpha."""
    return float((permutation_p(values)[0] <= alpha).mean())
