"""Membership attacks against brute force and scikit-learn."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score
from sklearn.svm import SVC

from muc.evaluation.membership import THRESHOLDS, as_good, auc, best_threshold, cmia, emia, threshold_curve, tpr_at_fpr

GRID = st.integers(-5, 105).map(lambda i: i / 100)  # many ties, some scores outside [0, 1]
SCORES = st.lists(GRID | st.floats(-1, 1), min_size=1, max_size=25)


def count_right(members: list[float], others: list[float], threshold: float) -> int:
    return sum(m >= threshold for m in members) + sum(o < threshold for o in others)


@given(members=SCORES, others=SCORES)
@example(members=[0.25, 0.75, 0.5], others=[0.5, 0.25, 0.25, 0.75, 0.0, 0.5])
def test_best_threshold_is_the_first_of_501_points_with_the_most_right_answers(
    members: list[float], others: list[float]
) -> None:
    counts = [count_right(members, others, t) for t in np.linspace(0, 1, 501)]
    best = max(counts)
    threshold, accuracy = best_threshold(members, others)
    assert threshold == np.linspace(0, 1, 501)[counts.index(best)]
    assert accuracy == pytest.approx(best / (len(members) + len(others)), abs=1e-15)


def test_equally_good_thresholds_are_exactly_equal_so_that_the_first_wins() -> None:
    """27 of 43 answers are right at 0 and again at 0.342; shares added as floats once made the second look better."""
    members = [2, 38, 46, 6, 9, 23, 60, 58, 97, 59, 11, 1, 60, 55, 57, 44, 9, 39, 15, 91, 89, 99, 38, 30, 63, 82, 60]
    others = [17, 9, 62, 20, 10, 87, 80, 42, 40, 4, 16, 68, 46, 1, 23, 34]
    scores = [m / 100 for m in members], [o / 100 for o in others]
    assert count_right(*scores, 0.0) == count_right(*scores, THRESHOLDS[171]) == 27
    assert best_threshold(*scores) == (0.0, 27 / 43)


def test_attack_on_scores_that_separate_perfectly() -> None:
    threshold, accuracy = best_threshold([0.9, 0.8], [0.1, 0.2])
    assert accuracy == 1
    assert threshold == pytest.approx(0.202)  # the first point above every other image


def test_threshold_curve_is_counted_at_every_point() -> None:
    source = np.random.default_rng(0)
    members, others, unlearned = source.random(30), source.random(20), source.random(10)
    curve = threshold_curve(members, others, unlearned)
    assert [point["threshold"] for point in curve] == pytest.approx(np.linspace(0, 1, 501))
    for point in curve[::25]:
        t = point["threshold"]
        assert point["accuracy"] == pytest.approx(count_right(members, others, t) / 50)
        assert point["emia"] == pytest.approx(100 * sum(u < t for u in unlearned) / 10)
    best = max(curve, key=lambda point: point["accuracy"])
    assert (best["threshold"], best["accuracy"]) == best_threshold(members, others)


def test_thresholds_are_as_good_within_one_standard_error() -> None:
    source = np.random.default_rng(1)
    accuracy = [point["accuracy"] for point in threshold_curve(source.random(60) ** 0.5, source.random(40), [0.5])]
    best = max(accuracy)
    error = np.std([1] * round(100 * best) + [0] * round(100 * (1 - best))) / 100**0.5
    expected = [best - share <= error for share in accuracy]
    assert as_good(accuracy, 100).tolist() == expected
    assert 1 < sum(expected) < len(THRESHOLDS)


@given(members=SCORES, others=SCORES)
def test_auc_is_scikit_learns(members: list[float], others: list[float]) -> None:
    labels = [1] * len(members) + [0] * len(others)
    assert auc(members, others) == pytest.approx(roc_auc_score(labels, members + others), abs=1e-12)


@given(members=SCORES, others=SCORES)
def test_auc_is_the_share_of_pairs_in_the_right_order(members: list[float], others: list[float]) -> None:
    wins = sum((m > o) + 0.5 * (m == o) for m in members for o in others)
    assert auc(members, others) == pytest.approx(wins / (len(members) * len(others)), abs=1e-12)


@given(members=SCORES, others=SCORES, percent=st.integers(0, 99))
def test_tpr_at_fpr_is_the_most_members_found_at_any_threshold_that_keeps_the_fpr(
    members: list[float], others: list[float], percent: int
) -> None:
    """Brute force over all thresholds, score > t, that could make a difference."""
    found = [
        sum(m > t for m in members) / len(members)
        for t in [*others, *members, max(others) + 1]
        if Fraction(sum(o > t for o in others), len(others)) <= Fraction(percent, 100)
    ]
    assert tpr_at_fpr(members, others, percent / 100) == pytest.approx(max(found))


def test_tpr_at_one_percent_of_known_scores() -> None:
    others = np.arange(200) / 200  # two of them may pass
    assert tpr_at_fpr([0.5, 0.985, 0.99, 0.995, 2.0], others) == pytest.approx(3 / 5)


def test_emia_of_constructed_scores() -> None:
    members, others = [0.9, 0.9, 0.9, 0.5], [0.2, 0.2, 0.6, 0.2]
    # 0.602 to 0.9 gets 7 of 8 right, and so does 0.202 to 0.5, which comes first.
    result = emia(members, others, unlearned=[0.1, 0.2, 0.3, 0.95], held_out=[0.1, 0.9, 0.9, 0.9])
    assert result["EMIA_threshold"] == pytest.approx(0.202)
    assert result["EMIA"] == 50
    assert result["held_out_EMIA"] == 25
    assert result["EMIA_accuracy"] == pytest.approx(87.5)
    assert result["EMIA_AUC"] == pytest.approx((3 * 4 + 3) / 16)
    assert result["EMIA_TPR_at_1_FPR"] == pytest.approx(75)


def test_an_image_exactly_at_the_threshold_is_a_member_in_single_precision_too() -> None:
    """The attack's training and its use must see the same number, whatever precision scores come in."""
    for level in range(1, 500):
        on = np.array([THRESHOLDS[level]], dtype=np.float32)
        assert best_threshold(on, [-1.0])[1] == 1
        rejected = emia(on, [-1.0], unlearned=on, held_out=on)
        assert (rejected["EMIA"], rejected["held_out_EMIA"]) == (0, 0)
        below = float(on[0]) < THRESHOLDS[level]
        shifted = emia([THRESHOLDS[level]], [THRESHOLDS[level - 1]], unlearned=on, held_out=on)
        assert shifted["EMIA_threshold"] == THRESHOLDS[level]
        assert shifted["EMIA"] == 100 * below


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_cmia_is_scikit_learns_support_vector_machine(seed: int) -> None:
    source = np.random.default_rng(seed)
    members, others = source.beta(5, 1, 120), source.beta(2, 1, 120)
    unlearned, held_out = source.random(50), source.beta(2, 1, 40)
    attack = SVC(C=3, gamma="auto", kernel="rbf")
    attack.fit(np.concatenate([members, others]).reshape(-1, 1), [1] * 120 + [0] * 120)
    expected = {
        "CMIA": 100 * np.mean(attack.predict(unlearned.reshape(-1, 1)) == 0),
        "held_out_CMIA": 100 * np.mean(attack.predict(held_out.reshape(-1, 1)) == 0),
    }
    assert cmia(members, others, unlearned, held_out) == pytest.approx(expected)
    assert 0 < expected["CMIA"] < 100


def test_cmia_finds_what_is_plainly_a_member_or_not() -> None:
    result = cmia([0.99] * 20, [0.3] * 20, unlearned=[0.98, 0.31, 0.99, 1.0], held_out=[0.3, 0.29])
    assert result == {"CMIA": 25.0, "held_out_CMIA": 100.0}
