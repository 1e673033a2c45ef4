"""The two contrasts and the splits against plain loops."""

from itertools import combinations
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muc.audit.contrasts import checked_groups, checked_matrix, contrasts
from muc.audit.splits import DRAWS, MOST_SPLITS, possible_splits
from muc.errors import UserError

groups = st.tuples(st.integers(3, 6), st.integers(3, 6), st.integers(0, 999))


def symmetric(n: int, seed: int) -> np.ndarray:
    matrix = np.random.default_rng(seed).normal(size=(n, n))
    return (matrix + matrix.T) / 2


def naive_contrasts(agm: np.ndarray, forget: set[int]) -> tuple[float, float]:
    def average(values: list[float]) -> float:
        return sum(values) / len(values)

    control = set(range(len(agm))) - forget
    fs = average([agm[i][i] for i in forget]) - average([agm[i][i] for i in control])
    gap_forget = average([agm[i][j] for i, j in combinations(sorted(forget), 2)])
    gap_control = average([agm[i][j] for i, j in combinations(sorted(control), 2)])
    return fs, -(gap_forget - gap_control)


@given(groups)
def test_contrasts_of_all_splits_are_what_loops_say(sizes: tuple[int, int, int]) -> None:
    n_forget, n_control, seed = sizes
    n = n_forget + n_control
    agm = symmetric(n, seed)
    splits = possible_splits(np.arange(n) < n_forget)
    expected = [naive_contrasts(agm, set(np.flatnonzero(split))) for split in splits]
    np.testing.assert_allclose(contrasts(agm, splits).T, expected, atol=1e-12)


def test_contrasts_of_many_matrices_are_those_of_each() -> None:
    agms = np.stack([symmetric(7, seed) for seed in range(6)]).reshape(2, 3, 7, 7)
    splits = possible_splits(np.arange(7) < 3)
    together = contrasts(agms, splits)
    assert together.shape == (2, 3, 2, 35)
    for i, j in np.ndindex(2, 3):
        np.testing.assert_allclose(together[i, j], contrasts(agms[i, j], splits), atol=1e-12)


def test_larger_means_more_change_as_alignment_calibration_makes_it() -> None:
    agm = np.zeros((6, 6))
    agm[:3, :3] = -0.04  # images to forget have become more alike
    np.fill_diagonal(agm, [0.01] * 3 + [0.0] * 3)  # and their own views less
    np.testing.assert_allclose(contrasts(agm, possible_splits(np.arange(6) < 3))[:, 0], [0.01, 0.04])


@pytest.mark.parametrize(("n_forget", "n_control"), [(3, 3), (3, 5), (5, 3), (8, 8)])
def test_few_splits_are_all_looked_at_once_with_the_owners_first(n_forget: int, n_control: int) -> None:
    forget = np.random.default_rng(0).permutation(n_forget + n_control) < n_forget
    splits = possible_splits(forget)
    assert len({tuple(split) for split in splits}) == len(splits) == comb(n_forget + n_control, n_forget)
    assert (splits.sum(axis=1) == n_forget).all()
    assert np.array_equal(splits[0], forget)


def test_many_splits_are_drawn_evenly_and_the_owners_is_added() -> None:
    forget = np.random.default_rng(0).permutation(20) < 8
    assert comb(20, 8) > MOST_SPLITS
    splits = possible_splits(forget, seed=3)
    assert splits.shape == (DRAWS + 1, 20)
    assert DRAWS >= 9_999
    assert np.array_equal(splits[0], forget)
    assert (splits.sum(axis=1) == 8).all()
    np.testing.assert_allclose(splits[1:].mean(axis=0), 0.4, atol=4 * (0.24 / DRAWS) ** 0.5)
    assert np.array_equal(splits, possible_splits(forget, seed=3))
    assert not np.array_equal(splits, possible_splits(forget, seed=4))


def test_what_is_not_an_alignment_matrix_is_refused() -> None:
    with pytest.raises(UserError, match=r"shape \(3, 4\); expected one row and one column an image"):
        checked_matrix(np.zeros((3, 4)))
    with pytest.raises(UserError, match="NaN or infinite"):
        checked_matrix(np.diag([0.0, np.nan, 0.0]))
    with pytest.raises(UserError, match="2 images were given; an audit needs at least 3"):
        checked_matrix(np.zeros((2, 2)))


def test_labels_that_do_not_fit_are_refused() -> None:
    agm = np.zeros((7, 7))
    with pytest.raises(UserError, match="expected 7 truth values"):
        checked_groups(agm, np.zeros(6, dtype=bool))
    with pytest.raises(UserError, match="expected 7 truth values"):
        checked_groups(agm, np.array([0, 1, 2, 3, 4, 5, 6]))  # positions are not labels
    with pytest.raises(UserError, match="the number of images to forget is 2; give at least 3"):
        checked_groups(agm, np.arange(7) < 2)
    with pytest.raises(UserError, match="the number of images held back is 2; give at least 3"):
        checked_groups(agm, np.arange(7) < 5)


def test_which_view_of_a_pair_came_first_does_not_matter() -> None:
    agm = np.random.default_rng(0).normal(size=(5, 5))
    np.testing.assert_array_equal(checked_matrix(agm), checked_matrix(agm.T))
    np.testing.assert_allclose(checked_matrix(agm)[1, 2], (agm[1, 2] + agm[2, 1]) / 2)
