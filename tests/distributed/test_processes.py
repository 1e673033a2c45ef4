"""Two processes do what one does: values, gradients, whole runs; and they stop, fail and resume as one."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from one_step import METHODS_TRIED, MODELS, all_steps
from safetensors.torch import load_file
from torch import Tensor

from muc import processes
from muc.__main__ import main
from muc.errors import UserError
from muc.run_folder import RunFolder

HERE = Path(__file__).parent
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
RUN = ["--data", "glyphs", "--train-limit", "60", "--batch-size", "24", "--device", "cpu", "--threads", "1"]


def two(*arguments: str) -> tuple[int, str]:
    """Run by two processes. -> exit code, what they said."""
    source = str(HERE.parents[1] / "src")
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([source, os.environ.get("PYTHONPATH", "")])}
    ended = subprocess.run([*TORCHRUN, *arguments], env=env, capture_output=True, text=True, timeout=300)
    return ended.returncode, ended.stdout + ended.stderr


@pytest.fixture(scope="module")
def steps(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Of one process and of two."""
    path = tmp_path_factory.mktemp("steps") / "two.safetensors"
    code, output = two(str(HERE / "one_step.py"), str(path))
    assert code == 0, output
    return all_steps(), load_file(path)


@pytest.mark.parametrize("method", METHODS_TRIED)
@pytest.mark.parametrize("kind", MODELS)
def test_values_gradients_and_statistics_are_those_of_one_process(
    kind: str, method: str, steps: tuple[dict[str, Tensor], dict[str, Tensor]]
) -> None:
    one, both = ({k: v for k, v in found.items() if k.startswith(f"{kind}/{method}/")} for found in steps)
    assert one.keys() == both.keys()
    assert any("/gradient." in key for key in one)
    # Of one model together: what has no gradient but rounding (a bias before a norm) is compared with those that have.
    largest = max(float(value.abs().max()) for key, value in one.items() if "/gradient." in key)
    for key, value in one.items():
        scale = largest if "/gradient." in key else max(1.0, float(value.abs().max()))
        torch.testing.assert_close(both[key], value, atol=2e-6 * scale, rtol=0, msg=named(key))


def named(key: str) -> Callable[[str], str]:
    """So that a failure names the tensor."""
    return lambda text: f"{key}: {text}"


def close(first: Path, second: Path) -> None:
    one, other = (load_file(path / "model.safetensors") for path in (first, second))
    assert one.keys() == other.keys()
    for name, value in one.items():
        torch.testing.assert_close(other[name], value, atol=1e-3, rtol=1e-3, msg=named(name))


def test_a_run_and_its_unlearning_come_out_the_same(tmp_path: Path) -> None:
    one, both = tmp_path / "one", tmp_path / "both"
    assert main(["pretrain", *RUN, "--epochs", "3", "--out", str(one)]) == 0
    code, output = two("-m", "muc", "pretrain", *RUN, "--epochs", "3", "--out", str(both))
    assert code == 0, output
    assert output.count("done in") == 1  # only the first process speaks
    close(one, both)
    assert RunFolder(both).env()["processes"] == 2
    losses = [[line["loss"] for line in RunFolder(run).metrics()] for run in (one, both)]
    assert losses[1] == pytest.approx(losses[0], rel=1e-4)
    unlearn = ["--method", "alignment_calibration", "--forget-fraction", "0.2", "--epochs", "2", "--device", "cpu"]
    assert main(["unlearn", str(one), *unlearn, "--out", str(tmp_path / "one-ac")]) == 0
    code, output = two("-m", "muc", "unlearn", str(one), *unlearn, "--out", str(tmp_path / "both-ac"))
    assert code == 0, output
    close(tmp_path / "one-ac", tmp_path / "both-ac")


def test_both_stop_when_one_is_told_to_and_go_on_to_the_same_bits(tmp_path: Path) -> None:
    flags, cut = ["pretrain", *RUN, "--epochs", "4"], RunFolder(tmp_path / "cut")
    code, output = two("-m", "muc", *flags, "--out", str(tmp_path / "whole"))
    assert code == 0, output
    code, output = two(str(HERE / "stopped_run.py"), *flags, "--out", str(cut.path))
    assert code != 0
    assert "nothing is lost" in output
    state = cut.load_state()
    assert state is not None
    position = state[1]
    steps = 60 // 24
    assert (position["epoch"] * steps + position["step_of_epoch"]) == 5
    code, output = two("-m", "muc", "resume", str(cut.path))
    assert code == 0, output
    assert cut.result()["model_sha256"] == RunFolder(tmp_path / "whole").result()["model_sha256"]


def test_what_cannot_be_done_is_said_once(tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "something").touch()
    code, output = two("-m", "muc", "pretrain", *RUN, "--epochs", "1", "--out", str(tmp_path / "full"))
    assert code != 0
    assert output.count("muc: error:") == 1
    assert "is not empty and not a run" in output


def test_other_commands_are_refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert main(["runs"]) == 2
    assert "muc runs is the work of one process" in capsys.readouterr().err


@pytest.mark.parametrize("error", [UserError("no"), OSError(28, "full")])
def test_the_others_hear_of_whatever_stops_the_first(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[bool] = []
    monkeypatch.setattr(processes, "anyone", lambda answer: told.append(answer) or answer)

    def fail() -> None:
        raise error

    with pytest.raises(type(error)):
        processes.first_only(fail)
    assert told == [True]
