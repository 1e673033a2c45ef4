"""What `muc compare` says about its ranking."""

import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from muc import compare
from muc.__main__ import main
from muc.compare import Comparison, gaps_of, rank, reasons
from muc.errors import Interrupted
from muc.run_folder import RunFolder
from muc.split import Split


def record(method: str, ag: float | None, auc: float) -> dict[str, Any]:
    names = ("EMIA", "RA", "TA", "UA", "CMIA")
    metrics = dict.fromkeys((*names, "held_out_EMIA", "held_out_accuracy", "held_out_CMIA"), 50.0)
    metrics |= {"FS": 0.01, "unlearn_AUC": auc, "RTE_minutes": 0.5}
    gaps = None if ag is None else {"AG": ag, "AG_auc": 100 * abs(auc - 0.5), **{f"{name}_gap": ag for name in names}}
    return {"run": f"runs/{method}", "method": method, "metrics": metrics, "gaps": gaps}


def ranked(original: dict[str, Any], *candidates: dict[str, Any], retrain: dict[str, Any] | None = None) -> Comparison:
    records = [retrain, original, *candidates] if retrain else [original, *candidates]
    gap = gaps_of(original, original)["AG"]
    return Comparison(records, rank(original, list(candidates)), gap, retrain is not None)


def told(original: dict[str, Any], *candidates: dict[str, Any], retrain: dict[str, Any] | None = None) -> str:
    return "\n".join(reasons(ranked(original, *candidates, retrain=retrain)))


def test_a_method_that_is_closer_than_the_original_is_named_without_a_caveat() -> None:
    exact, original = record("retrain", 0.0, 0.5), record("pretrain", 4.0, 0.62)
    text = told(original, record("neggrad", 3.0, 0.58), record("finetune", 2.0, 0.53), retrain=exact)
    assert "1. Fine-tune: average gap 2.00 points, largest in EMIA (2.00); forgetting score +0.0100, AUC 0.530" in text
    assert "The original as it is: average gap 4.00 points, AUC 0.620. Retrain: AUC 0.500." in text
    assert text.endswith("Run to publish: runs/finetune")
    assert "took 30 s" in text
    assert "doing nothing" not in text
    assert "By AG auc" not in text  # the same method is first


def test_another_order_without_the_attacks_decisions_is_told() -> None:
    exact, original = record("retrain", 0.0, 0.5), record("pretrain", 4.0, 0.62)
    text = told(original, record("neggrad", 3.0, 0.51), record("finetune", 2.0, 0.53), retrain=exact)
    assert "has a say, NegGrad is closest (1.00; Fine-tune: 3.00)" in text
    assert text.endswith("Run to publish: runs/finetune")


@pytest.mark.parametrize("gap", [1.5, 2.0])
def test_where_no_method_beats_doing_nothing_none_is_recommended(gap: float) -> None:
    exact, original = record("retrain", 0.0, 0.5), record("pretrain", 1.5, 0.52)
    found = ranked(original, record("finetune", gap, 0.51), retrain=exact)
    text = "\n".join(reasons(found))
    assert "no method is better than doing nothing: look at the AUC" in text
    assert "Run to publish" not in text
    assert text.splitlines()[-1].startswith("No run can be recommended: ")
    assert text.endswith("; the closest is runs/finetune")
    assert found.to_json()["publish"] is None


def test_caveats_stand_in_the_file_too() -> None:
    exact, original = record("retrain", 0.0, 0.5), record("pretrain", 1.5, 0.52)
    said = ranked(original, record("finetune", 2.0, 0.51), retrain=exact).to_json()["caveats"]
    assert said[0].startswith("The original as it is: average gap 1.50 points")
    assert "no method is better than doing nothing" in said[-1]
    good = ranked(original, record("finetune", 1.0, 0.51), retrain=exact).to_json()
    assert good["publish"] == "runs/finetune"
    assert not any("doing nothing" in line for line in good["caveats"])


def test_metrics_of_pairs_are_called_as_in_the_tables() -> None:
    def pairs(method: str, retain: float) -> dict[str, Any]:
        metrics = {"retain_similarity": retain, "unlearn_similarity": 50.0, "test_similarity": 40.0}
        gaps = {"AG": retain / 2, "retain_similarity_gap": retain, "unlearn_similarity_gap": 0.0, "AGP": 1.0}
        made = record(method, None, 0.6)
        return {**made, "metrics": {**metrics, "FS": 0.1, "unlearn_AUC": 0.6, "RTE_minutes": 0.5}, "gaps": gaps}

    text = told(pairs("pretrain", 9.0), pairs("l1_sparsity", 4.0), retrain=pairs("retrain", 0.0))
    assert "1. ℓ1-sparsity: average gap 2.00 points, largest in Retain (4.00)" in text
    assert "_" not in text.splitlines()[1]


def test_without_retrain_the_original_is_judged_by_the_same_stand_in() -> None:
    original, forgetful = record("pretrain", None, 0.7), record("finetune", None, 0.55)
    original["metrics"]["UA"] = 75.0  # held-out images: 50
    text = told(original, forgetful)
    assert "The original as it is: average gap 5.00 points, AUC 0.700. (AUC" in text
    assert "doing nothing" not in text


def test_a_run_is_not_used_again_for_a_request_that_takes_more_images_away() -> None:
    rows = np.arange(6)
    split = Split(0, validation=rows[:2], retain=rows[2:5], unlearn=rows[5:])
    assert compare.same_images(split, replace(split, validation=rows[1::-1]))
    assert not compare.same_images(split, replace(split, validation=rows[:1]))
    assert not compare.same_images(split, replace(split, unlearn=rows[4:5]))


def test_how_to_go_on_is_a_command_that_can_be_pasted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stopped(*_: Any) -> None:
        raise Interrupted("muc resume somewhere")

    monkeypatch.setattr(compare, "compare", stopped)
    monkeypatch.setattr("muc.cli.judging.run_at", RunFolder)
    argv = ["compare", "runs/my moco", "--forget-fraction", "0.1", "--search", "2", "--out", str(tmp_path)]
    assert main(argv) == 130
    said = capsys.readouterr().err
    assert shlex.split(said.partition("Go on with: ")[2]) == ["muc", *argv]


def test_the_hint_to_a_report_can_be_pasted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    exact, original = record("retrain", 0.0, 0.5), record("pretrain", 1.5, 0.52)
    found = ranked(original, {**record("finetune", 1.0, 0.5), "run": "my runs/finetune"}, retrain=exact)
    monkeypatch.setattr(compare, "compare", lambda *_: found)
    monkeypatch.setattr("muc.cli.judging.print_tables", lambda _: None)
    monkeypatch.setattr("muc.cli.judging.run_at", RunFolder)
    assert main(["compare", "runs/moco", "--forget-fraction", "0.1", "--out", "my runs"]) == 0
    assert "muc report 'my runs'\n" in capsys.readouterr().err
