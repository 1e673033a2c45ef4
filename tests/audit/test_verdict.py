"""The three verdicts: which numbers lead to which, and which words are never said."""

import json
from dataclasses import asdict, replace

import numpy as np
import pytest

from muc.audit.hold_back import Contrast, HoldBack, hold_back_test
from muc.audit.memory import Memory
from muc.audit.power import AC, RETRAIN, Effect, planted_power, scatter, shift
from muc.audit.verdict import Verdict, decide, decide_by_memory, ruled_out, same_model
from muc.errors import UserError

REFERENCE = Effect("Retrain's", fs=0.04, negative_alignment=0.0, fs_sd=(1, 1), negative_alignment_sd=(1, 1))


def evidence(p: float, fs_holm: float = 1.0, negative_holm: float = 1.0, fs_high: float = 0.03) -> HoldBack:
    fs, negative = Contrast(0.012, -0.001, fs_high, 0.2, fs_holm), Contrast(0.0417, 0.02, 0.06, 0.01, negative_holm)
    return HoldBack(p, fs, negative, n_forget=10, n_control=12, splits=10_000, confidence=0.95)


@pytest.mark.parametrize(
    ("p", "power", "verdict"),
    [
        (0.05, 0.0, "changed as requested"),
        (0.001, 1.0, "changed as requested"),
        (0.0501, 0.8, "no change found"),
        (1.0, 1.0, "no change found"),
        (0.0501, 0.79, "inconclusive"),
        (1.0, 0.0, "inconclusive"),
    ],
)
def test_p_and_power_decide(p: float, power: float, verdict: str) -> None:
    assert decide(evidence(p), power, REFERENCE).verdict == verdict


def test_alpha_is_the_owners_choice() -> None:
    assert decide(evidence(0.03), 0.9, REFERENCE, alpha=0.01).verdict == "no change found"
    assert decide(evidence(0.09), 0.9, REFERENCE, alpha=0.1).verdict == "changed as requested"


@pytest.mark.parametrize(
    ("p", "low", "power", "verdict", "said"),
    [
        (0.5, 0.04, 0.9, "no change found", "the intervals rule it out"),  # evidence's FS reaches to 0.03
        (0.5, 0.02, 0.9, "inconclusive", "does not rule out a change as large as the least that forgetting"),
        (0.5, 0.04, 0.7, "inconclusive", "with probability 70% only"),
        (0.5, -0.01, 1.0, "inconclusive", "nothing that could be seen to go"),
        (0.01, -0.01, 0.2, "changed as requested", "more than chance allows"),
        (0.01, 0.04, 0.9, "changed as requested", "more than chance allows"),
    ],
)
def test_no_change_needs_to_know_what_was_remembered(
    p: float, low: float, power: float, verdict: str, said: str
) -> None:
    found = decide_by_memory(evidence(p), Memory(0.05, low, 0.1, 20, 10), lambda _: power)
    assert found.verdict == verdict
    assert said in found.words


@pytest.mark.parametrize("power", [0.3, 1.0])
def test_without_withheld_images_nothing_found_is_inconclusive(power: float) -> None:
    found = decide_by_memory(evidence(0.5), None, lambda effect: power if effect is RETRAIN else 1.0)
    assert found.verdict == "inconclusive"
    assert "is not known" in found.words
    assert "Withheld images" in found.words
    if power < 1:
        assert (found.power, found.reference) == (power, RETRAIN.name)
    assert decide_by_memory(evidence(0.01), None, lambda _: 0.1).verdict == "changed as requested"


def test_the_same_answers_to_everything_are_the_same_model_whatever_the_test_says() -> None:
    for p in (0.01, 0.5):
        found = same_model(decide_by_memory(evidence(p), None, lambda _: 0.5))
        assert found.verdict == "no change found"
        assert "is the same model, and nothing was unlearned" in found.words


@pytest.mark.parametrize(
    ("fs", "negative_alignment", "expected"),
    [
        (0.031, 0.0, True),
        (0.029, 0.0, False),
        (0.0, 0.061, True),
        (0.0, 0.059, False),
        (0.031, 0.059, True),
        (0.029, 0.061, True),
        (0.029, 0.059, False),
    ],
)
def test_an_effect_is_ruled_out_by_either_trace_that_it_would_leave(
    fs: float, negative_alignment: float, expected: bool
) -> None:
    effect = replace(REFERENCE, fs=fs, negative_alignment=negative_alignment)
    assert ruled_out(effect, evidence(0.5)) == expected
    assert decide(evidence(0.5), 0.9, effect).verdict == ("no change found" if expected else "inconclusive")


def test_a_trace_that_the_reference_does_not_leave_cannot_rule_it_out() -> None:
    opposite = replace(evidence(0.5, fs_high=0.05), negative_alignment=Contrast(-0.1, -0.2, -0.01, 1.0, 1.0))
    assert not ruled_out(REFERENCE, opposite)


def every_verdict() -> list[Verdict]:
    return [
        decide(evidence(p, fs_holm, negative_holm, fs_high), power, REFERENCE, 0.05)
        for p in (0.01, 0.5)
        for power in (0.1, 0.9)
        for fs_holm in (0.01, 1.0)
        for negative_holm in (0.01, 1.0)
        for fs_high in (0.03, 0.05)
    ]


def test_no_verdict_says_that_anything_was_forgotten() -> None:
    for verdict in every_verdict():
        for never in ("forgotten", "unlearned", "proof", "proves", "guarantee"):
            assert never not in verdict.words


def test_every_verdict_names_p_and_both_groups() -> None:
    for verdict in every_verdict():
        assert f"p = {verdict.evidence.p:.2g}" in verdict.words
        assert "10 images to forget, 12 held back" in verdict.words


def test_no_change_is_never_told_without_the_power_that_there_was() -> None:
    for verdict in every_verdict():
        if verdict.verdict != "changed as requested":
            assert f"as large as Retrain's would have been found with probability {verdict.power:.0%}" in verdict.words


def test_words_say_which_statistics_carry_the_change() -> None:
    fs, negative = "views of one image are less alike", "different images are more alike"
    fs_shown = replace(evidence(0.01, 0.01, 0.2), FS=Contrast(0.012, 0.001, 0.03, 0.005, 0.01))
    words = decide(fs_shown, 0.5, REFERENCE).words
    assert fs in words
    assert negative not in words
    words = decide(evidence(0.01, 0.2, 0.01), 0.5, REFERENCE).words
    assert fs not in words
    assert f"{negative} than before (by 0.042 in cosine beyond the controls, interval 0.020 to 0.060)" in words
    both_small = evidence(0.01, 0.01, 0.01)  # but the interval of FS reaches across zero
    assert fs not in decide(both_small, 0.5, REFERENCE).words
    words = decide(replace(both_small, FS=fs_shown.FS), 0.5, REFERENCE).words
    assert fs in words
    assert negative in words
    assert "neither does alone" in decide(evidence(0.04, 0.06, 0.06), 0.5, REFERENCE).words


def test_from_matrices_to_verdicts() -> None:
    rng = np.random.default_rng(0)
    forget = np.arange(40) < 20
    unchanged = scatter(AC, 20, 20, 0.05, rng)
    few = np.ix_(np.arange(40) % 5 == 0, np.arange(40) % 5 == 0)

    def verdict(agm: np.ndarray, labels: np.ndarray) -> str:
        return decide(hold_back_test(agm, labels), planted_power(agm, int(labels.sum())), AC).verdict

    assert verdict(unchanged + shift(AC, 20, 20), forget) == "changed as requested"
    assert verdict(unchanged + 0.3, forget) == "no change found"  # another seed: a shift for all
    assert verdict(np.zeros((40, 40)), forget) == "no change found"  # nothing was done
    assert verdict(unchanged[few] + 0.3, forget[np.arange(40) % 5 == 0]) == "inconclusive"


def test_a_verdict_can_be_written_down() -> None:
    written = json.loads(json.dumps(asdict(decide(evidence(0.01), 0.5, REFERENCE))))
    assert written["verdict"] == "changed as requested"
    assert written["evidence"]["negative_alignment"]["low"] == 0.02


@pytest.mark.parametrize(("power", "alpha", "message"), [(1.2, 0.05, "power is 1.2"), (0.9, 0.0, "alpha is 0.0")])
def test_numbers_that_are_no_probabilities_are_refused(power: float, alpha: float, message: str) -> None:
    with pytest.raises(UserError, match=message):
        decide(evidence(0.01), power, REFERENCE, alpha)
