"""Tables from records: their numbers from hand-made ones, their runs in the smoke form, and the re-selection."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import pytest

from muc import config, opening, search
from muc.__main__ import main
from muc.errors import UserError
from muc.evaluation.gaps import METRICS
from muc.methods import FineTune
from muc.report.cells import Table
from muc.report.group import compare as group
from muc.reproduce import find_recipe
from muc.reproduce.choices import Choice
from muc.reproduce.classifier_gaps import Reselected
from muc.reproduce.from_records import Found, FromRecords, errata
from muc.reproduce.provenance import without_searched_seed
from muc.reproduce.recipe import Options, carry_out
from muc.reproduce.scores import Score
from muc.reproduce.trial import Trial, encoder_settings
from muc.run_folder import RunFolder
from muc.storage import write_json

SMOKE = ["--smoke", "--device", "cpu", "--threads", "1"]
CPU = config.Runtime(device="cpu", threads=1)
VALUES = {  # FS, EMIA, RA, TA, UA, CMIA of two seeds
    "pretrain": [(0, 40, 90, 88, 90, 28), (0, 42, 91, 88, 89, 30)],
    "retrain": [(0.03, 50, 89, 87, 88, 34), (0.02, 46, 90, 88, 89, 36)],
    "finetune": [(0.05, 52, 88, 86, 87, 30), (0.01, 40, 89, 87, 88, 31)],
    "alignment_calibration": [(0.031, 49, 89, 87, 88, 33), (0.025, 46, 90, 87, 88, 35)],
}
NAMES = ("FS", *METRICS)


def record(method: str, seed: int) -> dict[str, Any]:
    return {
        "run": f"{method}-{seed}",
        "method": method,
        "seed": seed,
        "data": "cifar10",
        "algorithm": "moco",
        "architecture": "resnet18",
        "epochs": 800,
        "forget_fraction": 0.1,
        "metrics": dict(zip(NAMES, VALUES[method][seed], strict=True)),
        "gaps": None,
        "env": {},
    }


def made(name: str) -> tuple[Table, dict[str, tuple[Any, ...]]]:
    """A recipe's first table of the records above, and its rows by name."""
    records = [record(method, seed) for method in VALUES for seed in (0, 1)]
    recipe = find_recipe(name)
    assert isinstance(recipe, FromRecords)
    table = recipe.tables([Found("cifar10", "moco", 0.1, group(records)[0])])[0]
    return table, {row[0].text: row for row in table.rows}


def by_seed(method: str, *names: str) -> list[float]:
    """The mean over `names` of |value - Retrain's|, for each seed."""
    places = [NAMES.index(name) for name in names]
    return [
        fmean(abs(mine[i] - exact[i]) for i in places)
        for mine, exact in zip(VALUES[method], VALUES["retrain"], strict=True)
    ]


def test_what_is_said_without_the_searched_seed_is_the_gap_that_was_searched_by() -> None:
    same = dict.fromkeys(METRICS, 80.0)
    values = (("retrain", 50.0, 0.50), ("finetune", 51.0, 0.58), ("neggrad", 60.0, 0.52))
    records = [
        {**record("retrain", 0), "method": method, "seed": seed, "run": f"{method}{seed}"}
        | {"metrics": {**same, "EMIA": emia, "unlearn_AUC": auc}}
        for seed in (0, 1)
        for method, emia, auc in values
    ]

    def said(*seeds: int, **asked: Any) -> str:
        options = Options(seeds=seeds, **asked)
        trials = [Trial(encoder_settings("cifar10", "moco", seed, options), 0.1, options) for seed in seeds]
        return " ".join(without_searched_seed(records, options, trials))

    by_auc = said(0, 1, search=2, criterion="AG_auc")
    assert by_auc.startswith("Without seed 0, AG auc (")
    assert by_auc.endswith("NegGrad 0.50, Fine-tune 2.00.")
    assert said(0, 1, search=2).endswith("Fine-tune 0.20, NegGrad 2.00.")
    assert not said(0, 1)
    given = Choice("cifar10", "moco", "resnet18", 0.1, FineTune(), seed=0)  # chosen elsewhere, on one of these seeds
    assert said(0, 1, chosen=(given,)) == said(0, 1, search=2)
    assert said(0, 1, chosen=(replace(given, criterion="AG_auc"),)) == by_auc
    assert not said(1, 2, chosen=(given,))
    for other in ({"forget_fraction": 0.5}, {"data": "cifar100"}, {"algorithm": "simclr"}, {"epochs": 200}):
        assert not said(0, 1, chosen=(replace(given, **other),))


def test_forgetting_scores_and_their_gaps() -> None:
    _, rows = made("fs")
    assert list(rows) == ["Retrain", "Fine-tune", "Alignment Calibration"]
    score, gap, rank = rows["Fine-tune"][1:]
    assert score.text == f"{0.03:.4f} ± {stdev([0.05, 0.01]):.4f}"
    assert gap.text == f"{fmean([0.02, 0.01]):.4f} ± {stdev([0.02, 0.01]):.4f}"
    assert gap.gap == "of means 0.0050"  # |0.03 - 0.025|
    assert (score.paper, gap.paper) == ("0.0393", "0.0127")
    assert (rank.text, rank.paper) == ("2", "4")  # of the paper's five; gradient ascent is further off
    assert [(cell.text, cell.mark) for cell in rows["Alignment Calibration"][2:]][1] == ("1", "")
    assert rows["Alignment Calibration"][2].mark == "best"
    assert gap.mark == "second"
    assert (rows["Retrain"][1].paper, rows["Retrain"][2].text) == ("0.0266", "–")


def test_average_gap_percentage() -> None:
    _, rows = made("agp")
    per_seed = [
        100 * fmean(abs(m - e) / e for m, e in zip(mine[1:], exact[1:], strict=True))
        for mine, exact in zip(VALUES["finetune"], VALUES["retrain"], strict=True)
    ]
    cell = rows["Fine-tune"][1]
    assert cell.text == f"{fmean(per_seed):.2f} ± {stdev(per_seed):.2f}"
    mine, exact = ([fmean(pair) for pair in zip(*VALUES[m], strict=True)] for m in ("finetune", "retrain"))
    assert cell.gap == f"of means {100 * fmean(abs(m - e) / e for m, e in zip(mine[1:], exact[1:], strict=True)):.2f}"
    assert cell.paper == "3.81"
    assert (rows["Fine-tune"][2].text, rows["Fine-tune"][2].paper) == ("2", "3")
    assert [cell.text for cell in rows["Original"][2:]] == ["–"]
    assert "Retrain" not in rows


def test_scores_that_look_equal_share_a_rank() -> None:
    score = Score(lambda mine, exact: mine["FS"] - exact["FS"], 2, lambda _: {})
    given = {
        "finetune": 1.004,
        "neggrad": 1.001,
        "retrain": 0.0,
        "pretrain": 0.5,
        "gradient_ascent": None,
        "other": 2.0,
    }
    assert score.ranked(given) == {"finetune": 1, "neggrad": 1, "other": 3}


def test_deviations_stand_beside_the_papers() -> None:
    table, rows = made("sd")
    assert table.columns == ("Method", *METRICS)
    assert rows["Retrain"][1].text == f"48.00 ± {stdev([50, 46]):.2f}"
    assert rows["Retrain"][1].paper == "49.72 ± 5.58"
    assert rows["Original"][1].paper is None


def test_classifier_gaps_leave_emia_out() -> None:
    _, rows = made("classifier-gaps")
    gap, rank, deviation = rows["Alignment Calibration"][1:]
    assert (rank.text, rank.paper) == ("1", "1")
    values = by_seed("alignment_calibration", "RA", "TA", "UA", "CMIA")
    assert gap.text == f"{fmean(values):.2f} ± {stdev(values):.2f}"
    columns = list(zip(*VALUES["alignment_calibration"], strict=True))[2:]
    assert deviation.text == f"{fmean(stdev(column) for column in columns):.2f}"
    assert (gap.paper, deviation.paper) == ("0.91", "0.46")


def test_captions_say_what_chance_makes_of_a_score() -> None:
    first, second = VALUES["retrain"]
    for name, apart in (
        ("fs", f"{abs(first[0] - second[0]):.4f}"),
        ("classifier-gaps", f"{fmean(abs(a - b) for a, b in zip(first[2:], second[2:], strict=True)):.2f}"),
    ):
        assert (
            f"Two Retrains of different seeds are {apart} (MoCo 10\N{NO-BREAK SPACE}%) apart" in made(name)[0].caption
        )
        recipe = find_recipe(name)
        assert isinstance(recipe, FromRecords)
        alone = [Found("cifar10", "moco", 0.1, group([record(method, 0) for method in VALUES])[0])]
        assert "over seeds, as the paper has it" not in recipe.tables(alone)[0].caption


def test_a_method_that_one_setting_lacks_leaves_its_cells_empty() -> None:
    records = [record(method, seed) for method in VALUES for seed in (0, 1)]
    fewer = [{**r, "forget_fraction": 0.5} for r in records if r["method"] != "finetune"]
    found = [Found("cifar10", "moco", share, group(own)[0]) for share, own in ((0.5, fewer), (0.1, records))]
    recipe = find_recipe("fs")
    assert isinstance(recipe, FromRecords)
    (table,) = recipe.tables(found)
    assert {len(row) for row in table.rows} == {len(table.columns)}
    (row,) = [row for row in table.rows if row[0].text == "Fine-tune"]
    assert [cell.text for cell in row[1:4]] == ["", "", ""]
    assert row[4].text.startswith("0.03")


def test_what_is_wrong_in_the_papers_table_is_said_once() -> None:
    records = [record(method, seed) for method in VALUES for seed in (0, 1)]
    found = [Found("cifar100", "moco", share, group(records)[0]) for share in (0.1, 0.5)]
    recipe = find_recipe("sd-cifar100")
    assert isinstance(recipe, FromRecords)
    said = [*recipe.paragraphs(found), *(table.caption for table in recipe.tables(found))]
    assert " ".join(said).count("E11: ") == 1


def test_errata_are_those_of_the_data() -> None:
    assert "E11" in errata("standard_deviation", "cifar100")
    assert errata("standard_deviation", "cifar10") == ""


@pytest.mark.parametrize("name", ["fs", "agp", "sd", "sd-cifar100", "classifier-gaps", "classifier-gaps-cifar100"])
def test_recipes_from_records_run(name: str, out: Path) -> None:
    flags = ["--algorithms", "simclr", "--methods", "finetune", "--seeds", "0"]
    assert main(["reproduce", name, "--out", str(out), *flags, *SMOKE]) == 0
    assert {p.name for p in (out / f"{name}-simclr").iterdir()} == {
        "report.html",
        "tables.md",
        "tables.tex",
        "results.json",
    }
    records = json.loads((out / f"{name}-simclr" / "results.json").read_text())
    assert {(r["method"], r["forget_fraction"]) for r in records} == {
        (method, share) for method in ("pretrain", "retrain", "finetune") for share in (6 / 60, 30 / 60)
    }


def served(out: Path, search: int = 2) -> tuple[Reselected, Reselected]:
    options = Options(out, (0, 1), methods=("retrain", "finetune"), search=search, smoke=True, runtime=CPU)
    settings = [encoder_settings("cifar10", "simclr", seed, options) for seed in (0, 1)]
    first, second = Reselected.of_seeds(settings, 0.1, options)
    return first, second


@pytest.fixture
def own(out: Path, tmp_path: Path) -> Path:
    """A copy of the runs, to change."""
    return Path(shutil.copytree(out, tmp_path / "reproduced"))


def test_settings_are_selected_again_by_the_classifier_gap(own: Path) -> None:
    first, second = served(own)
    labels = ["finetune", "finetune-trial1"]
    found = [
        {"run": str(first.folder / label), "AG": ag, "AG_classifier": cls}
        for label, ag, cls in zip(labels, (1.0, 2.0), (2.0, 1.0), strict=True)
    ]
    write_json(first.folder / "finetune" / "search.json", found)
    usual = Trial(first.settings, 0.1, first.options)
    assert (usual.chosen("finetune").path.name, first.chosen("finetune").path.name) == tuple(labels)
    kept = opening.method_of(RunFolder(second.folder / "finetune"))

    carry_out([*first.steps(), *second.steps()])
    assert opening.method_of(second.chosen("finetune")) == opening.method_of(first.chosen("finetune"))
    assert opening.method_of(RunFolder(second.folder / "finetune")) == kept
    for trial in (first, second):
        settings = [r["method_settings"] for r in trial.records(["finetune"]) if r["method"] == "finetune"]
        assert settings == [trial.chosen("finetune").config()["method"]]


def test_settings_can_be_selected_by_another_criterion(own: Path) -> None:
    first, _ = served(own)
    found = [
        {"run": str(first.folder / label), "AG": ag, "AG_classifier": 1.0, "AG_auc": auc}
        for label, ag, auc in (("finetune", 1.0, 2.0), ("finetune-trial1", 2.0, 1.0))
    ]
    write_json(first.folder / "finetune" / "search.json", found)
    asked = ["reproduce", "cifar10-10", "--out", str(own), "--algorithms", "simclr", "--methods", "finetune"]
    asked += ["--search", "2", "--smoke", "--device", "cpu", "--threads", "1"]
    assert main(asked) == 0
    assert main([*asked, "--criterion", "AG_auc"]) == 0
    usual, calm = own / "cifar10-10-simclr", own / "cifar10-10-simclr-by-AG_auc"
    chosen = [json.loads((folder / "recipe.json").read_text())["choices"][0] for folder in (usual, calm)]
    for choice, trial in zip(chosen, (0, 1), strict=True):
        assert choice["method"] == choice["trials"][trial]["method"]
    assert [trial["validation_AG_auc"] for trial in chosen[1]["trials"]] == [2.0, 1.0]
    assert (calm / "tables.md").read_text().startswith("# Smoke test")
    assert "settings chosen by AG auc" in (calm / "tables.md").read_text()
    again = [*asked[: asked.index("--search")], *asked[asked.index("--search") + 2 :], "--dry-run"]
    assert main([*again, "--recipe", str(calm / "recipe.json")]) == 0


@pytest.mark.parametrize("name", ["classifier-gaps", "heatmaps"])
def test_a_search_is_written_down_beside_whatever_was_made_by_it(name: str, own: Path) -> None:
    asked = ["reproduce", name, "--out", str(own), "--algorithms", "simclr", "--methods", "finetune", "--search", "2"]
    assert main([*asked, *SMOKE]) == 0
    choices = json.loads((own / f"{name}-simclr" / "recipe.json").read_text())["choices"]
    assert {choice["criterion"] for choice in choices} == {"AG_classifier" if name == "classifier-gaps" else "AG"}
    assert all(len(choice["trials"]) == 2 for choice in choices)
    if name == "classifier-gaps":
        for c in choices:
            best = min(c["trials"], key=lambda trial: trial["validation_AG_classifier"])
            assert c["method"] == best["method"]
        assert "2 settings of every method" in (own / f"{name}-simclr" / "tables.md").read_text()


def test_nothing_is_made_again_where_both_criteria_agree(own: Path) -> None:
    first, second = served(own)
    found = [
        {"run": str(first.folder / label), "AG": gap, "AG_classifier": gap}
        for label, gap in (("finetune", 2.0), ("finetune-trial1", 1.0))
    ]
    write_json(first.folder / "finetune" / "search.json", found)
    usual = Trial.of_seeds([first.settings, second.settings], 0.1, first.options)
    assert first.chosen("finetune").path.name == "finetune-trial1"
    assert [t.chosen("finetune").path for t in (first, second)] == [t.chosen("finetune").path for t in usual]


def test_a_search_that_kept_no_classifier_gap_is_refused(own: Path) -> None:
    first, _ = served(own)
    write_json(first.folder / "finetune" / "search.json", 2 * [{"run": "finetune", "AG": 1.0}])
    with pytest.raises(UserError, match=r"does not hold the trials' AG_classifier; delete its search\.json"):
        first.chosen("finetune")


def test_a_search_judges_retrain_once_for_all_methods(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, _ = served(own)
    judged: list[str] = []

    def judge(run: RunFolder, *_: Any, **__: Any) -> dict[str, float]:
        judged.append(run.path.name)
        return dict.fromkeys(METRICS, float(len(judged)))

    monkeypatch.setattr(search, "judge", judge)
    monkeypatch.setattr(search, "_judged", {})
    for name in ("finetune", "alignment_calibration"):
        trials = [RunFolder(first.folder / label) for label in (name, f"{name}-trial1")]
        search.pick(trials, first.retrain, first.encoder, CPU)
    assert judged.count("retrain") == 1
    assert len(judged) == 5
    kept = json.loads((first.folder / "alignment_calibration" / "search.json").read_text())
    assert [trial["AG_classifier"] for trial in kept] == [3, 4]  # judged as fourth and fifth, Retrain as first
    (first.retrain.path / "result.json").write_text(
        json.dumps({**first.retrain.result(), "model_sha256": "another model"})
    )
    search.pick(trials, first.retrain, first.encoder, CPU)
    assert judged.count("retrain") == 2


def test_the_noise_floor_is_of_retrains_of_one_request(out: Path, capsys: pytest.CaptureFixture) -> None:
    flags = ["--out", str(out), "--algorithms", "simclr", "--seeds", "0", "1", "--smoke", "--device", "cpu"]
    assert main(["reproduce", "noise-floor", *flags, "--threads", "1"]) == 0
    found = json.loads((out / "noise-floor-simclr" / "results.json").read_text())
    models = [record["model_sha256"] for trial in found for record in trial["records"]]
    assert len(set(models)) == len(models) == 2 * 3
    requests = [{record["request_sha256"] for record in trial["records"]} for trial in found]
    assert [len(own) for own in requests] == [1, 1]
    assert requests[0] != requests[1]
    assert {record["method"] for trial in found for record in trial["records"]} == {"retrain"}
    # By hand: the mean over the three pairs of each request.
    values = [[record["metrics"]["UA"] for record in trial["records"]] for trial in found]
    apart = [abs(a - b) for a, b, c in values for a, b in ((a, b), (a, c), (b, c))]
    text = (out / "noise-floor-simclr" / "tables.md").read_text()
    (row,) = [line for line in text.splitlines() if line.startswith("| UA |")]
    assert f"| {fmean(apart):.2f} ± {stdev(apart):.2f} |" in row
    capsys.readouterr()
    assert main(["reproduce", "noise-floor", *flags, "--dry-run"]) == 0
    assert all(line.split()[0] == "done" for line in capsys.readouterr().err.splitlines())
