"""Where a search looks."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muc.search import spread_out


@given(st.integers(1, 4), st.integers(0, 40), st.integers(0, 40), st.integers(0, 99))
def test_more_trials_begin_with_the_same_ones(d: int, few: int, more: int, seed: int) -> None:
    start = np.random.default_rng(seed).random(d)
    places = spread_out(few + more, start)
    assert places.shape == (few + more, d)
    assert ((places >= 0) & (places < 1)).all()
    assert np.array_equal(places[:few], spread_out(few, start))


@given(st.integers(2, 30), st.integers(0, 99))
def test_trials_of_one_value_leave_no_large_part_of_its_range_out(count: int, seed: int) -> None:
    """Even spacing leaves 1 / count; independent draws leave log(count) times as much, and more now and then."""
    places = np.sort(spread_out(count, np.random.default_rng(seed).random(1))[:, 0])
    around = np.diff([*places, places[0] + 1])
    assert around.max() < 2.7 / count


@pytest.mark.parametrize("d", [2, 3, 4])
def test_trials_of_several_values_fill_the_cube(d: int) -> None:
    """With 4 to the power of d trials, independent draws leave 37 % of as many corners empty."""
    rng = np.random.default_rng(d)
    filled = [{tuple(cell) for cell in (spread_out(4**d, rng.random(d)) * 4).astype(int)} for _ in range(30)]
    assert np.mean([len(cells) for cells in filled]) > 0.7 * 4**d
