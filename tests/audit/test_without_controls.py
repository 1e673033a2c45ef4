"""Tests without controls: what they compute, and how often simulation shows them wrong (audit.md's table)."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import ttest_1samp
from simulated_rates import COMMON_SHIFT, random_agm, rejections_without_controls
from test_contrasts import symmetric

from muc.audit.without_controls import disjoint_pairs_test, jackknife_test, pair_t_test
from muc.errors import UserError

# audit.md, at 5 %: {test: {rho: rates for N = 5, 10, 20}}
PRINTED = {
    "t over pairs (the paper's)": {0.05: (8, 14, 24), 0.1: (12, 22, 37), 0.3: (26, 44, 58)},
    "jackknife": {0.05: (1.5, 1.8, 2.6), 0.1: (2.0, 2.4, 3.4), 0.3: (3.6, 4.2, 4.6)},
    "disjoint pairs": {0.05: (4.7, 5.1, 5.3), 0.1: (4.9, 5.0, 4.8), 0.3: (4.7, 4.8, 4.9)},
}


@pytest.mark.parametrize("rho", [0.05, 0.1, 0.3])
@pytest.mark.parametrize("test", PRINTED)
def test_false_positives_are_as_often_as_the_design_notes_say(test: str, rho: float) -> None:
    repetitions = 1000
    for n, printed in zip((5, 10, 20), PRINTED[test][rho], strict=True):
        expected = printed / 100
        rate = rejections_without_controls(test, n, rho, repetitions)
        assert rate == pytest.approx(expected, abs=4 * (expected * (1 - expected) / repetitions) ** 0.5 + 0.005)


def test_more_images_make_the_jackknife_surer_of_a_shift_that_all_images_share() -> None:
    few, many = (rejections_without_controls("jackknife", n, 0.03, 300, common_shift=COMMON_SHIFT) for n in (10, 50))
    assert few < 0.1
    assert many > 0.5


@given(n=st.integers(4, 9), seed=st.integers(0, 999))
def test_disjoint_pairs_share_no_image_and_all_pairs_are_counted_once(n: int, seed: int) -> None:
    agm = symmetric(n, seed)
    disjoint = [agm[2 * k, 2 * k + 1] for k in range(n // 2)]
    pairs = [agm[i, j] for i in range(n) for j in range(i)]
    for found, values in ((disjoint_pairs_test(agm, 0.1), disjoint), (pair_t_test(agm, 0.1), pairs)):
        expected = ttest_1samp(values, 0.1)
        assert found.gap == pytest.approx(np.mean(values))
        assert found.p == pytest.approx(expected.pvalue)
        assert (found.low, found.high) == pytest.approx(tuple(expected.confidence_interval(0.95)))
        assert found.n_images == n


def test_every_result_carries_what_limits_it() -> None:
    agm = random_agm(6, 0.1, np.random.default_rng(0))
    assert pair_t_test(agm).limits.startswith("not valid for decisions")
    for test in (jackknife_test, disjoint_pairs_test):
        assert "common to all images" in test(agm).limits


def test_one_pair_is_too_few() -> None:
    with pytest.raises(UserError, match="3 images were given; two disjoint pairs need at least 4"):
        disjoint_pairs_test(np.zeros((3, 3)))
