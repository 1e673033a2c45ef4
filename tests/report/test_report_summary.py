"""The sentences: they must say what the numbers say, also when that is unwelcome."""

import re
from typing import Any

import numpy as np
import pytest
from report_records import record

from muc.report.group import compare
from muc.report.noise import lead_of, led
from muc.report.summary import summarise
from muc.report.tables import all_tables


def made(method: str, gap: float, seed: int = 0, **changes: Any) -> dict[str, Any]:
    """A record whose AG is `gap` points from a Retrain made with gap 0; Retrains differ by `seed` points in EMIA."""
    metrics = {"EMIA": 50 + seed + 5 * gap, "RA": 90.0, "TA": 85.0, "UA": 85.0, "CMIA": 40.0, "EMIA_accuracy": 60.0}
    return record(method, seed, metrics=metrics | changes.pop("metrics", {}), **changes)


def text(*records: dict[str, Any]) -> str:
    (comparison,) = compare(list(records))
    return " ".join(summarise(comparison).paragraphs).replace("\N{NO-BREAK SPACE}", " ")


def trials(gaps: dict[str, list[float]]) -> list[dict[str, Any]]:
    return [made(method, gap, seed) for method, all_gaps in gaps.items() for seed, gap in enumerate(all_gaps)]


def test_a_clear_winner() -> None:
    said = text(*trials({"retrain": [0] * 4, "finetune": [2.0, 2.1, 1.9, 2.0], "alignment_calibration": [1.0] * 4}))
    assert "Of 2 methods, Alignment Calibration came closest to Retrain" in said
    assert "1.00 ± 0.00 percentage points away (4 seeds)" in said
    assert "holds over the 4 seeds" in said
    assert "not the closest" not in said


def test_alignment_calibration_that_does_not_win_is_named() -> None:
    said = text(*trials({"retrain": [0] * 2, "finetune": [1.0] * 2, "alignment_calibration": [2.0, 2.2]}))
    assert "Fine-tune came closest" in said
    assert "Alignment Calibration, the paper's method, is not the closest here: number 2 at 2.10" in said


def test_a_lead_within_the_noise_is_said() -> None:
    records = trials({"retrain": [0] * 3, "finetune": [1.0, 2.0, 1.5], "neggrad": [1.8, 1.1, 1.9]})
    assert "is within the noise: 3 seeds do not tell these two apart" in text(*records)
    (comparison,) = compare(records)
    lead = lead_of(*comparison.ranked()[:2])
    assert lead is not None
    # By hand: differences 0.8, -0.9, 0.4; mean 0.1, SD 0.8888, t(0.975, 2) = 4.3027.
    assert (lead.mean, lead.low, lead.high) == pytest.approx((0.1, 0.1 - 2.2079, 0.1 + 2.2079), abs=1e-3)


def test_the_order_without_decisions_of_attacks_is_told() -> None:
    said = text(
        *(made("retrain", 0, seed, metrics={"unlearn_AUC": 0.50 + 0.02 * seed}) for seed in range(2)),
        *(made("pretrain", 3, seed, metrics={"unlearn_AUC": 0.61}) for seed in range(2)),
        *(made("finetune", 1, seed, metrics={"unlearn_AUC": 0.59}) for seed in range(2)),
        *(made("neggrad", 2, seed, metrics={"unlearn_AUC": 0.51}) for seed in range(2)),
    )
    order = re.search(r"By AG auc, on which .*?, (\S+) is closest at .*?, then (\S+) at .*?; the original is", said)
    assert order is not None
    assert order.groups() == ("NegGrad", "Fine-tune")
    assert "two Retrains are 0.50 apart" in said


def test_the_spread_between_retrains_is_the_yardstick() -> None:
    # Retrains of seeds 0, 1, 2 differ by 1, 1 and 2 points of EMIA: an AG of (1 + 1 + 2) / 3 / 5 = 0.27.
    near = text(*trials({"retrain": [0] * 3, "finetune": [0.2] * 3, "neggrad": [0.1] * 3}))
    assert "which also forget different images, are 0.27 points apart" in near
    assert "NegGrad and Fine-tune are no further from Retrain than that." in near
    far = text(*trials({"retrain": [0] * 3, "finetune": [0.8] * 3}))
    assert "Fine-tune is 3.0 times as far from Retrain" in far


def test_methods_are_told_apart_seed_by_seed_whatever_the_spread_between_seeds() -> None:
    spread = {"retrain": [0] * 3, "neggrad": [1, 5, 9]}
    said = text(*trials({**spread, "finetune": [1.6, 5.5, 9.7], "l1_sparsity": [9.5, 1.5, 6.0]}))
    together = "(95 % intervals, for all pairs of methods together)"
    expected = f"Seed by seed NegGrad is closer than Fine-tune by more than chance {together}"
    assert f"{expected}; not so than ℓ1-sparsity." in said
    unclear = text(*trials({**spread, "finetune": [9.6, 1.5, 6.0], "l1_sparsity": [9.5, 1.5, 6.0]}))
    assert "Seed by seed NegGrad cannot be told from any other" in unclear
    clear = text(*trials({**spread, "finetune": [1.6, 5.5, 9.7], "l1_sparsity": [1.7, 5.6, 9.8]}))
    assert f"than Fine-tune and ℓ1-sparsity by more than chance {together}." in clear
    assert "Seed by seed" not in text(made("retrain", 0), *(made(m, 1) for m in ("finetune", "neggrad", "l1_sparsity")))
    tied = trials({**spread, "finetune": [1, 5, 9], "l1_sparsity": [1.7, 5.6, 9.8]})
    assert led(compare(tied)[0]) is None


def test_among_methods_that_are_all_alike_a_lead_is_rare() -> None:
    """Whoever is closest was found by the same seeds. With each comparison by itself 0.25 of these tables had one."""
    random, claims = np.random.default_rng(0), 0
    methods = ("finetune", "gradient_ascent", "neggrad", "l1_sparsity", "alignment_calibration")
    for _ in range(400):
        gaps = {method: random.normal(5, 1, 3).tolist() for method in methods}
        found = led(compare(trials({"retrain": [0] * 3, **gaps}))[0])
        claims += bool(found and found[0])
    assert 0 < claims < 0.06 * 400


def test_the_interval_of_a_lead_is_wider_where_it_was_chosen() -> None:
    (comparison,) = compare(trials({"retrain": [0] * 3, "finetune": [1.0, 2.0, 1.5], "neggrad": [1.8, 1.1, 1.9]}))
    lead = lead_of(*comparison.ranked()[:2], among=10)
    assert lead is not None
    # By hand, as above, with t(0.9975, 2) = 14.0890.
    assert (lead.mean, lead.low) == pytest.approx((0.1, 0.1 - 14.0890 * 0.8888 / 3**0.5), abs=1e-3)


def test_one_seed_proves_nothing() -> None:
    said = text(made("retrain", 0), made("finetune", 1), made("neggrad", 2))
    assert "may be chance" in said
    assert "no second Retrain seed" in said


def test_no_retrain_no_claim() -> None:
    said = text(made("finetune", 1), made("pretrain", 1))
    assert "cannot be said how close" in said
    assert "closest" not in said
    assert text(made("retrain", 0)).startswith("No approximate unlearning method")


def without_retrain(**gaps: float) -> str:
    """Of methods whose gap to held-out images is so large."""
    held_out = {"held_out_EMIA": 50.0, "held_out_accuracy": 85.0, "held_out_CMIA": 40.0, "unlearn_AUC": 0.61}
    return text(*(made(method, gap, metrics=held_out) for method, gap in gaps.items()))


def test_without_retrain_it_is_told_what_is_known() -> None:
    said = without_retrain(pretrain=2, finetune=1, neggrad=1.5)
    assert "cannot be said how close a method comes to exact unlearning. By AG held-out, the average gap" in said
    assert "to a stand-in for Retrain, Fine-tune is closest at 1.00; the original as it is: 2.00." in said
    assert "in 61.0 % of comparisons (50 % is chance); it takes Retrain to tell how much of that" in said
    tied = without_retrain(pretrain=2, finetune=1, neggrad=1)
    assert "Fine-tune and NegGrad are tied as the closest at 1.00" in tied
    worse = without_retrain(pretrain=1, finetune=1.5, neggrad=2)
    assert "no method is closer than the original as it is (1.00; Fine-tune: 1.50)" in worse


def test_a_search_admits_its_selection() -> None:
    tried = [made("finetune", g, method_settings={"learning_rate": g}, run=f"r{g}") for g in (0.5, 1.0)]
    said = text(made("retrain", 0), *tried)
    assert "Fine-tune (learning_rate=0.5) came closest" in said
    assert "best of 2 settings of its method" in said


def test_what_is_lost_against_the_original() -> None:
    original, retrain = made("pretrain", 3, metrics={"RA": 91.0, "TA": 86.5}), made("retrain", 0)
    said = text(original, retrain, made("finetune", 1, metrics={"RA": 90.5, "TA": 84.0}))
    assert "by −0.50 points on kept images and by −2.50 on test images (Retrain: −1.00 and −1.50)" in said


def headline(*records: dict[str, Any]) -> str:
    (comparison,) = compare(list(records))
    tile = summarise(comparison).tiles[0]
    return f"{tile.label}: {tile.value}"


def test_a_method_that_did_nothing_is_not_praised() -> None:
    retrain = made("retrain", 0, metrics={"unlearn_AUC": 0.497})
    original = made("pretrain", 1.46, metrics={"unlearn_AUC": 0.521})
    same = [original, retrain, made("gradient_ascent", 1.455), made("finetune", 1.47)]
    said = text(*same)
    assert said.startswith("No method came measurably closer to Retrain than leaving the model as it was: the ori")
    assert "Gradient ascent, 1.46" in said.replace("1.45", "1.46")
    assert "may be because there was little to forget (AUC of images to forget against test images 0.521" in said
    assert "something to forget, if little" in said
    assert headline(*same) == "Closest to Retrain: no method"
    better = [original, retrain, made("gradient_ascent", 1.4), made("finetune", 1.47)]
    assert "Gradient ascent came closest" in text(*better)
    assert headline(*better) == "Closest to Retrain: Gradient ascent"


def test_a_method_that_made_it_worse_is_told_from_none() -> None:
    said = text(made("pretrain", 1), made("retrain", 0), made("finetune", 2))
    assert "the original is 1.00 points away on average, the closest method, Fine-tune, 2.00 (one seed)." in said


@pytest.mark.parametrize(
    ("gaps", "auc", "praised"),
    [
        ([0.7, 1.1, 0.9], 0.52, False),  # little to forget, and the lead may be chance
        ([0.7, 0.69, 0.71], 0.52, True),  # the lead holds
        ([0.7, 1.1, 0.9], 0.8, True),  # much to forget: what the method did shows elsewhere
        ([1.0, 1.0, 1.0], 0.8, False),  # no lead at all
    ],
)
def test_a_lead_over_the_original_that_may_be_chance_is_none(gaps: list[float], auc: float, praised: bool) -> None:
    said = text(
        *trials({"retrain": [0] * 3, "finetune": gaps}),
        *(made("pretrain", 1.0, seed, metrics={"unlearn_AUC": auc}) for seed in range(3)),
    )
    assert ("Fine-tune is the only method here; it came" in said) == praised
    assert ("measurably closer to Retrain than leaving the model as it was" in said) != praised


@pytest.mark.parametrize(("auc", "expected"), [(0.60, "there was something"), (0.51, "hardly anything to forget")])
def test_whether_there_was_something_to_forget(auc: float, expected: str) -> None:
    retrain = made("retrain", 0, metrics={"unlearn_AUC": 0.5})
    said = text(made("pretrain", 3, metrics={"unlearn_AUC": auc}), retrain, made("finetune", 1))
    assert expected in said
    assert f"{100 * auc:.1f} % of comparisons" in said


def test_an_attack_that_guesses_is_named() -> None:
    retrain = made("retrain", 0, metrics={"EMIA_accuracy": 50.9})
    assert "EMIA and its gap are mostly noise" in text(made("pretrain", 2), retrain, made("finetune", 1))
    assert "mostly noise" not in text(made("pretrain", 2), made("retrain", 0), made("finetune", 1))


def test_unequal_seeds_are_said() -> None:
    records = trials({"retrain": [0] * 3, "finetune": [1.0] * 3, "neggrad": [2.0] * 2})
    assert "not all run with the same seeds" in text(*records)


def test_methods_that_are_tied_get_no_winner() -> None:
    retrain = made("retrain", 0)
    tied = text(retrain, made("finetune", 1.001), made("neggrad", 1.004), made("l1_sparsity", 2))
    assert tied.startswith("Of 3 methods, Fine-tune and NegGrad are tied as the closest to Retrain, the model trained")
    assert "they are 1.00 percentage points away (one seed). Next is ℓ1-sparsity at 2.00." in tied
    assert "came closest" not in tied
    assert " took " not in tied  # what one of them costs would make it the winner
    following = text(retrain, made("finetune", 1), made("neggrad", 2), made("l1_sparsity", 2))
    assert "Of 3 methods, Fine-tune came closest to Retrain" in following
    assert "Next are NegGrad and ℓ1-sparsity, tied at 2.00." in following
    everyone = text(retrain, made("finetune", 1), made("neggrad", 1))
    assert everyone.startswith("The 2 methods Fine-tune and NegGrad are tied, all equally far from Retrain")
    assert "Next" not in everyone


def test_ties_are_named_wherever_the_closest_is() -> None:
    retrain, two = made("retrain", 0), [made("finetune", 1), made("neggrad", 1)]
    assert headline(retrain, *two) == "Closest to Retrain: 2 tied"
    untouched = text(made("pretrain", 0.5), retrain, *two)
    assert "the closest methods, which are tied, Fine-tune and NegGrad, 1.00 (one seed)" in untouched
    far = text(*trials({"retrain": [0] * 3, "finetune": [0.8] * 3, "neggrad": [0.8] * 3}))
    assert "Fine-tune and NegGrad are 3.0 times as far from Retrain" in far
    same = [made(m, gap, metrics={"unlearn_AUC": 0.55}) for m, gap in (("finetune", 1), ("neggrad", 2))]
    auc = text(made("retrain", 0, metrics={"unlearn_AUC": 0.5}), *same)
    assert "By AG auc, on which no attack's threshold has a say, Fine-tune and NegGrad are tied at 1.25." in auc


def test_tied_settings_of_a_search_admit_their_selection() -> None:
    tried = [
        made("finetune", g, method_settings={"learning_rate": r}, run=f"r{r}") for r, g in ((1, 1), (2, 1), (3, 2))
    ]
    said = text(made("retrain", 0), *tried)
    assert "They are the best of 3 settings of Fine-tune, chosen by the very gap" in said
    assert "settings of" not in text(made("retrain", 0), made("finetune", 1), made("neggrad", 1))


def test_retrains_of_one_request_are_not_said_to_forget_different_images() -> None:
    records = trials({"retrain": [0] * 3, "finetune": [0.8] * 3})
    for r in records:
        r["request_sha256"] = "one"
    assert "which forget the same images, are 0.27 points apart" in text(*records)
    (comparison,) = compare(records)
    assert any("they forget the same images" in tile.note for tile in summarise(comparison).tiles)
    assert "requests" not in next(t.caption for t in all_tables(records) if t.title.startswith("Gaps against chance"))
