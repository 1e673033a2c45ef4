"""Figures and t-tests of models: they run in the smoke form, and their numbers agree with each other and by hand."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import ttest_ind

from muc import paper
from muc.__main__ import main
from muc.evaluation.alignment_gaps import GapStatistics, Spread
from muc.reproduce.emia_threshold import tabulate
from muc.reproduce.from_models import made_from
from muc.reproduce.t_tests import arms, p_values, p_values_table
from muc.run_folder import RunFolder
from muc.storage import write_json

SMOKE = ["--smoke", "--device", "cpu", "--threads", "1"]


@pytest.fixture(scope="module")
def found(out: Path) -> dict[str, Any]:
    """{recipe: its results of one seed}, from the runs of the white-box table."""
    results = {}
    for name in ("negative-alignment", "heatmaps", "privacy", "emia-threshold"):
        flags = ["--algorithms", "simclr", "--methods", "finetune", "--seeds", "0", "--search", "2"]
        assert main(["reproduce", name, "--out", str(out), *flags, *SMOKE]) == 0
        results[name] = json.loads((out / f"{name}-simclr" / "results.json").read_text())["simclr"][0]
    return results


def test_every_figure_is_written_with_words_for_those_who_do_not_see_it(found: dict[str, Any], out: Path) -> None:
    pictures = {
        "negative-alignment": ["negative-alignment-simclr"],
        "heatmaps": ["ac-simclr", "methods-simclr", "models-simclr"],
        "privacy": ["retrain-minus-ac-simclr"],
        "emia-threshold": ["thresholds-simclr"],
    }
    for name, shown in pictures.items():
        folder = out / f"{name}-simclr"
        text, page = (folder / "tables.md").read_text(), (folder / "report.html").read_text()
        for picture in shown:
            assert (folder / f"{picture}.png").read_bytes().startswith(b"\x89PNG")
            assert f"]({picture}.png)" in text
        assert page.count("<img") == len(shown)
        assert text.startswith("# Smoke test")
        assert "2 settings of every method" in text
        assert re.search(r"3 epochs · 10 % to forget: AC has alpha 1, beta \S+ in the paper's units, gamma 1, ", text)


def test_alignment_gaps_agree_between_recipes(found: dict[str, Any]) -> None:
    """Original minus Retrain is minus (Retrain minus Original): the same images, views and models."""
    shown = found["negative-alignment"]
    for gaps, images in ((shown["gaps"], "unlearn"), (shown["others"]["test"], "test")):
        one = gaps["retrain"]
        other = found["privacy"]["gaps"][images]["pretrain"]
        for kind in ("positive", "negative"):
            assert one[kind]["mean"] == pytest.approx(-other[kind]["mean"], abs=1e-7)
            assert one[kind]["sd"] == pytest.approx(other[kind]["sd"], abs=1e-7)
        assert one["negative"]["n"] == 6 * 5
    retained = shown["others"]["retained"]
    assert retained["retrain"]["negative"]["n"] == 6 * 5
    assert retained["retrain"] != shown["others"]["test"]["retrain"] != shown["gaps"]["retrain"]


def test_all_methods_are_shown_the_same_views(found: dict[str, Any]) -> None:
    looks = found["heatmaps"]["looks"]
    assert list(looks) == ["retrain", "finetune", "alignment_calibration"]
    for look in looks.values():
        assert look["before"] == looks["retrain"]["before"]
        assert np.array(look["gap"]) == pytest.approx(np.array(look["before"]) - np.array(look["after"]))
    difference = np.array(looks["retrain"]["after"]) - np.array(looks["alignment_calibration"]["after"])
    assert np.array(found["privacy"]["shown"]["retrain_minus_ac"]) == pytest.approx(difference, abs=1e-6)


def test_the_threshold_curve_meets_the_record(found: dict[str, Any], out: Path) -> None:
    folder = next((out / "runs").glob("*simclr*seed0-forget10"))
    record = json.loads((folder / "retrain" / "evaluation.json").read_text())["metrics"]
    attack = found["emia-threshold"]["attacks"]["retrain"]
    for name in ("EMIA", "EMIA_threshold", "EMIA_accuracy", "EMIA_AUC", "unlearn_AUC"):
        assert attack[name] == pytest.approx(record[name])
    at = round(record["EMIA_threshold"] * 500)
    assert attack["emia"][at] == pytest.approx(record["EMIA"], abs=1e-3)
    assert 100 * attack["accuracy"][at] == pytest.approx(record["EMIA_accuracy"], abs=1e-3)
    assert attack["as_good"][0] <= record["EMIA"] <= attack["as_good"][1]


def test_the_width_of_the_range_is_in_the_table() -> None:
    attack = {"EMIA": 50, "EMIA_threshold": 0.8, "EMIA_accuracy": 55, "EMIA_AUC": 0.55, "unlearn_AUC": 0.5}
    # Of the thresholds the second and the third are as good as the best (100 images: a standard error is 0.05).
    curve = {"images": 100, "accuracy": [0.5, 0.59, 0.6, 0.5]}

    def attacks(as_good: list[int], shift: float) -> dict[str, Any]:
        exact = {**attack, **curve, "as_good": as_good, "emia": [10.0, 40.0, 60.0, 90.0]}
        return {
            "retrain": exact,
            "finetune": {**exact, "accuracy": [0.9, 0, 0, 0], "emia": [99.0, 38.0 - shift, 65.0, 0]},
        }

    trials = [{"setting": "x", "attacks": attacks(*given)} for given in (([30, 60], 0.0), ([40, 80], 1.0))]
    exact, tuned = tabulate(trials).rows
    assert (exact[2].text, exact[2].gap) == ("35.0 to 70.0", "35.00 ± 7.07")
    assert (exact[3].text, tuned[3].text) == ("–", "2.5 to 5.0")  # 2 to 5, and 3 to 5


def test_a_result_of_other_models_is_made_again(tmp_path: Path) -> None:
    run, calls = RunFolder(tmp_path / "run"), []

    def finish(digest: str) -> None:
        values = {"format_version": 1, "model_sha256": digest, "seconds": 1, "peak_memory_bytes": None}
        write_json(run.path / "result.json", values)

    step = made_from("x", 1, tmp_path / "x.json", lambda: {"a": run}, lambda used: {"n": calls.append(used) or 1})
    assert not step.done()
    finish("one")
    step.work()
    assert step.done()
    finish("two")
    assert not step.done()
    step.work()
    assert step.done()
    assert len(calls) == 2
    (run.path / "result.json").unlink()
    assert not step.done()


def test_t_tests_run_from_our_encoders(out: Path) -> None:
    assert main(["reproduce", "t-tests", "--out", str(out), "--algorithms", "simclr", *SMOKE]) == 0
    results = json.loads((out / "t-tests-simclr" / "results.json").read_text())
    assert set(results["models"]) == {"pretrain", "retrain", "alignment_calibration", "another seed"}
    assert len(set(results["models"].values())) == 4
    assert {"seed11", "seed10"} <= {p.name.split("-")[-1] for p in (out / "runs").iterdir()}
    assert results["arms"]["H0_fs"] != results["arms"]["H1_fs"]
    assert "Do not decide by them" in (out / "t-tests-simclr" / "tables.md").read_text()


def test_p_values_are_those_of_a_test_on_arrays() -> None:
    source, n = np.random.default_rng(0), 10
    images = {name: source.normal(mean, 0.05, n) for name, mean in (("seed", 0), ("retrain", 0.03), ("ac", 0.01))}
    pairs = {name: source.normal(mean, 0.04, n * (n - 1) // 2) for name, mean in (("seed", 0), ("ac", -0.02))}

    def spread(values: np.ndarray) -> Spread:
        return Spread(values.mean(), values.std(ddof=1), len(values))

    def gaps(name: str) -> GapStatistics:
        return GapStatistics(spread(images[name]), spread(pairs.get(name, pairs["seed"])))

    found = p_values(arms(gaps("seed"), gaps("retrain"), gaps("ac")))
    expected = [
        ttest_ind(images["seed"], images["retrain"]).pvalue,
        ttest_ind(images["seed"], images["ac"]).pvalue,
        ttest_ind(pairs["seed"], pairs["ac"]).pvalue,
    ]
    assert [p[n] for p in found.values()] == pytest.approx(expected)


def test_the_papers_arms_give_the_papers_p_values() -> None:
    facts = paper.load()["text_facts"]["t_test"]
    table = p_values_table(facts, "moco")
    for cell in table.rows[0][1:]:
        assert float(cell.text) == pytest.approx(float(cell.paper), abs=0.003)
    assert table.rows[2][1].text == table.rows[2][1].paper == "0.0168"
    assert all(cell.paper is None for row in p_values_table(facts, "simclr").rows for cell in row)
