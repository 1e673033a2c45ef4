"""Every recipe runs in its smoke form; what is finished is not done again; hyper-parameters are chosen once."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from muc import config, opening
from muc.__main__ import main
from muc.errors import UserError
from muc.reproduce import RECIPES, find_recipe, recipe, white_box
from muc.reproduce.cost import JUDGING_SECONDS, START_SECONDS, epoch_seconds
from muc.reproduce.provenance import where_settings_come_from
from muc.reproduce.recipe import Options, Step, carry_out
from muc.reproduce.time_memory import TimeMemory, tabulate
from muc.reproduce.trial import AC, Trial, encoder_settings
from muc.run_folder import RunFolder
from muc.runtime import Runtime
from muc.storage import write_json

SMOKE = ["--smoke", "--device", "cpu", "--threads", "1"]


def test_a_table_comes_in_all_formats_with_its_records(out: Path) -> None:
    folder = out / "cifar10-10-simclr"
    assert {p.name for p in folder.iterdir()} == {
        *("report.html", "tables.md", "tables.tex", "results.json"),
        "recipe.json",  # there was a search
        "gaps.png",
    }
    records = json.loads((folder / "results.json").read_text())
    found = {(r["method"], r["seed"]) for r in records}
    methods = ("pretrain", "retrain", "finetune", "alignment_calibration")
    assert found == {(method, seed) for method in methods for seed in (0, 1)}
    assert "Smoke test" in (folder / "report.html").read_text()


def test_later_seeds_get_what_was_chosen_on_the_first(out: Path) -> None:
    options = Options(out=out, smoke=True, search=2)
    first, second = Trial.of_seeds([encoder_settings("cifar10", "simclr", s, options) for s in (0, 1)], 0.1, options)
    for name in ("finetune", "alignment_calibration"):
        assert len(json.loads((first.folder / name / "search.json").read_text())) == 2
        assert not (second.folder / name / "search.json").exists()
        assert opening.method_of(first.chosen(name)) == opening.method_of(second.chosen(name))


def test_a_table_says_where_its_settings_come_from(out: Path) -> None:
    text = (out / "cifar10-10-simclr" / "tables.md").read_text()
    drawn = "2 settings of every method, its defaults and others drawn at random, were tried on seed 0 ({}"
    assert drawn.format("ranges that suit the embedded images)") in text
    options = Options(search=2)
    for fraction, beta in ((0.5, "AC's beta for 50 % up to 4, as in its scripts; "), (0.1, "")):
        trials = [Trial(encoder_settings("cifar10", "moco", 0, options), fraction, options)]
        ours = f"the paper's ranges; {beta}learning rates of methods on mixed batches times |R|/|D|"
        assert drawn.format(ours) in where_settings_come_from(options, trials)
    alone = where_settings_come_from(replace(options, seeds=(3,)), trials)
    assert "were tried on seed 3" in alone
    assert "images was taken" in alone
    assert "other seeds" not in alone
    assert "the one with the smallest AG on validation images served all seeds" in text
    assert re.search(r"Without seed 0, AG \(.*\): .*Fine-tune \d", text)
    rows = [line for line in text.splitlines() if line.startswith("| Alignment Calibration | epochs = 1")]
    assert len(rows) == 1
    assert "reading = equations" in rows[0]
    assert "ranges that suit the embedded images" in (out / "cifar10-10-simclr" / "report.html").read_text()


def test_what_is_finished_is_not_done_again(out: Path, capsys: pytest.CaptureFixture) -> None:
    before = {p: p.stat().st_mtime_ns for p in (out / "runs").rglob("*.json")}
    flags = ["--out", str(out), "--seeds", "0", "1", "--search", "2", "--algorithms", "simclr"]
    flags += ["--methods", "finetune", "alignment_calibration", *SMOKE]
    assert main(["reproduce", "cifar10-10", *flags, "--dry-run"]) == 0
    plan = capsys.readouterr().err.splitlines()
    assert len(plan) == 10
    assert all(line.split()[0] == "done" for line in plan)
    assert main(["reproduce", "cifar10-10", *flags]) == 0
    assert {p: p.stat().st_mtime_ns for p in (out / "runs").rglob("*.json")} == before


def test_a_table_of_the_papers_data_stands_beside_the_papers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A smoke test has other data, so that nothing of the paper is in its tables."""
    metrics = dict.fromkeys(("FS", "EMIA", "RA", "TA", "UA", "CMIA", "RTE_minutes"), 50.0)
    same = {"data": "cifar10", "architecture": "resnet18", "epochs": 800, "forget_fraction": 0.1, "seed": 0, "env": {}}
    found = [
        {**same, "run": f"{algorithm}-{method}", "method": method, "algorithm": algorithm, "metrics": metrics}
        for algorithm in ("moco", "simclr")
        for method in ("retrain", "gradient_ascent")
    ]
    monkeypatch.setattr(white_box.WhiteBox, "found", lambda _self, _options: found)
    find_recipe("cifar10-10").write(Options(out=tmp_path), tmp_path)
    text = (tmp_path / "tables.md").read_text()
    assert text.count("↳ paper") == 4
    assert "| 2.57† |" in text
    assert "| Rank (paper) |" in text
    assert "E04: Grad. Ascent MoCo" in text
    assert (tmp_path / "tables.tex").read_text().isascii()
    assert {p.name for p in tmp_path.glob("*.png")} == {"gaps-moco.png", "gaps-simclr.png"}


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


def test_a_method_that_the_paper_did_not_time_stands_alone() -> None:
    cell = {"architecture": "resnet18", "method": "balanced_calibration", "time_minutes": 1.0, "gpu_memory_gb": None}
    (row,) = tabulate([cell], "cpu", "moco").rows
    assert [(c.text, c.paper) for c in row[1:]] == [("1.00", None), ("n/a", None)]


def test_a_damaged_cell_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recipe = find_recipe("time-memory")
    assert isinstance(recipe, TimeMemory)
    flags = ["--methods", "finetune", "--algorithms", "moco"]
    runtime = config.Runtime(device="cpu", threads=1)
    options = Options(smoke=True, methods=("retrain", "finetune"), algorithms=("moco",), runtime=runtime)
    for path in recipe.cells(options, tmp_path / "time-memory-moco").values():
        write_json(path, {})
    assert main(["reproduce", "time-memory", "--out", str(tmp_path), *flags, *SMOKE]) == 2
    assert "is not a cell that was timed; delete it" in capsys.readouterr().err


def test_cells_measured_otherwise_are_not_taken_for_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = find_recipe("time-memory")
    assert isinstance(recipe, TimeMemory)

    def kept(smoke: bool = False, **runtime: Any) -> set[Path]:
        options = Options(smoke=smoke, runtime=config.Runtime(**{"device": "cpu", "threads": 1, **runtime}))
        return {p for (architecture, _), p in recipe.cells(options, tmp_path).items() if architecture == "resnet18"}

    others = [{"smoke": True}, {"precision": "bfloat16"}, {"threads": 2}, {"compile": "off"}]
    assert kept() == kept()
    assert all(not kept() & kept(**other) for other in others)
    monkeypatch.setattr(Runtime, "describe", lambda _self: "another device")
    assert not kept() & {tmp_path / "cells" / "cpu-1-threads-float32-compile-auto" / p.name for p in kept()}


def plan_of(name: str, **options: Any) -> dict[str, float]:
    """{step: what it costs}."""
    steps = find_recipe(name).plan(Options(**options), Path("nowhere"))
    assert len({s.name for s in steps}) == len(steps)
    return {s.name: s.seconds for s in steps}


def test_costs_are_those_of_the_images_passed_over() -> None:
    cifar, svhn = plan_of("cifar10-10", algorithms=("moco",)), plan_of("svhn")
    encoders = [next(s for n, s in plan.items() if n.startswith("pretrain")) for plan in (cifar, svhn)]
    assert encoders[1] / encoders[0] == pytest.approx(65_931 / 45_000)
    served = {n.split()[0]: s - START_SECONDS for n, s in cifar.items()}
    assert served["gradient_ascent"] / 5 == pytest.approx(0.1 * served["alignment_calibration"] / 10)
    assert served["retrain"] == pytest.approx(0.9 * encoders[0])


def test_costs_are_those_of_what_is_left(tmp_path: Path) -> None:
    options = Options(out=tmp_path, search=4)
    trial = Trial(encoder_settings("cifar10", "moco", 0, options), 0.1, options)
    whole = {label: trial.serve(label).seconds for label in ("retrain", "finetune")}
    write_metrics(trial.encoder.path, 200)
    write_metrics(trial.folder / "retrain", 600)
    for done in ("finetune", "finetune-trial2"):
        write_json(trial.folder / done / "result.json", {})
    assert trial.pretrain().seconds == pytest.approx(600 * epoch_seconds(trial.settings))
    assert trial.serve("retrain").seconds == pytest.approx(whole["retrain"] / 4)
    judged = 4 * JUDGING_SECONDS
    assert trial.serve("finetune").seconds - judged == pytest.approx((whole["finetune"] - judged) / 2)


def write_metrics(run: Path, epochs: int) -> None:
    run.mkdir(parents=True)
    (run / "metrics.jsonl").write_text("".join(f'{{"epoch": {epoch}}}\n' for epoch in range(epochs)))


def test_an_encoder_that_serves_two_requests_is_planned_once() -> None:
    for name in ("ablation", "fs", "classifier-gaps"):
        plan = plan_of(name, algorithms=("moco",), methods=("retrain", "finetune"))
        assert sum(step.startswith("pretrain") for step in plan) == 1


def test_a_smoke_test_has_a_folder_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["reproduce", "fs", "--methods", "finetune", "--algorithms", "simclr", *SMOKE]) == 0
    assert "reproduced/smoke/fs-simclr/report.html" in capsys.readouterr().err
    assert [p.name for p in (tmp_path / "reproduced").iterdir()] == ["smoke"]


def test_a_smoke_test_names_no_cost(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    assert main(["reproduce", "ablation", "--out", str(tmp_path), *SMOKE, "--dry-run"]) == 0
    plan = capsys.readouterr().err
    assert "to do  pretrain" in plan
    assert "H200" not in plan
    assert ":" not in plan


def test_an_absent_gpu_is_said_before_anything_is_done(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    flags = ["--out", str(tmp_path), "--smoke", "--device", "cuda:99"]
    assert main(["reproduce", "cifar10-10", *flags]) == 2
    said = capsys.readouterr().err
    assert "'cuda:99' was asked for" in said
    assert "pretrain" not in said


def test_the_released_codes_reading_has_encoders_and_runs_of_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    flags = ["--out", str(tmp_path), "--algorithms", "moco", "--seeds", "0", "--reading", "compat"]
    methods = ["--methods", "neggrad", "alignment_calibration"]
    assert main(["reproduce", "cifar10-50", *flags, *methods, *SMOKE]) == 0
    encoder = RunFolder(tmp_path / "runs" / "glyphs-moco-mlp-3epochs-seed0-compat")
    assert not opening.pretraining_of(encoder).model.stem_relu
    run = RunFolder(encoder.path.with_name(f"{encoder.path.name}-forget50") / "alignment_calibration")
    assert vars(opening.method_of(run))["reading"] == "compat"
    text = (tmp_path / "cifar10-50-moco-compat" / "tables.md").read_text()
    assert "encoders and AC as in the released code" in text
    assert "have no ReLU after the first convolution" in text
    capsys.readouterr()
    assert main(["reproduce", "cifar10-50", *flags, "--dry-run"]) == 0
    assert "pretrain cifar10-moco-resnet18-800epochs-seed0-compat" in capsys.readouterr().err
    recipe = str(Path(__file__).parents[2] / "recipes" / "cifar10-10-moco-200epochs.json")
    assert main(["reproduce", "cifar10-10", *flags, "--recipe", recipe]) == 2
    assert "--recipe says for which reading its settings were chosen" in capsys.readouterr().err


def test_settings_that_were_chosen_for_the_released_codes_encoders_serve_such_encoders(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    flags = ["--algorithms", "moco", "--seeds", "0", "--methods", AC, *SMOKE]
    searched = ["cifar10-10", *flags, "--reading", "compat", "--search", "2", "--out", str(tmp_path / "searched")]
    assert main(["reproduce", *searched]) == 0
    recipe = ["--recipe", str(tmp_path / "searched" / "cifar10-10-moco-compat" / "recipe.json")]
    assert main(["reproduce", "cifar10-10", *flags, *recipe, "--out", str(tmp_path / "given")]) == 0
    (encoder,) = (tmp_path / "given" / "runs").glob("*-compat")
    assert not opening.pretraining_of(RunFolder(encoder)).model.stem_relu
    text = (tmp_path / "given" / "cifar10-10-moco-compat" / "tables.md").read_text()
    assert "as in the paper's released code" in text
    capsys.readouterr()
    assert main(["reproduce", "ablation", *SMOKE, *recipe, "--out", str(tmp_path / "refused")]) == 2
    assert "--recipe holds settings for --reading compat, in which ablation is not made" in capsys.readouterr().err
    both = [*recipe, str(Path(__file__).parents[2] / "recipes" / "cifar10-10-moco-200epochs.json")]
    assert main(["reproduce", "cifar10-10", *flags, *both, "--out", str(tmp_path / "refused")]) == 2
    assert "--recipe has settings of both readings" in capsys.readouterr().err
    assert not (tmp_path / "refused").exists()


def test_data_that_are_not_there_are_missed_before_anything_is_trained(
    tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MUC_DATA", str(tmp_path / "data"))
    opened: list[str] = []

    def load(data: config.Data) -> None:
        opened.append(data.name)
        if data.name == "svhn":
            raise UserError("could not get svhn")

    monkeypatch.setattr(recipe, "load_images", load)
    flags = ["--algorithms", "moco", "--seeds", "0", "--device", "cpu", "--out", str(tmp_path / "out")]
    assert main(["reproduce", "cifar10-10", "svhn", *flags]) == 2
    assert "could not get svhn" in capsys.readouterr().err
    assert opened == ["cifar10", "svhn"]
    assert not (tmp_path / "out").exists()


UNREAD = {
    "t-tests": ("seeds", "methods", "search"),
    "time-memory": ("seeds", "epochs", "search", "recipe"),
    "uniformity": ("algorithms", "methods", "search"),
    "ablation": ("methods",),
    "alpha-beta": ("methods", "search", "reading"),
    "clip-coco": ("algorithms",),
    "clip-heatmaps": ("algorithms",),
}
VALUES = {"seeds": "1", "epochs": "9", "methods": "neggrad", "algorithms": "moco", "search": "2", "reading": "compat"}


@pytest.mark.parametrize(("name", "option"), [(name, o) for name, options in UNREAD.items() for o in options])
def test_an_option_that_is_not_read_is_refused(
    name: str, option: str, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    write_json(tmp_path / "r.json", {"format_version": 1, "choices": []})
    given = VALUES.get(option, str(tmp_path / "r.json"))
    assert main(["reproduce", name, f"--{option}", given, "--dry-run", "--out", str(tmp_path)]) == 2
    assert f"{name} does not read --{option}" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["t-tests", "time-memory", "ablation", "alpha-beta"])
def test_one_algorithm_at_a_time(name: str, capsys: pytest.CaptureFixture) -> None:
    assert main(["reproduce", name, "--algorithms", "moco", "simclr", "--dry-run"]) == 2
    assert "one algorithm at a time" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["ablation", "alpha-beta", "t-tests"])
def test_sweeps_take_the_encoders_and_values_they_are_given(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    """The committed recipe is for 10 % to forget: an ablation leaves the other share out."""
    recipe = Path(__file__).parents[2] / "recipes" / "cifar10-10-moco-200epochs.json"
    flags = ["--algorithms", "moco", "--epochs", "200", "--recipe", str(recipe), "--out", str(tmp_path), "--dry-run"]
    assert main(["reproduce", name, *flags]) == 0
    plan = capsys.readouterr().err
    encoders = ("cifar10-moco-resnet18-200epochs-seed11", "cifar10-moco-resnet18-200epochs-seed10")
    for encoder in encoders if name == "t-tests" else ("cifar10-moco-resnet18-200epochs-seed0",):
        assert f"pretrain {encoder}\n" in plan
    assert "forget10" in plan
    assert "forget50" not in plan


def test_a_dry_run_writes_nothing_and_names_the_cost(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    out = tmp_path / "reproduced"
    assert main(["reproduce", "cifar10-10", "--algorithms", "moco", "--dry-run", "--out", str(out)]) == 0
    plan = capsys.readouterr().err
    assert "9:20  pretrain cifar10-moco-resnet18-800epochs-seed0" in plan
    assert not out.exists()


def test_several_are_made_in_one_go(out: Path, capsys: pytest.CaptureFixture) -> None:
    """Each as it would be alone: what one of them does not read is not taken for it."""
    names = ["emia-threshold", "t-tests", "emia-threshold"]
    flags = ["--out", str(out), "--algorithms", "simclr", "--seeds", "1", "--search", "2", "--epochs", "2", *SMOKE]
    assert main(["reproduce", *names, *flags]) == 0
    said = capsys.readouterr().err
    assert said.count("emia-threshold: EMIA and its threshold") == 1
    assert "note: t-tests does not read --seeds" in said
    assert "note: t-tests does not read --search" in said
    for name in names:
        assert f"the report: {out / f'{name}-simclr' / 'report.html'}" in said
    assert "alignment_calibration ×2 for glyphs-simclr-mlp-2epochs-seed1-forget10" in said
    assert "alignment_calibration-beta8 ×1 for glyphs-simclr-mlp-2epochs-seed11-forget10" in said
    assert main(["reproduce", *names, *flags, "--dry-run"]) == 0
    assert {line.split()[0] for line in capsys.readouterr().err.splitlines()} == {"note:", "done"}


def test_a_plan_can_be_made_for_a_device_that_is_elsewhere(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    flags = ["time-memory", "--device", "cuda:99", "--out", str(tmp_path)]
    assert main(["reproduce", *flags, "--dry-run"]) == 0
    assert "time retrain of moco, resnet152" in capsys.readouterr().err
    assert main(["reproduce", *flags]) == 2
    assert "'cuda:99' was asked for" in capsys.readouterr().err


def test_the_cost_of_everything_counts_each_step_once(capsys: pytest.CaptureFixture) -> None:
    assert main(["reproduce", "all", "--dry-run"]) == 0
    *plan, whole = capsys.readouterr().err.splitlines()
    assert len(set(plan)) == len(plan)
    steps = [line.split(maxsplit=1)[1] for line in plan if " evaluate " not in line]  # other models of a request
    assert len(set(steps)) == len(steps)
    assert all(any(step.startswith(f"pretrain {data}-") for step in steps) for data in ("cifar100", "svhn", "coco64"))
    seconds = [sum(60**i * int(part) for i, part in enumerate(reversed(line.split()[0].split(":")))) for line in plan]
    told = sum(60**i * int(part) for i, part in enumerate(reversed(whole.split()[0].split(":"))))
    assert told == pytest.approx(sum(seconds), abs=len(plan))


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
        (["all", "nope"], "unknown table or figure 'nope'; valid: "),
        (["all", "--algorithms", "moco", "simclr"], "ablation is made for one algorithm at a time"),
        (["alpha-beta", "t-tests", "--methods", "finetune"], "alpha-beta and t-tests do not read --methods"),
        ([], "no table or figure was named"),
        (["cifar10-10", "--methods", "magic"], "unknown method 'magic'"),
        (["cifar10-10", "--algorithms", "byol"], "unknown algorithm 'byol'"),
        (["cifar10-10", "--algorithms", "clip", "--dry-run"], "unknown algorithm 'clip'"),
        (["cifar10-10", "--search", "-3", "--dry-run"], "search is -3"),
        (["clip-coco", "--search", "0", "--dry-run"], "search is 0"),
        (["cifar10-10", "--epochs", "0", "--dry-run"], "epochs is 0"),
        (["cifar10-10", "--seeds", "4", "0", "4", "--dry-run"], "--seeds 4 0 4 names a seed twice"),
        (["cifar10-10", "--criterion", "AUC", "--search", "2"], "AUC"),
        (["cifar10-10", "--criterion", "AG_auc"], "chooses among trials, and there are none; add --search 4"),
        (["alpha-beta", "--criterion", "AG_auc"], "alpha-beta does not read --criterion"),
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
