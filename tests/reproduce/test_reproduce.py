"""Every recipe runs in its smoke form; what is finished is not done again; hyper-parameters are chosen once."""

import json
from pathlib import Path

import pytest

from muc import config, opening
from muc.__main__ import main
from muc.reproduce import RECIPES, find_recipe, white_box
from muc.reproduce.recipe import Options, Step, carry_out
from muc.reproduce.time_memory import tabulate
from muc.reproduce.trial import Trial, encoder_settings

SMOKE = ["--smoke", "--device", "cpu", "--threads", "1"]


def test_a_table_comes_in_all_formats_with_its_records(out: Path) -> None:
    folder = out / "cifar10-10"
    assert {p.name for p in folder.iterdir()} == {
        *("report.html", "tables.md", "tables.tex", "results.json"),
        "recipe.json",  # there was a search
    }
    records = json.loads((folder / "results.json").read_text())
    found = {(r["method"], r["seed"]) for r in records}
    methods = ("pretrain", "retrain", "finetune", "alignment_calibration")
    assert found == {(method, seed) for method in methods for seed in (0, 1)}
    assert "Smoke test" in (folder / "report.html").read_text()


def test_later_seeds_get_what_was_chosen_on_the_first(out: Path) -> None:
    options = Options(out=out, smoke=True)
    first, second = (Trial(encoder_settings("cifar10", "simclr", s, options), 0.1, options) for s in (0, 1))
    for name in ("finetune", "alignment_calibration"):
        assert len(json.loads((first.folder / name / "search.json").read_text())) == 2
        assert not (second.folder / name / "search.json").exists()
        assert opening.method_of(first.chosen(name)) == opening.method_of(second.chosen(name))


def test_what_is_finished_is_not_done_again(out: Path, capsys: pytest.CaptureFixture) -> None:
    before = {p: p.stat().st_mtime_ns for p in (out / "runs").rglob("*.json")}
    flags = ["--out", str(out), "--seeds", "0", "1", "--search", "2", "--algorithms", "simclr"]
    flags += ["--methods", "finetune", "alignment_calibration", *SMOKE]
    assert main(["reproduce", "cifar10-10", *flags, "--dry-run"]) == 0
    plan = capsys.readouterr().err.splitlines()
    assert len(plan) == 11
    assert all(line.split()[0] == "done" for line in plan[:-1])
    assert main(["reproduce", "cifar10-10", *flags]) == 0
    assert {p: p.stat().st_mtime_ns for p in (out / "runs").rglob("*.json")} == before


@pytest.mark.parametrize("name", white_box.RECIPES)
def test_every_white_box_table_runs(name: str, out: Path) -> None:
    assert main(["reproduce", name, "--out", str(out), "--methods", "finetune", *SMOKE]) == 0
    assert (out / name / "report.html").exists()


def test_time_and_memory_stands_beside_the_papers(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    flags = ["--out", str(tmp_path), "--methods", "finetune", "gradient_ascent", *SMOKE]
    assert main(["reproduce", "time-memory", *flags]) == 0
    cells = json.loads((tmp_path / "time-memory" / "results.json").read_text())["cells"]
    assert [cell["method"] for cell in cells] == ["retrain", "finetune", "gradient_ascent"]
    for cell in cells:
        assert cell["time_minutes"] == pytest.approx(cell["seconds_per_epoch"] * cell["epochs"] / 60)
    table = tabulate(cells, "cpu", "moco")
    assert [row[1].paper for row in table.rows][1:] == ["1.03", "0.14"]
    assert "ResNet-18 min" in capsys.readouterr().out
    assert "Smoke test" in (tmp_path / "time-memory" / "tables.md").read_text()


def test_a_dry_run_writes_nothing_and_names_the_cost(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    out = tmp_path / "reproduced"
    assert main(["reproduce", "cifar10-10", "--algorithms", "moco", "--dry-run", "--out", str(out)]) == 0
    plan = capsys.readouterr().err
    assert "8:48  pretrain cifar10-moco-resnet18-800epochs-seed0" in plan
    assert not out.exists()


@pytest.mark.parametrize("name", RECIPES)
def test_every_name_leads_to_its_recipe(name: str) -> None:
    assert find_recipe(name).title


def test_the_list_names_every_recipe(capsys: pytest.CaptureFixture) -> None:
    assert main(["reproduce", "--list"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(RECIPES)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["nope"], "unknown table or figure 'nope'; valid: "),
        ([], "no table or figure was named"),
        (["cifar10-10", "--methods", "magic"], "unknown method 'magic'"),
        (["cifar10-10", "--algorithms", "byol"], "unknown algorithm 'byol'"),
        (["cifar10-10", "--algorithms", "clip", "--dry-run"], "unknown algorithm 'clip'"),
        (["cifar10-10", "--search", "-3", "--dry-run"], "search is -3"),
        (["clip-coco", "--search", "0", "--dry-run"], "search is 0"),
        (["cifar10-10", "--epochs", "0", "--dry-run"], "epochs is 0"),
        (["cifar10-10", "--seeds", "4", "0", "4", "--dry-run"], "--seeds 4 0 4 names a seed twice"),
    ],
)
def test_wrong_input_is_one_sentence(arguments: list[str], complaint: str, capsys: pytest.CaptureFixture) -> None:
    assert main(["reproduce", *arguments]) == 2
    assert complaint in capsys.readouterr().err


def test_a_step_that_leaves_no_result_stops_the_reproduction() -> None:
    with pytest.raises(Exception, match="'nothing' ended without its result"):
        carry_out([Step("nothing", 0.0, lambda: False, lambda: None)])


def test_runs_are_named_by_what_they_are() -> None:
    settings = encoder_settings("cifar100", "moco", 3, Options(epochs=200), "resnet50")
    assert Trial(settings, 0.5, Options()).encoder.path.name == "cifar100-moco-resnet50-200epochs-seed3"
    assert Trial(settings, 0.5, Options(), "2d").folder.name == "cifar100-moco-resnet50-200epochs-seed3-2d-forget50"
    assert settings.optimisation == config.Optimisation(epochs=200)
