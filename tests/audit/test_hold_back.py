"""The hold-back test: its p-values against plain loops, and whether they keep what they promise."""

import json
from dataclasses import asdict
from itertools import combinations, permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulated_rates import ALPHA, random_agm, rejections_with_controls
from test_contrasts import naive_contrasts, symmetric

from muc.audit.contrasts import contrasts
from muc.audit.hold_back import at_least_as_large, hold_back_test, holm, permutation_p
from muc.audit.power import AC, scatter, shift
from muc.audit.splits import possible_splits


def naive_p_values(agm: np.ndarray, forget: tuple[int, ...]) -> tuple[float, float, float]:
    """Combined, FS and negative-alignment p-value, over all splits, as the definition reads."""
    everyone = list(combinations(range(len(agm)), len(forget)))
    values = {split: naive_contrasts(agm, set(split)) for split in everyone}

    def p(split: tuple[int, ...], statistic: int) -> float:
        own = values[split][statistic]
        return sum(values[other][statistic] >= own - 1e-9 for other in everyone) / len(everyone)

    best = {split: min(p(split, 0), p(split, 1)) for split in everyone}
    combined = sum(best[other] <= best[forget] for other in everyone) / len(everyone)
    return combined, p(forget, 0), p(forget, 1)


@settings(max_examples=15)
@given(
    n_forget=st.integers(3, 4),
    n_control=st.integers(3, 4),
    seed=st.integers(0, 999),
    rounded=st.booleans(),
)
def test_p_values_are_what_loops_over_all_splits_say(n_forget: int, n_control: int, seed: int, rounded: bool) -> None:
    agm = symmetric(n_forget + n_control, seed)
    agm = agm.round() if rounded else agm  # rounded: many ties
    forget = np.random.default_rng(seed).permutation(len(agm)) < n_forget
    found = hold_back_test(agm, forget)
    expected = naive_p_values(agm, tuple(np.flatnonzero(forget)))
    assert (found.p, found.FS.p, found.negative_alignment.p) == pytest.approx(expected)


@given(n_forget=st.integers(3, 5), n_control=st.integers(3, 5), seed=st.integers(0, 999), rounded=st.booleans())
def test_p_is_exact_whatever_the_matrix(n_forget: int, n_control: int, seed: int, rounded: bool) -> None:
    """Of all splits that the owner might have drawn, at most a share a has p <= a, for every a and every statistic."""
    agm = np.random.default_rng(seed).standard_cauchy(size=(n_forget + n_control,) * 2)
    agm = (agm + agm.T).round(0 if rounded else 9)
    values = contrasts(agm, possible_splits(np.arange(len(agm)) < n_forget))
    order = range(values.shape[1])
    found = [permutation_p(np.roll(values, -k, axis=1)) for k in order]  # each split takes its turn as the owner's
    for p in (np.array([f[0] for f in found]), *np.array([f[1] for f in found]).T):
        for level in np.unique(p):
            assert (p <= level).mean() <= level + 1e-12


@pytest.mark.parametrize(("n_forget", "n_control"), [(5, 5), (10, 10), (4, 8)])
@pytest.mark.parametrize("rho", [0.05, 0.3])
def test_another_seed_is_taken_for_unlearning_no_more_often_than_promised(
    n_forget: int, n_control: int, rho: float
) -> None:
    """A shift common to all images, correlated pairs, heavy tails."""
    repetitions = 1000
    rate = rejections_with_controls(n_forget, n_control, rho, repetitions)
    assert ALPHA - 0.025 < rate < ALPHA + 3.5 * (ALPHA * (1 - ALPHA) / repetitions) ** 0.5


def test_an_owner_with_images_of_one_kind_is_not_fooled() -> None:
    repetitions = 1000
    rate = rejections_with_controls(5, 6, 0.1, repetitions, one_class=True)
    assert rate < ALPHA + 3.5 * (ALPHA * (1 - ALPHA) / repetitions) ** 0.5


def test_drawn_splits_keep_the_level_however_few() -> None:
    """19 draws and the owner's own split: p is a multiple of 1/20 and never 0."""
    rng = np.random.default_rng(0)
    agm = random_agm(12, 0.2, rng)
    p = []
    for seed in range(2000):
        splits = possible_splits(rng.permutation(12) < 6, draws=19, seed=seed, most_splits=0)
        p.append(float(permutation_p(contrasts(agm, splits)[:1])[0]))
    assert min(p) == pytest.approx(1 / 20)
    np.testing.assert_allclose(np.mean(np.array(p) <= 0.25 + 1e-9), 0.25, atol=4 * (0.25 * 0.75 / 2000) ** 0.5)


def test_known_answer_all_three_forget_images_stand_out() -> None:
    """Of 20 splits one shows as large an FS contrast; the negative alignment is the same in all."""
    agm = np.diag([0.3, 0.2, 0.1, 0.0, 0.0, 0.0])
    found = hold_back_test(agm, np.arange(6) < 3)
    assert (found.p, found.FS.p, found.negative_alignment.p) == (0.05, 0.05, 1.0)
    assert (found.FS.p_holm, found.negative_alignment.p_holm) == (0.1, 1.0)
    assert found.FS.value == pytest.approx(0.2)
    assert (found.n_forget, found.n_control, found.splits) == (3, 3, 20)


@pytest.mark.parametrize("constant", [0.0, 0.1, -0.7])
def test_a_model_that_did_not_change_or_changed_for_all_alike_gives_p_one(constant: float) -> None:
    found = hold_back_test(np.full((20, 20), constant), np.arange(20) % 2 == 0)
    assert (found.p, found.FS.p, found.negative_alignment.p) == (1, 1, 1)
    assert found.FS.value == pytest.approx(0, abs=1e-12)
    assert found.FS.high - found.FS.low == pytest.approx(0, abs=1e-12)


def test_change_in_the_other_direction_is_not_taken_for_unlearning() -> None:
    """Forgotten images better aligned and less alike than controls: both tests are one-sided."""
    forget = np.arange(20) < 10
    agm = scatter(AC, 10, 10, 0.1, np.random.default_rng(0)) - 3 * shift(AC, 10, 10)
    assert hold_back_test(agm, forget).p > 0.5
    assert hold_back_test(-agm, forget).p < 0.05


def test_fs_alone_is_found_as_exact_retraining_leaves_it() -> None:
    agm = random_agm(16, 0.1, np.random.default_rng(1)) + np.diag(3.0 * (np.arange(16) < 8))
    found = hold_back_test(agm, np.arange(16) < 8)
    assert found.p <= 0.01
    assert found.FS.p_holm <= 0.01
    assert found.negative_alignment.p_holm > 0.05


@given(seed=st.integers(0, 999), shifted=st.floats(-1, 1), scale=st.floats(0.01, 10))
def test_shifting_scaling_and_reordering_everything_changes_no_p(seed: int, shifted: float, scale: float) -> None:
    rng = np.random.default_rng(seed)
    agm, forget, order = random_agm(8, 0.2, rng), rng.permutation(8) < 4, rng.permutation(8)
    plain = hold_back_test(agm, forget)
    changed = hold_back_test(scale * agm[np.ix_(order, order)] + shifted, forget[order])
    assert changed.p == plain.p
    assert changed.FS.p == plain.FS.p
    assert changed.negative_alignment.value == pytest.approx(scale * plain.negative_alignment.value, abs=1e-9)


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=12))
def test_counts_of_values_at_least_as_large(values: list[int]) -> None:
    expected = [sum(other >= value for other in values) for value in values]
    assert at_least_as_large(np.array(values) * 0.1).tolist() == expected


def test_many_audits_at_once_are_the_same_as_one_by_one() -> None:
    values = np.random.default_rng(0).normal(size=(7, 2, 50))
    primary, alone = permutation_p(values)
    for k in range(7):
        one, each = permutation_p(values[k])
        assert primary[k] == one
        assert np.array_equal(alone[k], each)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=5))
def test_holm_is_the_closed_test_of_bonferroni(p_values: list[float]) -> None:
    """Independent: the corrected p of a hypothesis is the worst Bonferroni p of any set of hypotheses that holds it."""
    members = range(len(p_values))
    sets = [s for size in range(1, len(p_values) + 1) for s in combinations(members, size)]
    expected = [max(min(1.0, len(s) * min(p_values[k] for k in s)) for s in sets if i in s) for i in members]
    np.testing.assert_allclose(holm(np.array(p_values)), expected, atol=1e-12)
    for order in list(permutations(members))[:6]:
        np.testing.assert_allclose(holm(np.array(p_values)[list(order)]), np.array(expected)[list(order)], atol=1e-12)


def test_a_result_can_be_written_down() -> None:
    found = hold_back_test(random_agm(8, 0.1, np.random.default_rng(0)), np.arange(8) < 4)
    assert json.loads(json.dumps(asdict(found)))["FS"]["p"] == found.FS.p
