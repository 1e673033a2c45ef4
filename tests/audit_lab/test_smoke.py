"""Both commands from end to end, on encoders that are hardly trained."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from muc.audit_lab.encoders import lab_settings, train_encoders
from muc.audit_lab.judging import TESTS
from muc.audit_lab.model_owners import MODEL_OWNERS
from muc.audit_lab.redteam import DEFENCES
from muc.cli.audit_lab import calibrate, redteam
from muc.errors import UserError
from muc.storage import read_json


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("audit-lab")


def test_calibrate(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    calibrate(["--smoke", "--data", "digits", "--runs", str(runs), "--out", str(tmp_path)])
    assert "hold-back test (primary)" in capsys.readouterr().out
    found = read_json(tmp_path / "calibration.json")
    assert (found["pairs"], found["audits"]) == (2, 40)
    assert {cell["test"] for cell in found["cells"]} == set(TESTS)
    assert (tmp_path / "calibration.png").stat().st_size > 1000


def test_a_smoke_test_leaves_the_results_of_others_alone(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    calibrate(["--smoke", "--data", "digits", "--runs", str(runs)])
    redteam(["--smoke", "--data", "digits", "--runs", str(runs), "--checks", "decoys", "--without", "Retrain"])
    assert not Path("results").exists()
    found = {path.name for path in Path("runs/audit-lab/smoke").iterdir()}
    assert found == {"calibration.json", "calibration.md", "calibration.png", "redteam.json", "redteam.md"}


@pytest.mark.parametrize("command", [calibrate, redteam])
def test_results_that_would_have_no_place_are_noticed_before_the_work(
    command: Callable[[Sequence[str]], None], tmp_path: Path
) -> None:
    with pytest.raises(UserError, match="/proc/x cannot be written"):
        command(["--runs", str(tmp_path / "runs"), "--out", "/proc/x"])
    assert not (tmp_path / "runs").exists()


def test_redteam_takes_the_encoders_that_are_there(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    redteam(["--smoke", "--data", "digits", "--runs", str(runs), "--out", str(tmp_path)])
    assert "get" in capsys.readouterr().out
    found = read_json(tmp_path / "redteam.json")
    assert [row["model_owner"] for row in found["rows"]] == 2 * [owner.name for owner in MODEL_OWNERS]
    rows = {(row["model_owner"], row["n"]): row for row in found["rows"]}
    for row in found["rows"]:
        assert set(row["accepted"]) == set(DEFENCES)
        assert sum(row["verdicts"].values()) == pytest.approx(1)
        assert row["accepted"]["all"]["rate"] <= row["accepted"]["hold_back"]["rate"]
        assert row["accepted"]["hold_back"]["trials"] == {10: 4, 20: 2}[row["n"]]
    assert rows["no-op", 10]["verdicts"]["no change found"] == 1
    assert rows["routes the owner's key to an unlearned copy", 10]["accepted"]["all"]["rate"] == 0
    pushed = rows["the same over slightly tuned weights", 20]
    assert pushed["accepted"]["hold_back_plain"]["rate"] == 1  # said plainly: this one gets through
    # Resumable: unlearned models are kept with the encoders.
    assert len(list((runs / "redteam" / "smoke-digits").glob("*.safetensors"))) == 7


def test_counter_measures_and_model_owners_can_be_left_out(runs: Path, tmp_path: Path) -> None:
    flags = ["--smoke", "--data", "digits", "--runs", str(runs), "--out", str(tmp_path), "--checks", "decoys"]
    redteam([*flags, "--without", "Retrain", "seed swap"])
    found = read_json(tmp_path / "redteam.json")
    rows = {(row["model_owner"], row["n"]): row for row in found["rows"]}
    assert len(rows) == 2 * (len(MODEL_OWNERS) - 2)
    assert set(DEFENCES) - set(rows["no-op", 10]["accepted"]) == {
        "repeats",
        "near_duplicates",
        "second_key",
        "borders",
    }
    routed = rows["routes the owner's key to an unlearned copy", 10]  # only a second key would show it
    assert routed["accepted"]["all"] == routed["accepted"]["hold_back"]


def test_an_encoder_with_other_settings_is_refused(tmp_path: Path) -> None:
    train_encoders(lab_settings("digits", 1), 1, tmp_path)
    with pytest.raises(UserError, match="other settings"):
        train_encoders(lab_settings("digits", 2), 1, tmp_path)


def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(UserError, match="glyphs or digits"):
        lab_settings("cifar10")
    with pytest.raises(UserError, match="unknown counter-measure 'luck'; valid: borders"):
        redteam(["--smoke", "--checks", "luck"])
    with pytest.raises(UserError, match="unknown model owner 'me'"):
        redteam(["--smoke", "--without", "me"])
    with pytest.raises(UserError, match="--pairs is 0; give a number from 1"):
        calibrate(["--pairs", "0"])
    with pytest.raises(UserError, match="--images is 2; give a number from 4"):
        redteam(["--images", "2"])


def test_a_seed_that_is_none_is_noticed_before_the_work(tmp_path: Path) -> None:
    flags = ["--smoke", "--data", "digits", "--runs", str(tmp_path / "runs"), "--out", str(tmp_path / "out")]
    with pytest.raises(UserError, match="--seed is -1; give a number from 0"):
        calibrate([*flags, "--seed", "-1"])
    assert not list(tmp_path.iterdir())
