"""Records -> tables: grouping, gaps within a seed, spread over seeds, ranks, and the paper beside."""

import statistics
from typing import Any

import pytest
from report_records import CENTRES, record, records

from muc import paper
from muc.errors import UserError
from muc.report.group import compare
from muc.report.tables import Table, all_tables


def column(table: Table, name: str) -> dict[str, Any]:
    """{row name: cell}"""
    return {row[0].text: row[table.columns.index(name)] for row in table.rows}


def exact(method: str, seed: int = 0, emia: float = 50.0, ra: float = 90.0, **changes: Any) -> dict[str, Any]:
    metrics = {"EMIA": emia, "RA": ra, "TA": 80.0, "UA": 80.0, "CMIA": 40.0}
    return record(method, seed, metrics=metrics, **changes)


def test_the_papers_average_gap_comes_out_of_the_papers_metrics() -> None:
    rows = paper.reference_rows("cifar10", "moco", "resnet18", 0.1)
    made = [record(m, metrics={k: row[k] for k in ("EMIA", "RA", "TA", "UA", "CMIA")}) for m, row in rows.items()]
    cell = column(all_tables(made)[0], "AG")["Alignment Calibration"]
    assert (cell.text, cell.paper, cell.mark) == ("0.92", "0.92", "best")
    assert column(all_tables(made)[0], "AG")["ℓ1-sparsity"].mark == "second"
    emia = column(all_tables(made)[0], "EMIA")["Alignment Calibration"]
    assert (emia.text, emia.gap, emia.paper) == ("50.28", "0.56", "50.28 (0.56)")


def test_gaps_are_taken_within_a_seed_and_then_averaged() -> None:
    made = [exact("retrain", 0, 40), exact("retrain", 1, 60), exact("finetune", 0, 43), exact("finetune", 1, 58)]
    cell = column(all_tables(made)[0], "EMIA")["Fine-tune"]
    # By hand: values 43 and 58, gaps 3 and 2 (between the means it would be 0.5).
    assert cell.text == f"50.50 ± {statistics.stdev([43, 58]):.2f}" == "50.50 ± 10.61"
    assert cell.gap == "2.50 ± 0.71"
    average = column(all_tables(made)[0], "AG")["Fine-tune"]
    assert (average.text, average.gap) == ("0.50 ± 0.14", "of means 0.10")


def test_the_average_without_decisions_stands_beside_the_attacks_auc() -> None:
    def made(method: str, seed: int, auc: float, ra: float = 90.0) -> dict[str, Any]:
        found = exact(method, seed, ra=ra)
        return {**found, "metrics": {**found["metrics"], "unlearn_AUC": auc}}

    retrains = [made("retrain", 0, 0.50), made("retrain", 1, 0.52)]
    others = [made(m, s, auc, 92.0) for m, auc in (("finetune", 0.55), ("neggrad", 0.51)) for s in (0, 1)]
    table = all_tables([*retrains, *others])[1]
    cells = column(table, "AG auc")
    # By hand: AUC 5 and 3 points off, RA 2; and 1, 1 and 2.
    assert [cells[name].text for name in ("Fine-tune", "NegGrad")] == ["1.50 ± 0.35", "0.75 ± 0.00"]
    assert [cells[name].mark for name in ("Fine-tune", "NegGrad")] == ["second", "best"]
    assert cells["Retrain"].text == "–"
    assert "two Retrains with different seeds are 0.50 apart by it" in table.caption


def test_the_order_of_methods_and_settings() -> None:
    made = [record("zebra"), *reversed(records(1)), record("finetune", data="svhn"), record("aardvark")]
    found = all_tables(made)
    names = [row[0].text for row in found[0].rows]
    assert names[:2] == ["Original", "Retrain"]
    assert names[6:] == ["Alignment Calibration", "aardvark", "zebra"]
    assert [t.title.split(": ")[1].split(" ·")[0] for t in found] == ["CIFAR-10"] * 2 + ["SVHN"] * 2


@pytest.mark.parametrize(
    "other",
    [
        *({field: "x"} for field in ("data", "algorithm", "architecture")),
        *({"epochs": 3}, {"forget_fraction": 0.3}, {"stem_relu": False}),
    ],
    ids=lambda other: next(iter(other)),
)
def test_settings_are_never_mixed(other: dict[str, Any]) -> None:
    made = [record("retrain"), record("finetune", **other)]
    results = [t for t in all_tables(made) if t.title.startswith(("How close", "What was measured"))]
    assert [[row[0].text for row in t.rows] for t in results] == [["Retrain"], ["Fine-tune"]]
    assert "AG" not in results[1].columns


def test_without_retrain_the_tables_show_what_was_measured() -> None:
    made = [record(m, metrics={"peak_memory_GB": None}) for m in ("finetune", "neggrad", "pretrain")]
    results, membership = all_tables(made)
    assert results.title.startswith("What was measured: CIFAR-10")
    assert results.columns == ("Method", "FS", "EMIA", "RA", "TA", "UA", "CMIA", "RTE (min)")
    assert membership.columns[-1] == "Attack accuracy"
    cells = [cell for table in (results, membership) for row in table.rows for cell in row]
    assert not [cell for cell in cells if cell.text == "n/a" or cell.gap or cell.mark]
    assert not [cell for cell in cells if "(" in (cell.paper or "")]  # the paper's gaps neither
    assert "In brackets" not in results.caption
    assert "AG" not in results.caption
    assert "AG auc" not in membership.caption
    assert "No Retrain is among these runs" in results.caption


def held_out(method: str, seed: int = 0, emia: float = 50.0, **changes: Any) -> dict[str, Any]:
    """Its attack rejects 60 % of held-out images; their accuracy and CMIA are those of the images to forget."""
    found = exact(method, seed, emia, **changes)
    found["metrics"] |= {"held_out_EMIA": 60.0, "held_out_accuracy": 80.0, "held_out_CMIA": 40.0}
    return found


def test_without_retrain_there_are_gaps_to_held_out_images() -> None:
    made = [held_out("pretrain", emia=40), held_out("finetune", emia=50, ra=85), held_out("neggrad", emia=59)]
    table = all_tables(made)[0]
    # By hand: |50 - 60| and |85 - 90|; |59 - 60|; the original |40 - 60|; over five metrics.
    found = {name: cell.text for name, cell in column(table, "AG held-out").items()}
    assert found == {"Original": "4.00", "Fine-tune": "3.00", "NegGrad": "0.20"}
    assert "AG held-out is the average gap to a stand-in" in table.caption
    with_retrain = all_tables([*made, held_out("retrain")])[0]
    assert with_retrain.title.startswith("How close to Retrain")
    assert "AG held-out" not in with_retrain.columns


def test_what_a_method_does_to_all_images_cancels_against_held_out_ones() -> None:
    """Both Retrains reject 10 % more of the images to forget than of held-out ones, wherever their threshold fell."""
    values = {
        ("retrain", 0): (70, 60.0),
        ("retrain", 1): (40, 30.0),
        ("finetune", 0): (66, 60.0),
        ("finetune", 1): (38, 30.0),
    }
    made = [exact(method, seed, emia) for (method, seed), (emia, _) in values.items()]
    for found, (_, held_out_emia) in zip(made, values.values(), strict=True):
        drift = 0.02 if found["method"] == "retrain" else 0.04
        found["metrics"] |= {"held_out_EMIA": held_out_emia, "FS": 0.05, "held_out_FS": drift}
    table = all_tables(made)[1]
    found = column(table, "EMIA beyond held-out")
    assert found["Retrain"].text == "10.00 ± 0.00"
    assert (found["Fine-tune"].text, found["Fine-tune"].gap) == ("7.00 ± 1.41", "3.00 ± 1.41")
    assert column(table, "FS beyond held-out")["Fine-tune"].gap == "0.0200 ± 0.0000"
    assert "'Beyond held-out' is a value of the images to forget" in table.caption
    for found in made:
        del found["metrics"]["held_out_EMIA"], found["metrics"]["held_out_FS"]
    earlier = all_tables(made)[1]
    assert not [name for name in earlier.columns if "beyond" in name]
    assert "Beyond" not in earlier.caption


def test_gaps_to_held_out_images_take_the_original_on_the_same_request() -> None:
    of_a, of_b = (held_out("pretrain", ra=ra, request_sha256=ask) for ask, ra in (("a", 90), ("b", 70)))
    run = held_out("finetune", emia=60, ra=70, request_sha256="b")
    assert column(all_tables([of_b, of_a, run])[0], "AG held-out")["Fine-tune [n = 1]"].text == "0.00"
    alone = held_out("finetune", request_sha256="c")
    assert column(all_tables([of_a, alone])[0], "AG held-out")["Fine-tune"].text == "n/a"
    assert "AG held-out" not in all_tables([alone])[0].columns


def test_retrain_of_another_seed_is_no_reference() -> None:
    table = all_tables([record("finetune", 0), record("retrain", 1)])[0]
    assert column(table, "AG")["Fine-tune"].text == "n/a"


def test_stored_gaps_serve_where_retrain_is_not_at_hand() -> None:
    stored = {"AG": 1.5, "AG_classifier": 1.25, "AGP": 3.0, "RA_gap": 0.75}
    table = all_tables([record("finetune", gaps=stored)])[0]
    assert column(table, "AG")["Fine-tune"].text == "1.50"
    assert column(table, "RA")["Fine-tune"].gap == "0.75"


def test_of_two_retrains_the_one_evaluated_against_counts() -> None:
    method = exact("finetune", 0, 61, against="b", run="c")
    made = [exact("retrain", 0, 50, run="a"), exact("retrain", 0, 60, run="b"), method, exact("finetune", 1, run="d")]
    assert column(all_tables(made)[0], "EMIA")["Fine-tune"].gap == "1.00"


def test_a_search_gets_a_row_for_each_setting() -> None:
    def tried(rate: float, seed: int) -> dict[str, Any]:
        settings = {"name": "finetune", "epochs": 10, "learning_rate": rate}
        return record("finetune", seed, method_settings=settings, run=f"runs/{seed}/{rate}")

    made = [record("retrain", s) for s in (0, 1)] + [tried(rate, s) for s in (0, 1) for rate in (0.03, 0.003, 0.01)]
    names = [row[0].text for row in all_tables(made)[0].rows]
    assert names[1:] == [f"Fine-tune (learning_rate={r})" for r in ("0.003", "0.01", "0.03")]


def test_settings_tuned_for_each_seed_are_one_row() -> None:
    made = [record("finetune", s, method_settings={"learning_rate": 0.01 * (s + 1)}) for s in (0, 1)]
    assert [row[0].text for row in all_tables(made)[0].rows] == ["Fine-tune"]


def test_a_run_evaluated_twice_counts_once() -> None:
    table = all_tables([record("retrain"), exact("finetune", ra=70.0), exact("finetune", ra=88.0)])[0]
    assert column(table, "RA")["Fine-tune"].text == "88.00"


def test_rows_with_fewer_trials_say_so() -> None:
    table = all_tables([record("retrain", 0), record("retrain", 1), record("finetune", 0)])[0]
    assert [row[0].text for row in table.rows] == ["Retrain", "Fine-tune [n = 1]"]


def test_ranks_leave_out_original_and_retrain() -> None:
    made = [exact("retrain"), exact("pretrain"), exact("finetune", emia=53), exact("neggrad", emia=52), record("zebra")]
    marks = {row[0].text: row[0].mark for row in all_tables(made)[0].rows}
    assert marks == {"Original": "", "Retrain": "", "Fine-tune": "second", "NegGrad": "best", "zebra": ""}


def test_the_noise_floor_by_hand() -> None:
    made = [exact("retrain", s, 50 + 2 * s, 90 + 0.5 * s) for s in range(3)] + [exact("finetune", 1, 55, 91.5)]
    table = next(t for t in all_tables(made) if t.title.startswith("Gaps against chance"))
    emia, ra, ta = (column(table, name) for name in ("EMIA", "RA", "TA"))
    assert (emia["Noise floor (points)"].text, ra["Noise floor (points)"].text) == ("2.00", "0.50")
    assert emia["Fine-tune"].text == "1.5×"  # |55 - 52| / 2
    assert ra["Fine-tune"].text == "2.0×"
    assert emia["Retrain vs Retrain"].text == "1.3×"  # (2 + 2 + 4) / 3 / 2
    assert ta["Fine-tune"].text == "n/a"  # nothing varies there
    assert column(table, "Mean")["Fine-tune"].text == "1.8×"


def test_one_retrain_gives_no_noise_floor() -> None:
    assert not [t for t in all_tables(records(1)) if t.title.startswith("Gaps")]


def test_what_the_paper_did_otherwise_is_said() -> None:
    same, shorter = (all_tables(records(1, **changes))[0].caption for changes in ({}, {"epochs": 200}))
    assert "for this setting" in same
    assert "800 epochs (here 200)" in shorter
    small = all_tables([record("retrain", retain_images=4000, forget_images=500)])[0].caption
    assert "45,000 images (here 4,500)" in small
    assert "paper" not in all_tables(records(1, data="glyphs"))[0].caption.split("of that kind")[0]


def test_what_is_corrected_in_the_paper_is_marked_and_what_it_does_not_print_left_out() -> None:
    table = all_tables(records(1))[0]
    assert column(table, "AG")["Gradient ascent"].paper == "2.57†"
    assert "E04: Grad. Ascent MoCo" in table.caption
    assert "E05" not in table.caption
    assert not any("†" in (c.paper or "") for c in column(table, "AG").values() if c.paper != "2.57†")
    assert all(cell.paper is None for cell in column(table, "AG cls").values())  # table 14 has other settings
    assert column(table, "AGP")["Gradient ascent"].paper == "5.83"
    hundred = all_tables(records(1, data="cifar100"))[0]
    assert column(hundred, "RA")["Gradient ascent"].paper == "62.56 (0.33)†"
    assert column(hundred, "AG")["Gradient ascent"].paper == "4.29†"
    assert all(f"{erratum}: " in hundred.caption for erratum in ("E02", "E05"))
    assert all(cell.paper is None for cell in column(hundred, "AGP").values())
    large = all_tables(records(1, architecture="resnet50"))[0]
    assert "(" not in column(large, "RA")["Fine-tune"].paper  # no gaps are printed there
    assert column(large, "AG")["Fine-tune"].paper == "3.22†"
    nothing = all_tables([record("retrain"), record("finetune")])[0]
    assert "†" not in nothing.caption


def test_ranks_stand_beside_the_papers_and_ties_share_one() -> None:
    emia = {"finetune": 53, "gradient_ascent": 52, "neggrad": 52.001, "alignment_calibration": 55, "zebra": 50.5}
    table = all_tables([exact("retrain"), exact("pretrain"), *(exact(m, emia=e) for m, e in emia.items())])[0]
    found = {name: (cell.text, cell.gap) for name, cell in column(table, "Rank (paper)").items()}
    assert found == {
        "Original": ("–", None),
        "Retrain": ("–", None),
        "zebra": ("1", None),
        "Gradient ascent": ("2", "5"),
        "NegGrad": ("2", "3"),
        "Fine-tune": ("4", "4"),
        "Alignment Calibration": ("5", "1"),
    }
    assert "Rank" in all_tables([exact("retrain", data="x"), exact("finetune", data="x")])[0].columns


def test_another_order_by_means_is_said() -> None:
    made = [exact("retrain", 0), exact("retrain", 1)]
    made += [exact("finetune", 0, 52), exact("finetune", 1, 48), exact("neggrad", 0, 51), exact("neggrad", 1, 51)]
    table = all_tables(made)[0]
    assert [column(table, "Rank (paper)")[m].text for m in ("Fine-tune", "NegGrad")] == ["2", "1"]
    assert "By AG of means the ranks are others: 1 Fine-tune, 2 NegGrad." in table.caption
    same = all_tables([r for r in made if r["method"] != "finetune"])[0]
    assert "are others" not in same.caption


def test_unknown_values_are_not_zero() -> None:
    made = [record("retrain"), record("finetune", metrics={"peak_memory_GB": None, "CMIA": float("nan")})]
    table = all_tables(made)[0]
    assert column(table, "Memory (GB)")["Fine-tune"].text == "n/a"
    assert column(table, "CMIA")["Fine-tune"].text == "n/a"
    assert column(table, "AG")["Fine-tune"].text == "n/a"


def test_a_record_without_its_method_is_refused() -> None:
    broken = record("finetune")
    del broken["method"]
    with pytest.raises(UserError, match="no 'method'"):
        all_tables([broken])
    with pytest.raises(UserError, match="upgrade"):
        all_tables([record("finetune", format_version=99)])


def test_all_rows_are_as_long_as_the_header() -> None:
    for table in all_tables(records(2)):
        assert {len(row) for row in table.rows} == {len(table.columns)}
    assert len(all_tables(records(2))[0].rows) == len(CENTRES)


@pytest.mark.parametrize("name", ["request_sha256", "original_sha256"])
def test_two_requests_or_originals_of_one_seed_are_no_repetitions(name: str) -> None:
    made = [record("finetune", run=f"runs/{value}", **{name: value}) for value in ("a", "b")]
    with pytest.raises(UserError, match=r"runs/a and runs/b have one seed and different .*; report them apart"):
        compare(made)
    made[1]["seed"] = 1
    (comparison,) = compare(made)
    assert comparison.entries[0].seeds == [0, 1]


def test_the_original_of_two_requests_counts_for_each() -> None:
    """Its run is the same, what is known of it is not."""
    made = [
        record("pretrain", request_sha256=request, metrics={"UA": accuracy}, method_settings=None)
        for request, accuracy in (("a", 90.0), ("b", 80.0), ("b", 70.0))
    ]
    (comparison,) = compare(made)
    (original,) = comparison.entries
    assert [r["metrics"]["UA"] for r in original.records] == [90.0, 70.0]


def test_records_are_told_apart_by_their_models_and_not_by_paths() -> None:
    """--forget LIST is one request for all seeds, and relative paths of two working directories can be the same."""
    digests = {"request_sha256": "a", "run": "runs/finetune"}
    made = [record("finetune", seed, model_sha256=str(seed), **digests) for seed in (0, 1)]
    (comparison,) = compare(made)
    assert comparison.entries[0].seeds == [0, 1]
    (comparison,) = compare([*made, {**made[0], "run": "/elsewhere/finetune"}])
    assert len(comparison.entries[0].records) == 2
    for older in made:
        del older["model_sha256"]
    (comparison,) = compare(made)
    assert comparison.entries[0].seeds == [0, 1]


def test_equal_models_of_two_methods_are_two_records() -> None:
    """ℓ1-sparsity with nothing of ℓ1 is fine-tuning."""
    (comparison,) = compare([record(m, model_sha256="m", request_sha256="a") for m in ("finetune", "l1_sparsity")])
    assert [entry.method for entry in comparison.entries] == ["finetune", "l1_sparsity"]


def test_encoders_as_in_the_released_code_are_named_as_such() -> None:
    assert "ResNet-18 without the stem's ReLU" in all_tables([record("finetune", stem_relu=False)])[0].title


def test_a_record_without_settings_stands_beside_others() -> None:
    made = [record("finetune", run=str(i)) for i in range(2)]
    del made[0]["method_settings"]
    (comparison,) = compare(made)
    assert len(comparison.entries) == 2


def marked(*emia: float, retrain: float = 50) -> dict[str, str]:
    methods = ("finetune", "gradient_ascent", "neggrad", "l1_sparsity")
    made = [exact("retrain", emia=retrain), *(exact(m, emia=e) for m, e in zip(methods, emia, strict=False))]
    return {row[0].text: row[0].mark for row in all_tables(made)[0].rows[1:]}


def test_methods_that_look_tied_share_a_mark() -> None:
    assert list(marked(52, 51, 52.001, 53).values()) == ["second", "best", "second", ""]
    assert list(marked(51, 51.001, 52).values()) == ["best", "best", ""]  # nobody is second
    assert list(marked(51, 51, 51.001).values()) == ["", "", ""]
    assert list(marked(51).values()) == ["best"]


def test_ties_by_the_average_without_decisions_share_a_mark() -> None:
    methods = {"retrain": 0.5, "finetune": 0.55, "neggrad": 0.55, "l1_sparsity": 0.56}
    made = [exact(m) for m in methods]
    for found, auc in zip(made, methods.values(), strict=True):
        found["metrics"]["unlearn_AUC"] = auc
    marks = {name: cell.mark for name, cell in column(all_tables(made)[1], "AG auc").items()}
    assert marks == {"Retrain": "", "Fine-tune": "best", "NegGrad": "best", "ℓ1-sparsity": ""}


def test_short_times_have_two_digits_that_say_something() -> None:
    minutes = {"finetune": 0.0112, "gradient_ascent": 0.00034, "neggrad": 0.0996, "l1_sparsity": 0.171, "zebra": 0.0}
    made = [record(m, metrics={"RTE_minutes": t}) for m, t in minutes.items()]
    table = all_tables([record("retrain", metrics={"RTE_minutes": 12.345}), *made])[0]
    found = {name: cell.text for name, cell in column(table, "RTE (min)").items()}
    assert found == {
        "Retrain": "12.35",
        "Fine-tune": "0.011",
        "Gradient ascent": "0.00034",
        "NegGrad": "0.10",
        "ℓ1-sparsity": "0.17",
        "zebra": "0.00",
    }
    two = [record("finetune", seed, metrics={"RTE_minutes": 0.01 + 0.002 * seed}) for seed in range(2)]
    assert column(all_tables(two)[0], "RTE (min)")["Fine-tune"].text == "0.011"
