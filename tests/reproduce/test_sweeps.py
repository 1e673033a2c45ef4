"""Sweeps, the image-text table and chosen settings: every recipe in its smoke form, and the numbers they show."""

import json
import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from muc import config, opening
from muc.__main__ import main
from muc.errors import UserError
from muc.evaluation.gaps import METRICS
from muc.methods import AlignmentCalibration, FineTune
from muc.recipes import recipe
from muc.report import render
from muc.report.group import compare
from muc.report.pair_tables import pair_results_table
from muc.reproduce import ablation, alpha_beta, clip_coco, uniformity
from muc.reproduce.choices import Choice, given_method, read_choices
from muc.reproduce.recipe import Options
from muc.reproduce.trial import Trial, encoder_settings
from muc.run_folder import RunFolder
from muc.storage import write_json

SMOKE = ["--smoke", "--device", "cpu", "--threads", "1"]
AC = "alignment_calibration"


@pytest.fixture(scope="module", autouse=True)
def small_grids() -> Iterator[None]:
    """Fewer points of the same kind: what is tested does not depend on how many there are."""
    with pytest.MonkeyPatch.context() as patch:
        by_alpha = {"0": alpha_beta.Point(0.0, 8.0), "1": alpha_beta.Point(1.0, 8.0)}
        by_beta = {"8": alpha_beta.Point(1.0, 8.0), "16": alpha_beta.Point(1.0, 16.0)}
        patch.setattr(alpha_beta, "BY_ALPHA", by_alpha)
        patch.setattr(alpha_beta, "BY_BETA", by_beta)
        patch.setattr(alpha_beta, "POINTS", tuple(dict.fromkeys((*by_alpha.values(), *by_beta.values()))))
        patch.setattr(uniformity, "BETAS", (0.0, 10.0))
        kept = (AC, f"{AC}-alpha0", f"{AC}-alpha0-beta0-gamma0")
        patch.setattr(ablation, "CHANGES", {label: ablation.CHANGES[label] for label in kept})
        yield


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sweeps")


@pytest.fixture(scope="module")
def ablated(out: Path) -> Path:
    """With a search of two settings."""
    assert main(["reproduce", "ablation", "--out", str(out), "--search", "2", *SMOKE]) == 0
    return out / "ablation"


@pytest.fixture(scope="module")
def swept(out: Path, ablated: Path) -> Path:
    assert main(["reproduce", "alpha-beta", "--out", str(out), *SMOKE]) == 0
    return out / "alpha-beta"


@pytest.fixture(scope="module")
def paired(out: Path) -> Path:
    """The recipe's own search, on one seed."""
    assert main(["reproduce", "clip-coco", "--out", str(out), "--methods", "finetune", AC, *SMOKE]) == 0
    return out / "clip-coco"


def results(folder: Path) -> Any:
    return json.loads((folder / "results.json").read_text())


def test_an_ablation_changes_nothing_but_the_calibrations_of_the_chosen_ac(
    ablated: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = Options(out=out, smoke=True, search=2)
    trial = Trial(encoder_settings("cifar10", "moco", 0, options), 0.1, options, variants={"other": {"alpha": 0.0}})
    full = opening.method_of(trial.chosen(AC))
    assert isinstance(full, AlignmentCalibration)
    for label, changes in ablation.CHANGES.items():
        if changes:
            assert opening.method_of(RunFolder(trial.folder / label)) == replace(full, **changes)
    # Whichever of the two settings won: had it been the other, that one would have been changed.
    drawn = RunFolder(trial.folder / f"{AC}-trial1")
    monkeypatch.setattr(Trial, "_best", lambda _self, label: drawn if label == AC else None)
    trial.serve("other").work()
    other, wanted = opening.method_of(RunFolder(trial.folder / "other")), opening.method_of(drawn)
    assert isinstance(wanted, AlignmentCalibration)
    assert other == replace(wanted, alpha=0.0)


def test_an_ablation_stands_beside_the_papers(ablated: Path) -> None:
    found = results(ablated)
    assert [r["method"] for r in found].count("retrain") == 2  # one a share: gaps can be computed again
    records = [r for r in found if r["method"] != "retrain"]
    assert len(records) == 2 * len(ablation.CHANGES)
    text = (ablated / "tables.md").read_text()
    rows = [line for line in text.splitlines() if re.match(r"\| with", line)]
    assert [row.split(" | ")[:3] for row in rows] == [
        ["| with", "with", "kept"],
        ["| without", "with", "kept"],
        ["| without", "without", "0"],
    ]
    assert float(rows[1].split(" | ")[3]) == round(records[1]["gaps"]["AG"], 2)
    assert float(rows[1].split(" | ")[5]) == round(records[1]["metrics"]["unlearn_AUC"], 3)
    printed = [line.split(" | ") for line in text.splitlines() if line.startswith("| ↳ paper")]
    assert [(p[3], p[6]) for p in printed] == [("0.92", "2.00"), ("1.25", "4.12"), ("2.60", "6.45")]


def test_an_ablation_of_several_seeds_names_chance() -> None:
    def records(*values: float) -> list[dict[str, Any]]:
        return [{"metrics": dict.fromkeys(METRICS, value)} for value in values]

    exact = records(50.0, 60.0)
    assert "are 10.00 (10\N{NO-BREAK SPACE}%) apart" in ablation.chance({0.1: exact})
    assert not ablation.chance({0.1: exact[:1]})


def test_a_sweep_uses_the_encoder_and_retrain_of_the_table(swept: Path, out: Path) -> None:
    folders = {p.name for p in (out / "runs").iterdir() if "moco" in p.name}
    assert folders == {f"glyphs-moco-mlp-3epochs-seed0{end}" for end in ("", "-forget10", "-forget50")}
    records = results(swept)
    assert [r["method"] for r in records] == ["retrain", "pretrain", *[AC] * 3]
    settings = [r["method_settings"] for r in records[2:]]
    assert [(s["alpha"], s["gamma"], s["paper_beta"]) for s in settings] == [(0, 0, 8), (1, 1, 8), (1, 1, 16)]
    assert all(s["beta"] is None for s in settings)
    assert {p.name for p in swept.glob("*.png")} == {"figure4.png", "figure9.png"}
    page = (swept / "report.html").read_text()
    assert "the grids here are ours" in page
    assert page.count("<img") == 2


def test_the_ratio_of_scores_is_retrains_over_acs_within_a_seed() -> None:
    def records(*scores: float) -> list[dict[str, Any]]:
        return [{"metrics": {"FS": score}} for score in scores]

    found = alpha_beta.score_ratio(records(0.1, 0.2), records(0.2, 0.2))
    assert found is not None
    assert (found.mean, found.sd) == pytest.approx((1.5, 0.5**0.5))
    assert alpha_beta.score_ratio(records(0.0), records(0.2)) is None


def test_uniformity_is_of_two_outputs(out: Path, capsys: pytest.CaptureFixture) -> None:
    assert main(["reproduce", "uniformity", "--out", str(out), *SMOKE]) == 0
    folder = out / "uniformity"
    (found,) = results(folder)
    assert list(found["sets"]["test"]) == ["before AC", "beta = 0", "beta = 10"]
    run = RunFolder(out / "runs" / "glyphs-simclr-mlp-3epochs-seed0-2d")
    assert opening.pretraining_of(run).model.projection_dim == 2
    for name, images in (("test", len(opening.open_images(run).test)), ("unlearn", 6)):
        for panel in found["sets"][name].values():
            assert sum(panel["counts"]) == panel["images"] == images
    assert (folder / "figure5.png").read_bytes().startswith(b"\x89PNG")
    capsys.readouterr()
    assert main(["reproduce", "uniformity", "--out", str(out), *SMOKE, "--dry-run"]) == 0
    assert all(line.split()[0] == "done" for line in capsys.readouterr().err.splitlines())


def test_the_pair_table_stands_beside_the_papers(paired: Path) -> None:
    assert {r["data"] for r in results(paired)} == {"glyph-pairs"}
    text = (paired / "tables.md").read_text()
    assert "paper |" not in text  # these are not the paper's pairs
    (comparison,) = compare([{**r, "data": "coco64"} for r in results(paired)])
    lines = render.markdown(pair_results_table(comparison)).splitlines()
    printed = [line.split(" | ") for line in lines if line.startswith("| ↳ paper")]
    assert [(p[2], p[3], p[5]) for p in printed] == [
        ("62.09", "62.08", ""),
        ("62.47", "49.84", ""),
        ("58.67 (3.80)", "54.75 (4.91)", "4.35"),
        ("60.75 (1.72)", "51.23 (1.39)", "1.56"),
    ]
    assert "118,287 images" in text
    assert "Kept vs test AUC" in text
    assert {p.name for p in paired.glob("*.png")} == {"gaps.png", "similarities.png"}


def test_pair_heatmaps_are_of_the_same_models(paired: Path, out: Path) -> None:
    flags = ["--out", str(out), "--methods", "finetune", AC, *SMOKE]
    assert main(["reproduce", "clip-heatmaps", *flags]) == 0
    (found,) = results(out / "clip-heatmaps")["clip"]
    assert list(found["looks"]) == ["retrain", "finetune", AC]
    (trial,) = clip_coco.clip_trials(Options(out=out, smoke=True, search=2))
    assert found["models"][AC] == trial.chosen(AC).result()["model_sha256"]
    assert len(found["looks"][AC]["names"]) == 6


def test_a_search_is_recorded_and_can_be_given_back(paired: Path, tmp_path: Path) -> None:
    values = json.loads((paired / "recipe.json").read_text())
    assert [c["method"]["name"] for c in values["choices"]] == ["finetune", AC]
    for choice in values["choices"]:
        assert len(choice["trials"]) == 2
        assert choice["trials"][0]["method"] != choice["trials"][1]["method"]
        assert choice["method"] == min(choice["trials"], key=lambda trial: trial["validation_AG"])["method"]
        assert len(choice["encoder_sha256"]) == 64
    drawn = values["choices"][1]["trials"][1]["method"]
    assert 0.5 <= drawn["alpha"] == drawn["gamma"] <= 1  # of the paper's ranges for CLIP
    recipe = ["--recipe", str(paired / "recipe.json")]
    flags = ["--out", str(tmp_path), "--methods", "finetune", *SMOKE, *recipe]
    assert main(["reproduce", "clip-coco", *flags]) == 0
    used = [r["method_settings"] for r in results(tmp_path / "clip-coco") if r["method"] == "finetune"]
    assert used == [values["choices"][0]["method"]]
    assert not (tmp_path / "clip-coco" / "recipe.json").exists()


def test_given_values_are_run_and_tabulated_where_others_were_searched_for(
    paired: Path, out: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    """For every seed, beside the runs of the search; and without --recipe and --search the defaults are."""
    own = Path(shutil.copytree(out, tmp_path / "own"))
    values = json.loads((paired / "recipe.json").read_text())
    given = values["choices"][0]["method"]
    given["learning_rate"] *= 2
    write_json(tmp_path / "other.json", values)
    flags = ["--out", str(own), "--methods", "finetune", *SMOKE]
    recipe = ["--seeds", "0", "1", "--recipe", str(tmp_path / "other.json")]
    assert main(["reproduce", "clip-coco", *flags, *recipe, "--dry-run"]) == 0
    plan = [line for line in capsys.readouterr().err.splitlines() if "finetune" in line]
    assert [line.split()[0] for line in plan] == ["to", "to"]
    assert main(["reproduce", "clip-coco", *flags, *recipe]) == 0

    def used() -> list[dict[str, Any]]:
        return [r["method_settings"] for r in results(own / "clip-coco") if r["method"] == "finetune"]

    assert used() == [given, given]
    assert main(["reproduce", "clip-coco", *flags, "--search", "1"]) == 0
    assert used() == [values["choices"][0]["trials"][0]["method"]]
    assert main(["reproduce", "clip-coco", *flags]) == 0  # the search is still there
    assert used() == [min(values["choices"][0]["trials"], key=lambda t: t["validation_AG"])["method"]]


def test_values_that_a_search_has_tried_are_not_run_again(
    paired: Path, out: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    values = json.loads((paired / "recipe.json").read_text())
    for choice in values["choices"]:
        choice["method"] = choice["trials"][1]["method"]
    write_json(tmp_path / "tried.json", values)
    flags = ["--out", str(out), "--methods", "finetune", AC, *SMOKE, "--recipe", str(tmp_path / "tried.json")]
    assert main(["reproduce", "clip-coco", *flags, "--dry-run"]) == 0
    plan = capsys.readouterr().err.splitlines()
    assert all(line.split()[0] == "done" for line in plan if "evaluate" not in line)


def test_a_choice_serves_its_own_kind_of_request_only() -> None:
    given = [
        Choice("cifar10", "moco", "resnet18", 0.5, FineTune()),
        Choice("cifar10", "moco", "resnet18", 0.1, FineTune(9)),
    ]
    settings = recipe("cifar10", "moco")
    assert given_method(given, "finetune", settings, 0.1) == FineTune(9)
    with pytest.raises(Exception, match="no neggrad for cifar10, moco, resnet18, 10% to forget; add a file"):
        given_method(given, "neggrad", settings, 0.1)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--recipe", "nowhere.json"], "there is no file nowhere.json"),
        (["--recipe", "x.json", "--search", "2"], "leave one of them out"),
    ],
)
def test_a_wrong_recipe_is_one_sentence(arguments: list[str], complaint: str, capsys: pytest.CaptureFixture) -> None:
    assert main(["reproduce", "clip-coco", *arguments]) == 2
    assert complaint in capsys.readouterr().err


@pytest.mark.parametrize(
    "entry", [None, {}, {"method": {"name": "finetune"}}, {"method": {}}, {"method": {"name": "x"}}]
)
def test_a_damaged_recipe_is_refused(entry: Any, tmp_path: Path) -> None:
    write_json(tmp_path / "recipe.json", {"format_version": 1, "choices": [entry]})
    with pytest.raises(Exception, match=r"cannot be used"):
        read_choices([tmp_path / "recipe.json"])


def test_a_recipe_without_choices_is_refused(tmp_path: Path) -> None:
    write_json(tmp_path / "recipe.json", {"format_version": 1, "choices": []})
    with pytest.raises(UserError, match="holds no choices, so that nothing would be taken from it"):
        read_choices([tmp_path / "recipe.json"])


@pytest.mark.parametrize(("epochs", "noted"), [("200", False), ("800", True), ("", True)])
def test_settings_of_other_encoders_are_not_taken_in_silence(
    epochs: str, noted: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    choices = [{**GOOD, "epochs": 200}]
    write_json(tmp_path / "recipe.json", {"format_version": 1, "choices": choices})
    flags = ["--recipe", str(tmp_path / "recipe.json"), "--algorithms", "moco", "--methods", "finetune", "--dry-run"]
    flags += ["--epochs", epochs] if epochs else []
    assert main(["reproduce", "cifar10-10", "--out", str(tmp_path), *flags]) == 0
    said = "--recipe holds settings chosen for encoders of 200 epochs; they serve 800 here"
    assert (said in capsys.readouterr().err) == noted


GOOD = {
    "data": "cifar10",
    "algorithm": "moco",
    "architecture": "resnet18",
    "forget_fraction": 0.1,
    "method": {"name": "finetune", "learning_rate": 0.01},
}


@pytest.mark.parametrize(
    ("choices", "complaint"),
    [
        (5, "are 5, not a list"),
        ([{**GOOD, "method": {"name": "finetune", "learning_rate": "x"}}], "'learning_rate' is 'x'; expected a number"),
        ([{**GOOD, "method": {"name": "finetune", "learning_rate": -1}}], "learning-rate is -1"),
        (
            [{**GOOD, "method": {"name": "finetune", "learning_rate": True}}],
            "'learning_rate' is True; expected",
        ),
        ([{**GOOD, "method": {"name": "finetune", "epochs": 0}}], "epochs is 0"),
        ([{**GOOD, "method": {"name": "finetune", "epochs": 2.5}}], "'epochs' is 2.5; expected a whole number"),
        ([{**GOOD, "method": {"name": AC, "alpha": [1]}}], "'alpha' is [1]; expected a number"),
        (
            [{**GOOD, "method": {"name": AC, "reading": "mine"}}],
            "is 'mine'; expected one of equations, compat",
        ),
        ([{**GOOD, "method": {"name": "finetune", "alpha": 1}}], "its method has a field 'alpha' that"),
        ([{**GOOD, "forget_fraction": 10}], "forget_fraction is 10"),
        ([GOOD, {**GOOD, "method": {"name": "finetune", "learning_rate": 0.02}}], "two different choices of finetune"),
    ],
)
def test_wrong_values_are_found_when_the_file_is_read(
    choices: Any, complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    write_json(tmp_path / "r.json", {"format_version": 1, "choices": choices})
    flags = ["--methods", "finetune", "--algorithms", "moco", "--recipe", str(tmp_path / "r.json")]
    assert main(["reproduce", "cifar10-10", *flags, "--out", str(tmp_path / "out")]) == 2
    said = capsys.readouterr().err
    assert complaint in said
    assert len(said.splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_the_real_pair_table_is_planned_for_the_shards(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MUC_DATA", str(tmp_path))
    methods = clip_coco.ClipCoco.default_methods
    options = Options(out=tmp_path, seeds=(0, 1, 2), search=4, methods=methods)
    first = clip_coco.clip_trials(options)[0]
    assert first.settings.data == config.Data(name=str(tmp_path / "coco64"), image_size=64)
    assert first.encoder.path.name == "coco64-clip-resnet18-35epochs-seed0"
    plan = clip_coco.RECIPES["clip-coco"].steps(options, tmp_path / "clip-coco")
    assert len(plan) == 3 * (1 + len(methods) + 1)
    assert [s.name.split()[1] for s in plan if s.name.startswith("neggrad")] == ["×4", "×1", "×1"]
