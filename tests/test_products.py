"""The commands that make something to look at or to hand on: demo, report, audit look, paper, export and import."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from safetensors.numpy import load_file

from muc import config, demo
from muc.__main__ import main
from muc.data import load_images
from muc.recipes import recipe
from muc.run_folder import RunFolder
from muc.runs import pretrain_run

TINY = ["--data", "digits", "--epochs", "2", "--threads", "1", "--device", "cpu"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An original, a Retrain and an unlearned run, evaluated."""
    root = tmp_path_factory.mktemp("runs")
    assert main(["pretrain", *TINY, "--out", str(root / "a")]) == 0
    for method in ("retrain", "gradient_ascent"):
        request = ["--forget-fraction", "0.05", "--threads", "1", "--out", str(root / method)]
        assert main(["unlearn", str(root / "a"), "--method", method, *request]) == 0
    judged = [str(root / name) for name in ("a", "gradient_ascent")]
    assert main(["evaluate", *judged, "--against", str(root / "retrain"), "--threads", "1"]) == 0
    return root


def test_report_is_one_page_with_the_tables_beside_it(runs: Path, tmp_path: Path) -> None:
    judged = [str(runs / name) for name in ("retrain", "gradient_ascent")]
    assert main(["report", *judged, "--out", str(tmp_path)]) == 0
    page = (tmp_path / "report.html").read_text()
    assert page.count("data:image/png;base64,") >= 1
    assert not re.search(r"(src|href)=[\"']?(https?:)?//", page)
    assert "Gradient ascent" in (tmp_path / "tables.md").read_text()
    assert "\\toprule" in (tmp_path / "tables.tex").read_text()
    # The original's record lies beside the first run that serves the request.
    assert {r["method"] for r in json.loads((tmp_path / "results.json").read_text())} == {
        "pretrain",
        "retrain",
        "gradient_ascent",
    }


def test_report_needs_evaluated_runs(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(runs / "a"), "--out", str(tmp_path / "r")]) == 2
    assert "muc evaluate" in capsys.readouterr().err
    assert not (tmp_path / "r").exists()


def test_look_compares_pictures_through_the_embeddings_alone(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    images = load_images(recipe("digits").data)
    for i in range(4):
        Image.fromarray(images.train[i, 0]).save(tmp_path / f"{i}.png")
    arguments = ["audit", "look", str(runs / "a"), str(runs / "gradient_ascent"), "--images", str(tmp_path)]
    assert main([*arguments, "--out", str(tmp_path / "look"), "--json"]) == 0
    seen = json.loads(capsys.readouterr().out)
    assert seen["names"] == ["0.png", "1.png", "2.png", "3.png"]
    assert np.allclose(np.array(seen["before"]) - np.array(seen["after"]), seen["gap"])
    assert np.allclose(np.diag(seen["gap"]), seen["forgetting_scores"])
    with Image.open(tmp_path / "look" / "look.png") as picture:
        assert min(picture.size) > 300
    assert (
        main([*arguments[:2], str(runs / "a"), str(runs / "a"), *arguments[4:], "--out", str(tmp_path / "same")]) == 0
    )
    assert "verdict" not in capsys.readouterr().out
    assert not np.any(json.loads((tmp_path / "same" / "look.json").read_text())["gap"])


def test_export_hands_the_backbone_out_and_import_takes_it_back(runs: Path, tmp_path: Path) -> None:
    file = tmp_path / "encoder.safetensors"
    assert main(["export", str(runs / "gradient_ascent"), "--out", str(file)]) == 0
    assert main(["export", str(runs / "gradient_ascent"), "--out", str(file)]) == 2  # never overwrites
    assert main(["import", str(file), *TINY, "--out", str(tmp_path / "back")]) == 0
    ours, theirs = load_file(file), load_file(tmp_path / "back" / "model.safetensors")
    assert ours
    assert all(np.array_equal(value, theirs[f"backbone.{name}"]) for name, value in ours.items())


def test_paper_prints_its_t_tests_and_tables(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["paper", "t-tests", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    printed = [row for row in rows if row["relation"] == "="]
    assert len(printed) == 9
    assert all(abs(row["ours"] - row["printed"]) < 0.003 for row in printed)
    assert main(["paper", "tables"]) == 0
    assert "0.92" in capsys.readouterr().out


def test_demo_tells_the_story_and_goes_on_where_it_was(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["demo", "--out", str(tmp_path), "--seeds", "1", "--epochs", "2"]
    assert main(arguments) == 0
    records = json.loads((tmp_path / "results.json").read_text())
    assert [record["method"] for record in records] == [
        "retrain",
        "pretrain",
        "finetune",
        "gradient_ascent",
        "neggrad",
        "l1_sparsity",
        "alignment_calibration",
    ]
    page = (tmp_path / "report.html").read_text()
    assert page.count("data:image/png;base64,") >= 8  # gaps, histograms and a look at each method
    weights = (tmp_path / "seed0" / "pretrain" / "model.safetensors").stat().st_mtime_ns
    assert main(arguments) == 0
    assert (tmp_path / "seed0" / "pretrain" / "model.safetensors").stat().st_mtime_ns == weights
    assert "Forgetting 20\N{NO-BREAK SPACE}% of the training images: " in page


def test_a_demo_of_other_settings_is_refused_before_any_trial_begins(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = replace(recipe("glyphs"), seed=1)
    settings = replace(settings, optimisation=replace(settings.optimisation, epochs=1))
    pretrain_run(settings, tmp_path / "seed1" / "pretrain", config.Runtime(device="cpu", threads=1))
    assert main(["demo", "--out", str(tmp_path), "--seeds", "2", "--epochs", "2"]) == 2
    assert f"{tmp_path} holds a demo with other settings; give another --out" in capsys.readouterr().err
    assert not (tmp_path / "seed0").exists()


def test_the_first_trial_that_fails_ends_a_demo(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demo, "core_count", lambda: 2)
    (tmp_path / "seed1").write_text("in the way")
    assert main(["demo", "--out", str(tmp_path), "--seeds", "2", "--epochs", "100"]) == 2
    assert "is inside a file, not a folder" in capsys.readouterr().err
    assert not RunFolder(tmp_path / "seed0" / "pretrain").done
