"""Power: the model's numbers, the paper's effects, and plans."""

import json
import tracemalloc
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from muc.audit import power
from muc.audit.hold_back import hold_back_test
from muc.audit.power import (
    AC,
    CAUTIOUS_RHO,
    ENOUGH,
    HOPEFUL_RHO,
    MEASURED,
    RETRAIN,
    Effect,
    at_most,
    minimal_effect,
    model_power,
    plan,
    planted_power,
    scatter,
    shift,
)
from muc.errors import UserError
from muc.paper import load

EVEN = Effect("even", 0.5, 0.6, (1.0, 1.0), (1.0, 1.0))


def test_the_reference_effects_are_the_papers() -> None:
    facts = load()["text_facts"]["t_test"]
    fs, gap = facts["H0_fs"], facts["H0_neg_align"]
    exact, ac, ac_gap = facts["H1_fs"], facts["H1_fs_ac"], facts["H1_neg_align_ac"]
    assert AC.fs == pytest.approx(ac["mu"] - fs["mu"])
    assert AC.negative_alignment == pytest.approx(gap["mu"] - ac_gap["mu"])
    assert RETRAIN.fs == pytest.approx(exact["mu"] - fs["mu"])
    assert AC.fs_sd == (ac["sigma"], fs["sigma"])
    assert RETRAIN.fs_sd == (exact["sigma"], fs["sigma"])
    assert AC.negative_alignment_sd == (ac_gap["sigma"], gap["sigma"])
    assert RETRAIN.negative_alignment_sd == (gap["sigma"], gap["sigma"])


# audit.md: power in % at rho 0.3 and 0.03
@pytest.mark.parametrize(
    ("n_forget", "n_control", "printed"),
    [
        (5, 5, (31, 57)),
        (10, 10, (60, 99)),
        (20, 20, (92, 100)),
        (5, 10, (49, 87)),
        (10, 20, (80, 100)),
        (20, 40, (98, 100)),
    ],
)
def test_power_at_the_papers_effect_is_what_the_design_notes_say(
    n_forget: int, n_control: int, printed: tuple[float, float]
) -> None:
    for rho, percent in zip((CAUTIOUS_RHO, HOPEFUL_RHO), printed, strict=True):
        assert 100 * model_power(n_forget, n_control, AC, rho, repetitions=500) == pytest.approx(percent, abs=8)


def test_power_is_how_often_the_hold_back_test_itself_finds_the_effect() -> None:
    rng = np.random.default_rng(1)
    agms = (scatter(AC, 5, 7, 0.1, rng) + shift(AC, 5, 7) for _ in range(400))
    found = np.mean([hold_back_test(agm, np.arange(12) < 5).p <= 0.05 for agm in agms])
    assert model_power(5, 7, AC, 0.1) == pytest.approx(found, abs=4 * (0.25 / 400) ** 0.5)


def test_without_an_effect_power_is_the_false_positive_rate() -> None:
    assert model_power(8, 8, replace(EVEN, fs=0, negative_alignment=0), 0.2) == pytest.approx(0.05, abs=0.025)


def test_simulated_matrices_scatter_and_correlate_as_asked() -> None:
    rng = np.random.default_rng(0)
    agms = np.stack([scatter(AC, 3, 3, 0.2, rng) for _ in range(20_000)])
    assert np.array_equal(agms, agms.transpose(0, 2, 1))
    for pair, other, correlation in (((0, 1), (1, 2), 0.2), ((3, 4), (4, 5), 0.2), ((0, 1), (2, 3), 0.0)):
        assert np.corrcoef(agms[:, *pair], agms[:, *other])[0, 1] == pytest.approx(correlation, abs=0.03)
    sds = {(0, 1): 0.0295, (3, 4): 0.0403, (0, 3): (0.0295 + 0.0403) / 2, (0, 0): 0.04438, (5, 5): 0.0587}
    for pair, sd in sds.items():
        assert agms[:, *pair].std() == pytest.approx(sd, rel=0.03)
        assert agms[:, *pair].mean() == pytest.approx(0, abs=5 * sd / 20_000**0.5)


def test_the_effect_is_on_forget_images_and_pairs_of_them() -> None:
    expected = np.zeros((5, 5))
    expected[:2, :2] = [[0.5, -0.6], [-0.6, 0.5]]
    np.testing.assert_array_equal(shift(EVEN, 2, 3), expected)


def test_power_planted_into_owners_matrices_is_on_average_the_models() -> None:
    rng = np.random.default_rng(0)
    planted = [planted_power(scatter(EVEN, 7, 7, 0.1, rng), 7, EVEN, repetitions=100, seed=k) for k in range(60)]
    assert np.mean(planted) == pytest.approx(model_power(7, 7, EVEN, 0.1), abs=0.08)


def test_an_unchanged_model_gives_full_power_and_a_noisy_one_none() -> None:
    assert planted_power(np.zeros((10, 10)), 5) == 1
    noisy = scatter(EVEN, 10, 10, 0.1, np.random.default_rng(0))  # deviations 25 times the effect
    assert planted_power(noisy, 10) < 0.12


@pytest.mark.parametrize("effect", [AC, RETRAIN])
def test_the_minimal_effect_is_found_with_just_enough_power(effect: Effect) -> None:
    scale = minimal_effect(12, 12, effect)
    assert scale is not None
    scaled = replace(effect, fs=scale * effect.fs, negative_alignment=scale * effect.negative_alignment)
    assert model_power(12, 12, scaled, seed=5) == pytest.approx(ENOUGH, abs=0.06)


def test_groups_too_small_for_any_effect_have_no_minimal_one() -> None:
    """Of 20 splits one is best by FS and another by chance in the negative alignment: p stays at 2/20."""
    assert minimal_effect(3, 3, RETRAIN) is None


@pytest.mark.parametrize("rho", [CAUTIOUS_RHO, HOPEFUL_RHO])
def test_no_other_split_of_twenty_images_has_clearly_more_power_than_half(rho: float) -> None:
    half = model_power(10, 10, AC, rho)
    for n_forget in (5, 7, 13, 15):
        assert half > model_power(n_forget, 20 - n_forget, AC, rho) - 3 * (2 * 0.25 / 1000) ** 0.5


def test_a_plan_says_what_an_audit_can_find_and_costs() -> None:
    found = plan(21, views=2, extras=8)
    assert (found.n_forget, found.n_control) == (10, 11)
    assert found.queries == 2 * (21 * 2 + 5 + 3)
    assert found.power < found.power_at_best
    assert found.reference == AC.name
    assert found.minimal_effect is not None
    assert (found.minimal_effect > 1) == (found.power < ENOUGH)


def test_sixty_images_in_two_views_need_240_embeddings() -> None:
    assert plan(60, views=2).queries == 240


def test_power_of_many_images_is_computed_for_fewer(monkeypatch: pytest.MonkeyPatch) -> None:
    """1000 matrices of 10,000 images at once would be 800 GB."""
    monkeypatch.setattr(power, "MOST_SIMULATED", 40)
    found = plan(10_000, views=2)
    assert (found.n_forget, found.n_control, found.images_simulated) == (5000, 5000, 40)
    assert found.queries == 40_000
    assert found.power == plan(40).power
    assert plan(40).images_simulated == 40
    monkeypatch.setattr(power, "MOST_PLANTED", 40)
    wide = scatter(AC, 30, 70, 0.1, np.random.default_rng(0))
    assert 0 < planted_power(wide, 30, RETRAIN, repetitions=200) < 1
    assert at_most(40, 30, 70) == (12, 28)
    assert at_most(40, 3, 997) == (3, 37)
    assert at_most(40, 10, 30) == (10, 30)


def test_simulated_matrices_are_not_all_in_memory_at_once() -> None:
    tracemalloc.start()
    model_power(100, 100, repetitions=200)
    assert tracemalloc.get_traced_memory()[1] < 200 * 200 * 200 * 8
    tracemalloc.stop()


def test_powers_are_what_they_were_when_all_matrices_were_made_at_once() -> None:
    """verify computes a verdict's powers again: same seed, same numbers, whatever the version."""
    agm = scatter(AC, 9, 11, 0.1, np.random.default_rng(3))
    assert (planted_power(agm, 9, AC, seed=7), planted_power(agm, 9, RETRAIN, seed=7)) == (0.808, 0.428)
    assert (model_power(9, 11), model_power(9, 11, RETRAIN)) == (0.621, 0.307)


def test_what_cannot_be_planned_is_refused() -> None:
    with pytest.raises(UserError, match="5 images are too few to audit with; give at least 6"):
        plan(5)
    with pytest.raises(UserError, match=r"rho is 0\.6; .* from 0 to 0\.5"):
        model_power(5, 5, AC, rho=0.6)
    with pytest.raises(UserError, match="the number of images held back is 2; give at least 3"):
        model_power(5, 2)
    with pytest.raises(UserError, match="the number of images to forget is 1; give at least 3"):
        planted_power(np.zeros((8, 8)), 1)


def test_measured_effects_are_those_of_the_committed_results() -> None:
    results = Path(__file__).parents[2] / "results"
    seen, privacy = (
        json.loads((results / f"{name}-moco-by-AG_auc" / "results.json").read_text())["moco"][0]["gaps"]
        for name in ("negative-alignment", "privacy")
    )
    for name, label in (("ac", "alignment_calibration"), ("retrain", "retrain")):
        found, effect = seen[label], MEASURED[name]
        contrast = {}
        for kind in ("positive", "negative"):
            # Before - after on test images, from differences to Retrain's matrix.
            of_retrain = privacy["test"]["pretrain"][kind]["mean"]
            on_test = (privacy["test"][label][kind]["mean"] if name == "ac" else 0.0) - of_retrain
            contrast[kind] = found[kind]["mean"] - on_test
        assert effect.fs == pytest.approx(contrast["positive"], abs=6e-5)
        assert effect.negative_alignment == pytest.approx(-contrast["negative"], abs=6e-5)
        assert effect.fs_sd[0] == pytest.approx(found["positive"]["sd"], abs=6e-5)
        assert effect.negative_alignment_sd[0] == pytest.approx(found["negative"]["sd"], abs=6e-5)
    before = privacy["test"]["pretrain"]
    assert MEASURED["retrain"].fs_sd[1] == pytest.approx(before["positive"]["sd"], abs=6e-5)
    assert MEASURED["retrain"].negative_alignment_sd[1] == pytest.approx(before["negative"]["sd"], abs=6e-5)
