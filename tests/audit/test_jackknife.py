"""Means over pairs, their variance and intervals: against plain loops, scipy, and simulated truth."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import ttest_1samp, ttest_ind
from simulated_rates import coverage, random_agm
from test_contrasts import symmetric

from muc.audit.hold_back import hold_back_test
from muc.audit.jackknife import diagonal_mean, mean, off_diagonal_mean
from muc.audit.power import AC, scatter
from muc.errors import UserError


def naive_pair_mean(matrix: np.ndarray, images: list[int]) -> float:
    values = [matrix[i, j] for i in images for j in images if i != j]
    return sum(values) / len(values)


@given(n=st.integers(3, 8), seed=st.integers(0, 999))
def test_the_jackknife_leaves_out_one_image_at_a_time(n: int, seed: int) -> None:
    matrix = symmetric(n, seed)
    everyone = list(range(n))
    without = [naive_pair_mean(matrix, [i for i in everyone if i != left_out]) for left_out in everyone]
    centre = sum(without) / n
    found = off_diagonal_mean(matrix)
    assert found.value == pytest.approx(naive_pair_mean(matrix, everyone))
    assert found.variance == pytest.approx((n - 1) / n * sum((w - centre) ** 2 for w in without))
    assert found.df == n - 1


@given(n=st.integers(3, 8), m=st.integers(3, 8), seed=st.integers(0, 999), confidence=st.sampled_from([0.8, 0.95]))
def test_means_and_their_difference_are_students_and_welchs(n: int, m: int, seed: int, confidence: float) -> None:
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=n), rng.normal(0.5, 3, size=m)
    one = ttest_1samp(a, 0.3)
    assert mean(a).p_two_sided(0.3) == pytest.approx(one.pvalue)
    assert mean(a).interval(confidence) == pytest.approx(tuple(one.confidence_interval(confidence)))
    assert mean(a).p_above(0.3) == pytest.approx(ttest_1samp(a, 0.3, alternative="greater").pvalue)
    assert mean(a).p_below(0.3) == pytest.approx(ttest_1samp(a, 0.3, alternative="less").pvalue)
    difference, welch = mean(a).minus(mean(b)), ttest_ind(a, b, equal_var=False)
    assert difference.value == pytest.approx(a.mean() - b.mean())
    assert difference.p_two_sided(0.0) == pytest.approx(welch.pvalue)
    assert difference.interval(confidence) == pytest.approx(tuple(welch.confidence_interval(confidence)))


def test_values_without_spread_have_a_point_for_an_interval() -> None:
    constant = diagonal_mean(np.full((4, 4), 0.25)).minus(diagonal_mean(np.full((3, 3), 0.25)))
    assert constant.interval(0.95) == (0.0, 0.0)
    assert constant.p_two_sided(0.0) == 1
    assert constant.p_above(-0.1) == pytest.approx(0, abs=1e-9)


def test_a_confidence_in_percent_is_refused() -> None:
    with pytest.raises(UserError, match="confidence is 95"):
        mean(np.arange(3.0)).interval(95)


def test_the_hold_back_tests_intervals_belong_to_its_contrasts() -> None:
    agm = scatter(AC, 6, 9, 0.1, np.random.default_rng(0))
    found = hold_back_test(agm, np.arange(15) < 6, confidence=0.9)
    welch = ttest_ind(agm.diagonal()[:6], agm.diagonal()[6:], equal_var=False).confidence_interval(0.9)
    assert (found.FS.low, found.FS.high) == pytest.approx((welch.low, welch.high))
    gaps = off_diagonal_mean(agm[6:, 6:]).value - off_diagonal_mean(agm[:6, :6]).value
    assert found.negative_alignment.value == pytest.approx(gaps)
    assert found.negative_alignment.low + found.negative_alignment.high == pytest.approx(2 * gaps)


@pytest.mark.parametrize(("n_forget", "n_control"), [(5, 5), (10, 10), (10, 5), (10, 20)])
@pytest.mark.parametrize("rho", [0.3, 0.03])
def test_intervals_hold_the_truth_as_often_as_they_say(n_forget: int, n_control: int, rho: float) -> None:
    """At AC's effect and unequal deviations. Too wide where pairs hardly depend on each other, never too narrow."""
    repetitions = 1000
    error = 3.5 * (0.05 * 0.95 / repetitions) ** 0.5
    fs, negative_alignment = coverage(n_forget, n_control, rho, repetitions)
    assert fs == pytest.approx(0.95, abs=error)
    assert 0.95 - error < negative_alignment < 1


def test_the_jackknifes_variance_is_the_spread_of_the_mean_where_pairs_depend() -> None:
    rng = np.random.default_rng(0)
    found = [off_diagonal_mean(random_agm(20, 0.3, rng)) for _ in range(2000)]
    assert np.mean([f.variance for f in found]) == pytest.approx(np.var([f.value for f in found]), rel=0.15)
