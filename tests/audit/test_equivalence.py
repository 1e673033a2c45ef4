"""Equivalence with withheld twins: never claimed too often at the margin, found where there are images enough."""

import json
from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import ttest_ind
from simulated_rates import equivalence_claims, random_agm

from muc.audit.equivalence import equivalence_test
from muc.errors import UserError

DELETED = np.arange(12) < 5


@given(seed=st.integers(0, 999), margin=st.floats(0.05, 2))
def test_positive_alignment_is_tested_by_two_one_sided_welch_tests(seed: int, margin: float) -> None:
    am = random_agm(12, 0.1, np.random.default_rng(seed))
    ours, twins = am.diagonal()[:5], am.diagonal()[5:]
    not_below = ttest_ind(ours + margin, twins, equal_var=False, alternative="greater").pvalue
    not_above = ttest_ind(ours - margin, twins, equal_var=False, alternative="less").pvalue
    found = equivalence_test(am, DELETED, margin, margin)
    assert found.positive_alignment.p == pytest.approx(max(not_below, not_above))
    assert found.p == max(found.positive_alignment.p, found.negative_alignment.p)
    for side in (found.positive_alignment, found.negative_alignment):
        assert (side.p <= 0.05) == (-margin <= side.low and side.high <= margin)


def test_differences_are_deleted_minus_withheld() -> None:
    am = np.zeros((12, 12))
    am[:5, :5] = 0.2  # the trace of AC
    np.fill_diagonal(am, np.where(DELETED, 0.7, 0.8))  # over-unlearned
    found = equivalence_test(am, DELETED, 0.15, 0.15)
    assert found.positive_alignment.value == pytest.approx(-0.1)
    assert found.negative_alignment.value == pytest.approx(0.2)
    assert found.positive_alignment.p == pytest.approx(0, abs=1e-9)
    assert found.p == pytest.approx(1)
    assert (found.n_deleted, found.n_withheld) == (5, 7)
    assert json.loads(json.dumps(asdict(found)))["p"] == found.p


@pytest.mark.parametrize("n", [5, 20])
def test_images_that_differ_by_the_margin_are_called_equal_at_most_as_often_as_promised(n: int) -> None:
    claims = equivalence_claims(n, 0.1, difference=1.0, repetitions=1000)
    assert max(claims) < 0.05 + 3.5 * (0.05 * 0.95 / 1000) ** 0.5


def test_few_images_prove_nothing_and_many_do() -> None:
    assert max(equivalence_claims(5, 0.1, difference=0.0, repetitions=300)) < 0.15
    assert min(equivalence_claims(30, 0.1, difference=0.0, repetitions=300)) > 0.9


@pytest.mark.parametrize("margin", [0.0, -0.1, 2.5, float("nan")])
def test_a_margin_that_is_none_is_refused(margin: float) -> None:
    with pytest.raises(UserError, match="the positive margin is"):
        equivalence_test(np.zeros((12, 12)), DELETED, margin, 0.1)
    with pytest.raises(UserError, match="the negative margin is"):
        equivalence_test(np.zeros((12, 12)), DELETED, 0.1, margin)
