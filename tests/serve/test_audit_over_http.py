"""The data owner's commands against a real endpoint, from the draw to a verdict that anyone can check."""

import json
from pathlib import Path

import pytest
from live_server import Live, picture, running

from muc import config
from muc.__main__ import main
from muc.run_folder import RunFolder
from muc.serve.keys import KeyFile
from muc.serve.pair import open_pair

CPU = config.Runtime(device="cpu", threads=1)


@pytest.fixture
def images(tmp_path: Path) -> Path:
    folder = tmp_path / "images"
    folder.mkdir()
    for i in range(8):
        (folder / f"{i}.png").write_bytes(picture(seed=i, size=(16, 16)))
    return folder


def test_from_start_to_a_verified_verdict(
    live: Live, alice: str, images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    audit = tmp_path / "audit"
    assert main(["audit", "start", str(images), "--out", str(audit), "--views", "4"]) == 0
    monkeypatch.setenv("MUC_AUDIT_KEY", alice)
    for model in ("before", "after"):
        assert main(["audit", "collect", str(audit), "--endpoint", live.url, "--model", model]) == 0
    spent = 100_000 - live.keys.find(alice).left
    assert (
        main(["audit", "collect", str(audit), "--endpoint", live.url, "--model", "after"]) == 0
    )  # nothing is left to ask
    assert 100_000 - live.keys.find(alice).left == spent
    assert main(["audit", "verdict", str(audit)]) == 0
    verdict = json.loads((audit / "verdict.json").read_text())
    assert "inconclusive" in json.dumps(verdict) or "changed" in json.dumps(verdict)
    assert main(["audit", "verify", str(audit)]) == 0
    answers = next(path for path in sorted(audit.rglob("*.json")) if "before" in str(path.relative_to(audit)))
    answers.write_text(answers.read_text().replace("1", "2", 1))
    capsys.readouterr()
    assert main(["audit", "verify", str(audit)]) == 2
    assert answers.name in capsys.readouterr().out + capsys.readouterr().err


def test_one_key_opens_the_model_before_and_later_the_one_after(
    runs: tuple[RunFolder, RunFolder],
    keys: KeyFile,
    alice: str,
    images: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture,
) -> None:
    """As README has it: what was before is asked before anything is unlearned."""
    (before, after), audit = runs, tmp_path / "audit"
    monkeypatch.setenv("MUC_AUDIT_KEY", alice)
    assert main(["audit", "start", str(images), "--out", str(audit), "--views", "4"]) == 0
    with running(open_pair(before, before, CPU), keys) as live:
        assert main(["audit", "collect", str(audit), "--endpoint", live.url, "--model", "before"]) == 0
        capsys.readouterr()
        assert main(["audit", "collect", str(audit), "--endpoint", live.url, "--model", "after"]) == 2
        assert "still serves the model of before" in capsys.readouterr().err
    with running(open_pair(before, after, CPU), keys) as live:
        assert main(["audit", "collect", str(audit), "--endpoint", live.url, "--model", "after"]) == 0
    assert main(["audit", "verdict", str(audit)]) == 0
    assert main(["audit", "verify", str(audit)]) == 0


def test_a_wrong_key_is_one_sentence(
    live: Live, images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    audit = tmp_path / "audit"
    assert main(["audit", "start", str(images), "--out", str(audit)]) == 0
    monkeypatch.setenv("MUC_AUDIT_KEY", "wrong")
    assert main(["audit", "collect", str(audit), "--endpoint", live.url, "--model", "before"]) == 2
    assert "refuses the key" in capsys.readouterr().err
