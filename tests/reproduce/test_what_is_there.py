"""What lies in the folder already counts for what it is, not for its name."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from muc import search
from muc.__main__ import main
from muc.errors import UserError
from muc.evaluation import records
from muc.evaluation.gaps import METRICS, gaps
from muc.methods import FineTune
from muc.report import write_report
from muc.reproduce.recipe import Options
from muc.reproduce.trial import Trial, encoder_settings
from muc.run_folder import RunFolder

SMOKE = ["--smoke", "--device", "cpu", "--threads", "1"]
FLAGS = ["--algorithms", "simclr", "--methods", "finetune", "alignment_calibration", *SMOKE]


@pytest.fixture
def copied(out: Path, tmp_path: Path) -> Path:
    return shutil.copytree(out, tmp_path / "copied")


def first_trial(out: Path, search: int = 2) -> Trial:
    options = Options(out=out, smoke=True, search=search)
    return Trial(encoder_settings("cifar10", "simclr", 0, options), 0.1, options)


def table(out: Path, *flags: str) -> int:
    return main(["reproduce", "cifar10-10", "--out", str(out), "--seeds", "0", "--search", "2", *FLAGS, *flags])


def test_an_encoder_of_other_settings_is_not_taken(copied: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = first_trial(copied).encoder.path
    shutil.rmtree(first)
    shutil.copytree(first.with_name(first.name.replace("seed0", "seed1")), first)
    assert table(copied) == 2
    assert "was trained with seed 1, not 0; move it away" in capsys.readouterr().err


def test_where_data_lie_does_not_matter(copied: Path) -> None:
    trial = first_trial(copied)
    path = trial.encoder.path / "config.json"
    values = json.loads(path.read_text())
    values["pretraining"]["data"] |= {"root": "elsewhere", "stream": "on"}
    path.write_text(json.dumps(values))
    trial.check_encoder()
    values["pretraining"]["model"]["temperature"] = 0.3
    path.write_text(json.dumps(values))
    with pytest.raises(UserError, match=r"model temperature 0\.3, not 0\.5"):
        trial.check_encoder()


def test_a_record_of_another_model_is_made_again(copied: Path) -> None:
    """Of the original too, which is judged for this request alone."""
    trial = first_trial(copied)
    before = {r["method"]: r["metrics"]["FS"] for r in trial.records(["retrain", "finetune"])}
    assert list(before) == ["pretrain", "retrain", "finetune"]
    stale = trial.chosen("finetune").path / "evaluation.json"
    values = json.loads(stale.read_text())
    stale.write_text(json.dumps({**values, "model_sha256": "0" * 64, "metrics": {**values["metrics"], "FS": 9.0}}))
    (trial.retrain.path / "original.json").unlink()
    assert trial.records(["retrain", "finetune"]) == []
    assert table(copied) == 0
    assert {r["method"]: r["metrics"]["FS"] for r in trial.records(["retrain", "finetune"])} == before


def test_an_evaluation_that_was_cut_off_goes_on_with_the_next(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trial = first_trial(copied)
    judged = [trial.retrain, trial.encoder, trial.chosen("finetune"), trial.chosen("alignment_calibration")]
    for run in judged:
        (run.path / "evaluation.json").unlink(missing_ok=True)
    (trial.retrain.path / "original.json").unlink()
    seen: list[Path] = []
    whole = records.record_of

    def cut_off_in_the_third(run: RunFolder, *others: Any) -> dict[str, Any]:
        seen.append(run.path)
        if len(seen) == 3:
            raise KeyboardInterrupt
        return whole(run, *others)

    monkeypatch.setattr(records, "record_of", cut_off_in_the_third)
    assert table(copied) == 130
    assert table(copied) == 0
    assert seen == [run.path for run in (*judged[:3], *judged[2:])]


def test_an_evaluation_that_was_kept_has_the_place_of_today(copied: Path) -> None:
    """A Retrain is found by it."""
    trial = first_trial(copied)
    judged = [trial.encoder, trial.chosen("finetune")]
    for path in (trial.retrain.path / "evaluation.json", judged[1].path / "evaluation.json"):
        path.write_text(json.dumps({**json.loads(path.read_text()), "run": "elsewhere", "against": "elsewhere"}))
    found = records.evaluate_runs(judged, trial.retrain, keep=True)
    assert [record["run"] for record in found] == [str(run) for run in (trial.retrain, *judged)]
    assert {record["against"] for record in found} == {str(trial.retrain)}


def test_an_evaluation_without_a_number_is_made_again(copied: Path) -> None:
    trial = first_trial(copied)
    run = trial.chosen("finetune")
    path = run.path / "evaluation.json"
    before = json.loads(path.read_text())
    path.write_text(json.dumps({**before, "metrics": {**before["metrics"], "EMIA": None}}))
    assert records.kept_record(run, trial.retrain) is None
    assert records.evaluate_runs([run], trial.retrain, keep=True)[1]["metrics"]["EMIA"] == before["metrics"]["EMIA"]


def test_weights_that_are_gone_are_missed_before_anything_is_trained(
    copied: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Records can be kept without them, and Retrain does not begin there."""
    trial = first_trial(copied)
    (trial.encoder.path / "model.safetensors").unlink()
    shutil.rmtree(trial.retrain.path)
    assert table(copied) == 2
    assert f"{trial.encoder}/model.safetensors is missing" in capsys.readouterr().err
    assert main(["reproduce", "noise-floor", "--out", str(copied), "--algorithms", "simclr", *SMOKE]) == 2
    assert not trial.retrain.started


@pytest.fixture
def diverging(monkeypatch: pytest.MonkeyPatch) -> float:
    """A learning rate with which fine-tuning ends in weights that are no numbers."""
    whole, rate = FineTune.loss, 0.123

    def loss(self: FineTune, *args: Any) -> dict[str, Any]:
        (term,) = whole(self, *args).values()
        if self.learning_rate == rate:
            term = term + (0 * term).sqrt()  # a number, but its gradient is none
        return {"infonce": term}

    monkeypatch.setattr(FineTune, "loss", loss)
    return rate


def test_a_drawn_trial_that_diverges_is_passed_over(
    copied: Path, diverging: float, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    trial = first_trial(copied)
    usual = trial.placed("finetune", trial.method("finetune"))
    (usual.path / "search.json").unlink()
    monkeypatch.setattr("muc.reproduce.trial.draw_trials", lambda own, *_: [replace(own, learning_rate=diverging)])
    assert table(copied) == 0
    assert "training diverged in its last step; give a smaller --learning-rate than 0.123" in capsys.readouterr().err
    first, second = json.loads((usual.path / "search.json").read_text())
    assert first["AG"] >= 0
    assert (second["AG"], second["AG_auc"]) == (None, None)
    assert trial.chosen("finetune").path == usual.path
    choices = json.loads((copied / "cifar10-10-simclr" / "recipe.json").read_text())["choices"]
    assert [t.get("validation_AG") is None for t in choices[0]["trials"]] == [False, True]
    monkeypatch.setattr("muc.reproduce.trial.serve_all", None)  # what is known is not tried again
    assert table(copied) == 0


def test_defaults_that_diverge_are_an_error(
    copied: Path, diverging: float, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = Trial.method
    monkeypatch.setattr(
        Trial,
        "method",
        lambda self, name: replace(whole(self, name), **({"learning_rate": diverging} if name == "finetune" else {})),
    )
    assert table(copied, "--search", "3") == 2
    assert "training diverged in its last step" in capsys.readouterr().err


def test_the_recipe_that_was_given_stays(copied: Path) -> None:
    given = copied / "cifar10-10-simclr" / "recipe.json"
    assert table(copied) == 0
    before = given.read_bytes()
    flags = ["--out", str(copied), "--seeds", "0", *FLAGS, "--recipe", str(given)]
    assert main(["reproduce", "cifar10-10", *flags]) == 0
    assert given.read_bytes() == before
    assert "They were chosen by AG on seed 0" in given.with_name("tables.md").read_text()


def test_files_of_an_earlier_table_go(copied: Path) -> None:
    folder = copied / "cifar10-10-simclr"
    assert table(copied) == 0
    (folder / "gaps-moco.png").touch()
    assert (folder / "recipe.json").exists()
    assert table(copied, "--search", "1") == 0
    assert not (folder / "recipe.json").exists()
    assert [p.name for p in folder.glob("*.png")] == ["gaps.png"]


def test_fewer_trials_are_the_first_ones_of_more(copied: Path) -> None:
    more = first_trial(copied)
    path = more.placed("finetune", more.method("finetune")).path / "search.json"
    trials = json.loads(path.read_text())
    best = {**trials[0], "run": trials[0]["run"] + "-trial2", **dict.fromkeys(search.CRITERIA, -1.0)}
    path.write_text(json.dumps([*trials, best]))
    assert more.tried("finetune") == trials
    assert len(first_trial(copied, search=3).tried("finetune")) == 3
    for broken in ("[1, 2]", "{}"):
        path.write_text(broken)
        with pytest.raises(UserError, match="not the record of a search"):
            more.tried("finetune")


def test_a_file_in_the_tables_place_is_refused_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "cifar10-10-simclr").touch()
    assert table(tmp_path) == 2
    assert "is a file, where the folder of this table would be" in capsys.readouterr().err
    assert [p.name for p in tmp_path.iterdir()] == ["cifar10-10-simclr"]


def test_a_search_never_looks_at_test_images(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[Any] = []
    judge: Callable[..., dict[str, Any]] = records.judge

    def spied(*args: Any, **others: Any) -> dict[str, Any]:
        looked.append(others.get("held_out", "test"))
        return judge(*args, **others)

    monkeypatch.setattr(search, "judge", spied)
    search._judged.clear()
    trial = first_trial(copied)
    chosen = [trial.folder / "finetune", trial.folder / "finetune-trial1"]
    search.pick([type(trial.encoder)(path) for path in chosen], trial.retrain, trial.encoder, None)
    assert looked == ["validation"] * 3  # Retrain's and the two trials'


def test_the_text_says_where_the_papers_method_does_not_win(copied: Path) -> None:
    assert table(copied, "--seeds", "0", "1") == 0
    found = json.loads((copied / "cifar10-10-simclr" / "results.json").read_text())

    def text(away: dict[str, float]) -> str:
        for record in found:
            record["metrics"] |= dict.fromkeys(METRICS, 50 + away[record["method"]])
            record["gaps"] = gaps(record["metrics"], dict.fromkeys(METRICS, 50.0) | {"unlearn_AUC": 0.5})
        write_report(found, copied / "made")
        return (copied / "made" / "tables.md").read_text()

    away = {"pretrain": 9.0, "retrain": 0.0, "finetune": 1.0, "alignment_calibration": 2.0}
    lost = text(away)
    assert "Alignment Calibration, the paper's method, is not the closest here: number 2 at 2.00." in lost
    assert "Two Retrains with different seeds, which" in lost
    assert "is not the closest" not in text({**away, "finetune": 2.0})  # a tie
