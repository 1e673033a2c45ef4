"""What `muc compare` says about its ranking."""

from typing import Any

from muc.compare import Comparison, gaps_of, rank, reasons


def record(method: str, ag: float | None, auc: float) -> dict[str, Any]:
    names = ("EMIA", "RA", "TA", "UA", "CMIA")
    metrics = dict.fromkeys((*names, "held_out_EMIA", "held_out_accuracy", "held_out_CMIA"), 50.0)
    metrics |= {"FS": 0.01, "unlearn_AUC": auc, "RTE_minutes": 0.5}
    gaps = None if ag is None else {"AG": ag, "AG_auc": 100 * abs(auc - 0.5), **{f"{name}_gap": ag for name in names}}
    return {"run": f"runs/{method}", "method": method, "metrics": metrics, "gaps": gaps}


def told(original: dict[str, Any], *candidates: dict[str, Any], retrain: dict[str, Any] | None = None) -> str:
    records = [retrain, original, *candidates] if retrain else [original, *candidates]
    gap = gaps_of(original, original)["AG"]
    return "\n".join(reasons(Comparison(records, rank(original, list(candidates)), gap, retrain is not None)))


def test_a_method_that_is_closer_than_the_original_is_named_without_a_caveat() -> None:
    exact, original = record("retrain", 0.0, 0.5), record("pretrain", 4.0, 0.62)
    text = told(original, record("neggrad", 3.0, 0.58), record("finetune", 2.0, 0.53), retrain=exact)
    assert "1. finetune: average gap 2.00 points, largest in EMIA (2.00); forgetting score +0.0100, AUC 0.530" in text
    assert "The original as it is: average gap 4.00 points, AUC 0.620. Retrain: AUC 0.500." in text
    assert text.endswith("Run to publish: runs/finetune")
    assert "doing nothing" not in text
    assert "By AG auc" not in text  # the same method is first


def test_another_order_without_the_attacks_decisions_is_told() -> None:
    exact, original = record("retrain", 0.0, 0.5), record("pretrain", 4.0, 0.62)
    text = told(original, record("neggrad", 3.0, 0.51), record("finetune", 2.0, 0.53), retrain=exact)
    assert "has a say, neggrad is closest (1.00; finetune: 3.00)" in text
    assert text.endswith("Run to publish: runs/finetune")


def test_where_no_method_beats_doing_nothing_it_is_said() -> None:
    exact, original = record("retrain", 0.0, 0.5), record("pretrain", 1.5, 0.52)
    text = told(original, record("finetune", 2.0, 0.51), retrain=exact)
    assert "no method is better than doing nothing: look at the AUC" in text
    assert text.endswith("Run to publish: runs/finetune")


def test_without_retrain_the_original_is_judged_by_the_same_stand_in() -> None:
    original, forgetful = record("pretrain", None, 0.7), record("finetune", None, 0.55)
    original["metrics"]["UA"] = 75.0  # held-out images: 50
    text = told(original, forgetful)
    assert "The original as it is: average gap 5.00 points, AUC 0.700. (AUC" in text
    assert "doing nothing" not in text
