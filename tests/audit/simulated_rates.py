"""How often each test is wrong, by simulation: the tables of docs/audit.md, and at fewer repetitions the tests' input.

PYTHONPATH=src .venv/bin/python tests/audit/simulated_rates.py
"""

from collections.abc import Callable, Sequence

import numpy as np
from scipy.stats import ttest_1samp

from muc.audit.equivalence import equivalence_test
from muc.audit.hold_back import estimates, hold_back_test
from muc.audit.power import AC, CAUTIOUS_RHO, HOPEFUL_RHO, RETRAIN, Effect, model_power, planted_power, scatter, shift
from muc.audit.verdict import CHANGED, INCONCLUSIVE, NO_CHANGE, decide
from muc.audit.without_controls import disjoint_pairs_test, jackknife_test, pair_t_test

ALPHA = 0.05
SIZES = (5, 10, 20)
RHOS = (0.05, 0.1, 0.3)
COMMON_SHIFT = 0.0057 / 0.0403
"""The paper's null mean in units of its deviation: what two seeds differ by."""


NOTHING = Effect("nothing", 0.0, 0.0, (0.0587, 0.0587), (0.0403, 0.0403))
"""The paper's null arm."""


def random_agm(n: int, rho: float, rng: np.random.Generator, heavy_tails: bool = False) -> np.ndarray:
    """(n, n) of variance 1; pairs that share an image have correlation rho, and the diagonal goes with them."""

    def draw(*size: int) -> np.ndarray:
        return rng.standard_t(3, size=size) / 3**0.5 if heavy_tails else rng.normal(size=size)

    image, pair = draw(n), np.triu(draw(n, n), k=1)
    agm = rho**0.5 * (image[:, None] + image) + (1 - 2 * rho) ** 0.5 * (pair + pair.T)
    np.fill_diagonal(agm, (image + draw(n)) / 2**0.5)
    return agm


def row_mean_t_test(agm: np.ndarray) -> float:
    """The trap: each row's mean holds pairs that other rows hold too. Not offered by muc."""
    off = agm - np.diag(agm.diagonal())
    return float(ttest_1samp(off.sum(axis=1) / (len(agm) - 1), 0.0).pvalue)


WITHOUT_CONTROLS: dict[str, Callable[[np.ndarray], float]] = {
    "t over pairs (the paper's)": lambda agm: pair_t_test(agm).p,
    "t over row means (a trap)": row_mean_t_test,
    "jackknife": lambda agm: jackknife_test(agm).p,
    "disjoint pairs": lambda agm: disjoint_pairs_test(agm).p,
}


def rejections_without_controls(
    test: str, n: int, rho: float, repetitions: int, seed: int = 0, common_shift: float = 0.0
) -> float:
    """Share of p <= 0.05 where there is no unlearning (and, with a common shift, another seed)."""
    rng = np.random.default_rng(seed)
    p_value = WITHOUT_CONTROLS[test]
    return float(np.mean([p_value(random_agm(n, rho, rng) + common_shift) <= ALPHA for _ in range(repetitions)]))


def rejections_with_controls(
    n_forget: int, n_control: int, rho: float, repetitions: int, seed: int = 0, one_class: bool = False
) -> float:
    """The hold-back test under another seed: a common shift, heavy tails, labels drawn at random."""
    rng = np.random.default_rng(seed)
    labels = np.arange(n_forget + n_control) < n_forget
    rejected = 0
    for repetition in range(repetitions):
        agm = random_agm(len(labels), rho, rng, heavy_tails=True) + COMMON_SHIFT
        if one_class:  # half of the images move together
            agm[: len(agm) // 2, : len(agm) // 2] -= 1
        rejected += hold_back_test(agm, rng.permutation(labels), draws=999, seed=repetition).p <= ALPHA
    return rejected / repetitions


def coverage(
    n_forget: int, n_control: int, rho: float, repetitions: int, effect: Effect = AC, seed: int = 0
) -> tuple[float, float]:
    """Share of 95 % intervals that hold the true FS and negative-alignment contrast."""
    rng = np.random.default_rng(seed)
    labels = np.arange(n_forget + n_control) < n_forget
    held = np.zeros(2)
    for _ in range(repetitions):
        agm = scatter(effect, n_forget, n_control, rho, rng) + shift(effect, n_forget, n_control)
        intervals = [estimate.interval(0.95) for estimate in estimates(agm, labels)]
        truth = (effect.fs, effect.negative_alignment)
        held += [low <= true <= high for (low, high), true in zip(intervals, truth, strict=True)]
    fs, negative_alignment = held / repetitions
    return float(fs), float(negative_alignment)


def equivalence_claims(n: int, rho: float, difference: float, repetitions: int, seed: int = 0) -> tuple[float, float]:
    """Share of claims that positive and negative alignment are within 1 standard deviation, at a true difference."""
    rng = np.random.default_rng(seed)
    deleted = np.arange(2 * n) < n
    added = difference * np.outer(deleted, deleted)
    claims = np.zeros(2)
    for _ in range(repetitions):
        found = equivalence_test(random_agm(2 * n, rho, rng) + added, deleted, 1.0, 1.0)
        claims += found.positive_alignment.p <= ALPHA, found.negative_alignment.p <= ALPHA
    positive, negative = claims / repetitions
    return float(positive), float(negative)


def planted_power_spread(n: int, rho: float, audits: int, seed: int = 0) -> np.ndarray:
    """(audits,) the power that owners of an unchanged model read off their own matrices."""
    rng = np.random.default_rng(seed)
    return np.array([planted_power(scatter(AC, n, n, rho, rng), n, seed=seed) for _ in range(audits)])


def verdicts(
    n: int, done: Effect | None, reference: Effect, repetitions: int, rho: float = CAUTIOUS_RHO, seed: int = 0
) -> dict[str, float]:
    """Share of each verdict where a model owner did this (None: another seed), with N = M = n."""
    rng = np.random.default_rng(seed)
    labels = np.arange(2 * n) < n
    counts = dict.fromkeys((CHANGED, NO_CHANGE, INCONCLUSIVE), 0)
    for repetition in range(repetitions):
        if done is None:
            agm = scatter(NOTHING, n, n, rho, rng) + 0.0057
        else:
            agm = scatter(done, n, n, rho, rng) + shift(done, n, n)
        power = planted_power(agm, n, reference, repetitions=200, seed=repetition)
        counts[decide(hold_back_test(agm, labels, draws=999, seed=repetition), power, reference).verdict] += 1
    return {verdict: count / repetitions for verdict, count in counts.items()}


def percent(values: Sequence[float]) -> str:
    return " / ".join(f"{100 * value:.1f}" for value in values)


def main() -> None:
    print("without controls, no effect: N = 5 / 10 / 20, 20,000 repetitions")
    for test in WITHOUT_CONTROLS:
        for rho in RHOS:
            print(f"  {test}, rho {rho}:", percent([rejections_without_controls(test, n, rho, 20_000) for n in SIZES]))
    print("jackknife against a common shift: N = 5 / 10 / 20 / 50, 5,000 repetitions")
    for rho in (0.0, HOPEFUL_RHO):
        sizes = (*SIZES, 50)
        rates = [rejections_without_controls("jackknife", n, rho, 5_000, common_shift=COMMON_SHIFT) for n in sizes]
        print(f"  rho {rho}:", percent(rates))
    print("hold-back, no effect, common shift, heavy tails: N = M = 5 / 10 / 20, 10,000 repetitions")
    for rho in RHOS:
        print(f"  rho {rho}:", percent([rejections_with_controls(n, n, rho, 10_000) for n in SIZES]))
    print("  rho 0.1, half of the images of one class:", end=" ")
    print(percent([rejections_with_controls(n, n, 0.1, 10_000, one_class=True) for n in SIZES]))
    print("coverage of 95 % intervals at AC's effect: FS, negative alignment, 5,000 repetitions")
    for n_forget, n_control in ((5, 5), (10, 10), (20, 20), (5, 10), (10, 20), (10, 5)):
        for rho in (CAUTIOUS_RHO, HOPEFUL_RHO):
            print(f"  N {n_forget} M {n_control} rho {rho}:", percent(coverage(n_forget, n_control, rho, 5_000)))
    print("equivalence claimed, margin 1 SD, true difference 1 / 0.5 / 0 SD: positive and negative, 5,000 repetitions")
    for n in (*SIZES, 40):
        positive, negative = zip(*(equivalence_claims(n, 0.1, d, 5_000) for d in (1.0, 0.5, 0.0)), strict=True)
        print(f"  N = W = {n}: {percent(positive)}, {percent(negative)}")
    print("power, rho 0.3 and 0.03, 2,000 repetitions")
    for effect in (AC, RETRAIN):
        for n_forget, n_control in ((5, 5), (10, 10), (20, 20), (30, 30), (40, 40), (5, 10), (10, 20), (20, 40)):
            powers = [
                model_power(n_forget, n_control, effect, rho, repetitions=2_000) for rho in (CAUTIOUS_RHO, HOPEFUL_RHO)
            ]
            print(f"  {effect.name}, N {n_forget} M {n_control}:", percent(powers))
    print("power read off the owner's own matrix, 200 unchanged models, rho 0.3: 10th, 50th, 90th percentile")
    for n in SIZES:
        print(f"  N = M = {n}:", percent(np.quantile(planted_power_spread(n, 0.3, 200), (0.1, 0.5, 0.9)).tolist()))
    print("verdicts, rho 0.3, 300 audits: changed / no change found / inconclusive")
    for reference in (AC, RETRAIN):
        for done in (None, AC, RETRAIN):
            for n in (10, 20, 40):
                rates = verdicts(n, done, reference, 300)
                name = done.name if done else "another seed"
                print(f"  reference {reference.name}, done {name}, N = M = {n}:", percent(list(rates.values())))


if __name__ == "__main__":
    main()
