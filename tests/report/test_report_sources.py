"""`muc report`: which records it takes from the folders it is given, and where it does not write."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from report_records import record

from muc.__main__ import main
from muc.run_folder import RunFolder
from muc.split import Split

EMPTY = np.array([], dtype=np.int64)


def run_at(path: Path, kind: str = "unlearn") -> RunFolder:
    """As much of a run as a report looks at."""
    run = RunFolder(path)
    config: dict[str, Any] = {"kind": kind, "pretraining": {}, "seed": 0, "data_sha256": "", "ancestry": []}
    config |= {"runtime": {}, "method": {"name": path.name}, "parent": {"path": "original", "model_sha256": ""}}
    run.create(config, {}, Split(0, EMPTY, EMPTY, EMPTY))
    return run


def evaluated(path: Path, **changes: Any) -> dict[str, Any]:
    """A run with its record -> the record."""
    made = record(path.name, run=str(path), per_sample=None, **changes)
    run_at(path).write_record(made)
    return made


@pytest.fixture
def complaint(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    def run(*argv: object) -> str:
        capsys.readouterr()
        assert main([str(argument) for argument in argv]) == 2
        said = capsys.readouterr()
        assert said.out == ""
        assert len(said.err.splitlines()) == 1
        return said.err

    return run


def reported(*argv: object) -> list[str]:
    """The runs of the report that is written."""
    out = Path(str(argv[-1]))
    assert main(["report", *map(str, argv[:-1]), "--out", str(out)]) == 0
    return [found["run"] for found in json.loads((out / "results.json").read_text())]


@pytest.fixture
def comparison(tmp_path: Path) -> Path:
    """Three runs, one of them (a trial of a search) without a record; the original's lies beside Retrain."""
    folder = tmp_path / "request"
    for method in ("retrain", "finetune"):
        evaluated(folder / method)
    original = record("pretrain", run="runs/moco", per_sample=None)
    RunFolder(folder / "retrain").write_record(original, of_original=True)
    run_at(folder / "finetune-trial1")
    records = [json.loads(path.read_text()) for path in folder.glob("*/evaluation.json")]
    (folder / "comparison.json").write_text(json.dumps({"publish": None, "records": [*records, original]}))
    return folder


def test_of_a_comparison_all_evaluated_runs_are_taken(comparison: Path, tmp_path: Path) -> None:
    expected = {str(comparison / "finetune"), str(comparison / "retrain"), "runs/moco"}
    found = reported(comparison, tmp_path / "report")
    assert (len(found), set(found)) == (3, expected)
    both = reported(comparison, evaluated(tmp_path / "neggrad")["run"], tmp_path / "report")
    assert set(both) == expected | {str(tmp_path / "neggrad")}


def test_of_a_folder_the_evaluated_runs_in_it_are_taken(tmp_path: Path, complaint: Callable[..., str]) -> None:
    trial = tmp_path / "seed0"
    for method in ("retrain", "finetune"):
        evaluated(trial / method)
    run_at(trial / "pretrain", "pretrain")
    (trial / "looks.json").write_text("{}")
    assert reported(trial, tmp_path / "report") == [str(trial / "finetune"), str(trial / "retrain")]
    nothing = tmp_path / "nothing"
    nothing.mkdir()
    assert f"is {nothing} a run folder?" in complaint("report", nothing, "--out", tmp_path / "report")


def test_reports_of_several_seeds_become_one(tmp_path: Path, complaint: Callable[..., str]) -> None:
    for seed in (0, 1):
        for method in ("retrain", "finetune"):
            digests = {"model_sha256": f"{method}{seed}", "request_sha256": f"r{seed}", "original_sha256": f"o{seed}"}
            evaluated(tmp_path / f"seed{seed}" / method, seed=seed, **digests)
        reported(tmp_path / f"seed{seed}", tmp_path / f"report{seed}")
    both = [str(tmp_path / f"seed{s}" / m) for s in (0, 1) for m in ("finetune", "retrain")]
    assert reported(tmp_path / "report0", tmp_path / "report1" / "results.json", tmp_path / "both") == both
    assert reported(tmp_path / "both", tmp_path / "both") == both  # in its own place
    (tmp_path / "both" / "results.json").write_text('{"moco": []}')
    assert "results.json holds no records of runs; give" in complaint(
        "report", tmp_path / "both", "--out", tmp_path / "x"
    )


def test_a_model_that_is_reached_by_two_paths_counts_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    digests = {"model_sha256": "m", "request_sha256": "r"}
    evaluated(tmp_path / "finetune", **digests)
    shutil.copytree(tmp_path / "finetune", tmp_path / "copy")
    monkeypatch.chdir(tmp_path)
    RunFolder("copy").write_record(record("finetune", run="copy", per_sample=None, **digests))
    evaluated(tmp_path / "neggrad", **{**digests, "model_sha256": "n"})
    assert reported("finetune", "copy", "neggrad", tmp_path / "report") == ["copy", str(tmp_path / "neggrad")]


def test_a_retrain_from_elsewhere_is_taken_from_what_the_comparison_says(comparison: Path, tmp_path: Path) -> None:
    (comparison / "retrain").rename(tmp_path / "elsewhere")
    found = reported(comparison, tmp_path / "report")
    assert found == [str(comparison / "finetune"), str(comparison / "retrain"), "runs/moco"]


@pytest.mark.parametrize("text", ["[]", "{}", '{"records": 3}'])
def test_a_damaged_comparison_is_one_sentence(
    comparison: Path, complaint: Callable[..., str], tmp_path: Path, text: str
) -> None:
    (comparison / "comparison.json").write_text(text)
    assert "comparison.json holds no records" in complaint("report", comparison, "--out", tmp_path / "report")


def test_a_report_is_not_written_into_a_run(complaint: Callable[..., str], tmp_path: Path) -> None:
    run = tmp_path / "finetune"
    evaluated(run)
    before = sorted(run.iterdir())
    for out in (run, run / "deep" / "report"):
        assert f"lies in the run {run}; give a folder outside" in complaint("report", run, "--out", out)
    assert sorted(run.iterdir()) == before
    assert reported(run, tmp_path / "report") == [str(run)]


def test_other_results_are_not_replaced(complaint: Callable[..., str], tmp_path: Path) -> None:
    run, out = tmp_path / "finetune", tmp_path / "mine"
    evaluated(run)
    out.mkdir()
    (out / "results.json").write_text('{"my": "results"}')
    assert f"{out / 'results.json'} is there and of no report by muc" in complaint("report", run, "--out", out)
    assert json.loads((out / "results.json").read_text()) == {"my": "results"}
    assert reported(run, tmp_path / "report") == reported(run, tmp_path / "report") == [str(run)]


def test_of_an_original_it_is_said_where_its_record_lies(complaint: Callable[..., str], tmp_path: Path) -> None:
    original, unlearned = (run_at(tmp_path / kind, kind) for kind in ("pretrain", "unlearn"))
    said = complaint("report", original, "--out", tmp_path / "report")
    assert "lies beside a run that does; give such a run" in said
    assert f"muc evaluate {original} UNLEARNED_RUN --against RETRAIN_RUN" in said
    said = complaint("report", unlearned, "--out", tmp_path / "report")
    assert f"first: muc evaluate {unlearned} --against" in said
