"""What the model before remembers: against plain arithmetic, and what it takes to be taken for shown."""

import numpy as np
import pytest
from scipy import stats

from muc.audit.hold_back import hold_back_test
from muc.audit.memory import effect_of_forgetting, memory_of
from muc.audit.power import planted_power
from muc.audit.verdict import NO_CHANGE, decide_by_memory
from muc.errors import UserError


def test_memory_is_a_difference_between_means_with_welchs_interval() -> None:
    rng = np.random.default_rng(0)
    published, withheld = rng.normal(0.9, 0.05, 30), rng.normal(0.8, 0.1, 12)
    found = memory_of(published, withheld, confidence=0.9)
    welch = stats.ttest_ind(published, withheld, equal_var=False).confidence_interval(0.9)
    assert found.value == pytest.approx(published.mean() - withheld.mean())
    assert (found.low, found.high) == pytest.approx((welch.low, welch.high))
    assert (found.n_published, found.n_withheld) == (30, 12)


def test_the_effect_of_forgetting_is_the_least_that_the_interval_allows() -> None:
    rng = np.random.default_rng(1)
    clear = memory_of(rng.normal(0.9, 0.01, 20), rng.normal(0.8, 0.01, 20))
    effect = effect_of_forgetting(clear)
    assert effect is not None
    assert (effect.fs, effect.negative_alignment) == (clear.low, 0.0)
    agm = rng.normal(0, 0.01, (20, 20))
    assert planted_power(agm + agm.T, 10, effect, repetitions=50) == 1.0


def test_nothing_is_seen_where_published_and_withheld_images_are_alike() -> None:
    shown = 0
    for seed in range(400):
        rng = np.random.default_rng(seed)
        memory = memory_of(rng.normal(0.9, 0.05, 20), rng.normal(0.9, 0.05, 10))
        shown += effect_of_forgetting(memory) is not None
    assert 0 < shown <= 20  # 2.5 % on average: one side of a 95 % interval


@pytest.mark.parametrize(("memory", "forgotten"), [(0.0, 0.0), (0.02, 0.02), (0.1, 0.1), (0.1, 0.0)])
def test_who_forgets_what_was_remembered_is_hardly_ever_told_no_change(memory: float, forgotten: float) -> None:
    """However much or little that was. Power counts as given, which is the worst case for the honest."""
    labels, told = np.arange(40) < 20, 0
    for seed in range(300):
        rng = np.random.default_rng(seed)
        noise = rng.normal(0, 0.03, (40, 40))
        agm = noise + noise.T
        np.fill_diagonal(agm, rng.normal(0, 0.05, 40) + forgotten * labels)
        before = memory_of(rng.normal(0.8 + memory, 0.05, 40), rng.normal(0.8, 0.05, 20))
        verdict = decide_by_memory(hold_back_test(agm, labels, draws=99, seed=seed), before, lambda _: 1.0)
        told += verdict.verdict == NO_CHANGE
    if forgotten == memory:
        assert told <= 300 * 0.05
    else:
        assert told > 300 * 0.8


def test_too_few_images_are_named() -> None:
    with pytest.raises(UserError, match="the number of images withheld is 2; give at least 3"):
        memory_of(np.ones(5), np.ones(2))
    with pytest.raises(UserError, match="the number of images trained on is 2; give at least 3"):
        memory_of(np.ones(2), np.ones(5))
