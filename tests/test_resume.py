"""A run that was killed, stopped or interrupted at any moment ends with the bits of one that was not.

Run as a script (`python tests/test_resume.py FOLDER`) this file is the executioner: it imports torch once, then forks
one short life after another and kills each.
"""

import json
import os
import random
import shlex
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import torch

from muc import config, opening, run_folder, runs, storage, train
from muc.__main__ import main
from muc.config import Request
from muc.data import load_images
from muc.errors import Interrupted, UserError
from muc.evaluation import records
from muc.methods import METHODS, AlignmentCalibration, Method
from muc.recipes import recipe
from muc.run_folder import RunFolder
from muc.storage import read_json, write_json

SOURCE = Path(runs.__file__).parents[1]
CALM = config.Runtime(device="cpu", threads=1)
EAGER = replace(CALM, checkpoint_seconds=0.0)  # saves after every step
TENTH = Request(forget_fraction=0.1)
KINDS = ("simclr", "moco", "alignment_calibration")


def tiny(algorithm: str = "simclr", epochs: int = 6, batch_size: int = 16) -> config.Pretraining:
    """Four steps an epoch of milliseconds each."""
    settings = recipe("digits", algorithm)
    return replace(
        settings,
        data=replace(settings.data, train_limit=64),
        model=replace(settings.model, queue_size=64, projection_dim=16),
        optimisation=replace(settings.optimisation, epochs=epochs, batch_size=batch_size),
    )


def begin_or_go_on(kind: str, folder: Path, name: str, runtime: config.Runtime = EAGER) -> None:
    """What a patient user does after every crash: start the run, or resume it, until it is done."""
    run = RunFolder(folder / f"{kind}-{name}")
    if run.done:
        return
    if run.started:
        runs.resume_run(run)
    elif kind == "alignment_calibration":
        original = RunFolder(folder / "simclr-whole")
        runs.unlearn_run(original, AlignmentCalibration(epochs=6), TENTH, run.path, runtime)
    else:
        runs.pretrain_run(tiny(kind), run.path, runtime)


def live(work: Callable[[], Any], seconds: float | None = None, line: int | None = None, since: str = "") -> bool:
    """Do the work in a child process, kill -9 it after some seconds or at a line; -> whether it was killed."""
    child = os.fork()
    if child == 0:
        try:
            if line is not None:
                sys.settrace(executioner(line, since))
            work()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    if seconds is not None:
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
        return True
    assert status == 0, "a life failed by itself"
    return False


def executioner(line: int, since: str) -> Callable[..., Any]:
    """A trace function that kills its process at the n-th line of muc's run, train and storage code.

    With `since`, lines are counted only once a function of that name was entered.
    """
    files = {module.__file__ for module in (runs, train, run_folder, storage)}
    left = line
    counting = not since

    def trace(frame: FrameType, event: str, _argument: Any) -> Callable[..., Any] | None:
        nonlocal left, counting
        if frame.f_code.co_filename not in files:
            return None
        counting = counting or frame.f_code.co_name == since
        if counting and event == "line":
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
        return trace

    return trace


def kill_many_times(folder: Path) -> None:
    """Every kind of run: once whole, once through many deaths. Leaves how many there were in kills.json."""
    torch.set_num_threads(1)
    load_images(config.Data(name="digits"))
    kills = {}
    for kind in KINDS:
        chance = random.Random(kind)
        assert not live(lambda kind=kind: begin_or_go_on(kind, folder, "whole", CALM))
        begun = time.monotonic()
        assert not live(lambda kind=kind: begin_or_go_on(kind, folder, "saving"))
        duration = time.monotonic() - begun

        def work(kind: str = kind) -> None:
            begin_or_go_on(kind, folder, "killed")

        deaths = [live(work, line=chance.randrange(1, 50), since="create")]
        deaths += [live(work, line=1 + int(3000 * chance.random() ** 2)) for _ in range(8)]
        deaths += [live(work, line=chance.randrange(1, 300), since="save_state") for _ in range(3)]
        deaths += [live(work, line=chance.randrange(1, 12), since="replacing") for _ in range(3)]
        deaths += [live(work, seconds=chance.uniform(0, duration / 4)) for _ in range(4)]
        deaths += [live(work, line=chance.randrange(1, 200), since="finish") for _ in range(3)]
        live(work)
        kills[kind] = sum(deaths)
    write_json(folder / "kills.json", kills)


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(SOURCE), "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}


def assert_same_bits(run: RunFolder, whole: RunFolder) -> None:
    assert run.result()["model_sha256"] == whole.result()["model_sha256"]
    found, expected = run.load_model(), whole.load_model()
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], value) for name, value in expected.items())
    assert losses(run) == losses(whole)


def losses(run: RunFolder) -> list[tuple[int, float]]:
    return [(line["epoch"], line["loss"]) for line in run.metrics()]


def test_runs_killed_at_random_moments_end_with_the_same_bits(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, __file__, tmp_path], env=environment(), stderr=subprocess.PIPE, text=True)
    assert done.returncode == 0, done.stderr
    kills = read_json(tmp_path / "kills.json")
    assert sum(kills.values()) >= 20
    for kind in KINDS:
        assert kills[kind] >= 10
        whole, killed = RunFolder(tmp_path / f"{kind}-whole"), RunFolder(tmp_path / f"{kind}-killed")
        assert_same_bits(RunFolder(tmp_path / f"{kind}-saving"), whole)
        assert_same_bits(killed, whole)
        assert [epoch for epoch, _ in losses(killed)] == [1, 2, 3, 4, 5, 6]
        assert not list(killed.path.glob(".*"))


SLOW_ENOUGH = ("--data", "digits", "--train-limit", "64", "--batch-size", "16", "--epochs", "40", "--threads", "1")


def stop(argv: list[str], run: Path, with_signal: int) -> str:
    """Start `muc`, let it train two epochs, stop it; -> what it said."""
    before = len(RunFolder(run).metrics())
    process = subprocess.Popen(
        [sys.executable, "-m", "muc", *argv], env=environment(), stderr=subprocess.PIPE, text=True
    )
    while len(RunFolder(run).metrics()) < before + 2 and process.poll() is None:
        time.sleep(0.005)
    process.send_signal(with_signal)
    _, said = process.communicate(timeout=120)
    assert process.returncode == 130, said
    return said


def test_ctrl_c_and_sigterm_save_and_say_how_to_go_on(tmp_path: Path) -> None:
    run, whole = RunFolder(tmp_path / "run"), RunFolder(tmp_path / "whole")
    for argv, with_signal in (
        (["pretrain", *SLOW_ENOUGH, "--out", str(run)], signal.SIGINT),
        (["resume", str(run)], signal.SIGTERM),
    ):
        said = stop(argv, run.path, with_signal)
        assert said.splitlines()[-1] == f"muc: stopped; nothing is lost. Go on with: muc resume {run}"
        assert "Traceback" not in said
        assert not run.done
        assert run.load_state() is not None
    assert main(["resume", str(run)]) == 0
    assert main(["pretrain", *SLOW_ENOUGH, "--out", str(whole)]) == 0
    assert_same_bits(run, whole)


def test_a_terminal_that_closes_saves_what_was_done(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "run")
    argv = ["pretrain", *SLOW_ENOUGH, "--checkpoint-seconds", "100000", "--out", str(run)]
    said = stop(argv, run.path, signal.SIGHUP)
    assert said.splitlines()[-1] == f"muc: stopped; nothing is lost. Go on with: muc resume {run}"
    assert run.load_state() is not None


@pytest.mark.parametrize("with_signal", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "SIGTERM"])
def test_a_demo_that_is_stopped_leaves_nobody_behind(tmp_path: Path, with_signal: signal.Signals) -> None:
    """The signal reaches the first process alone, as from a service's manager; its workers end with it."""
    out = tmp_path / "my demo"
    argv = ["demo", "--seeds", "2", "--epochs", "3000", "--out", str(out)]
    said = stop(argv, out / "seed0" / "pretrain", with_signal)
    assert said.splitlines()[-1] == f"muc: stopped; nothing is lost. Go on with: {shlex.join(['muc', *argv])}"
    assert "Traceback" not in said
    for folder in out.glob("seed*/pretrain"):
        hold = storage.Hold(folder)
        hold.take()  # refused where somebody works there still
        hold.leave()


@contextmanager
def impatience() -> Generator[Callable[[], bool]]:
    """Stands in for train.interrupts: as if Ctrl-C came during every single step."""
    yield lambda: True


@pytest.fixture
def after_one_step(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Every run stops after its next step, until the patch is undone."""
    monkeypatch.setattr(train, "interrupts", impatience)
    return monkeypatch


def finish_step_by_step(work: Callable[[], Any], run: RunFolder) -> list[str]:
    """-> what to type to go on, each time it was stopped."""
    stops = []
    while not run.done:
        try:
            runs.resume_run(run) if run.started else work()
        except Interrupted as stopped:
            stops.append(stopped.command)
    return stops


@pytest.mark.parametrize("algorithm", ["simclr", "moco"])
def test_a_pretraining_stopped_after_every_step_ends_with_the_same_bits(
    tmp_path: Path, after_one_step: pytest.MonkeyPatch, algorithm: str
) -> None:
    run, settings = RunFolder(tmp_path / "run"), tiny(algorithm, epochs=2)
    stops = finish_step_by_step(lambda: runs.pretrain_run(settings, run.path, CALM), run)
    assert stops == [f"muc resume {run}"] * 2 * 4
    after_one_step.undo()
    assert_same_bits(run, runs.pretrain_run(settings, tmp_path / "whole", CALM))


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return runs.pretrain_run(tiny("moco", epochs=1), tmp_path_factory.mktemp("runs") / "original", CALM)


@pytest.mark.parametrize(
    "method",
    [
        *(kind(epochs=1) for name, kind in METHODS.items() if name != "alignment_calibration"),
        *(AlignmentCalibration(epochs=1, reading=reading) for reading in ("equations", "compat")),
    ],
    ids=lambda method: opening.method_name(method) + getattr(method, "reading", ""),
)
def test_every_method_stopped_after_every_step_ends_with_the_same_bits(
    tmp_path: Path, after_one_step: pytest.MonkeyPatch, original: RunFolder, method: Method
) -> None:
    run = RunFolder(tmp_path / "run")
    assert finish_step_by_step(lambda: runs.unlearn_run(original, method, TENTH, run.path, CALM), run)
    after_one_step.undo()
    assert_same_bits(run, runs.unlearn_run(original, method, TENTH, tmp_path / "whole", CALM))


def test_ctrl_c_outside_the_training_loop_also_says_how_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(RunFolder, "finish", interrupt)
    run = tmp_path / "my run"
    assert main(["pretrain", "--data", "digits", "--epochs", "1", "--threads", "1", "--out", str(run)]) == 130
    said = capsys.readouterr().err.partition("Go on with: ")[2]
    assert shlex.split(said) == ["muc", "resume", str(run)]
    assert said.strip() in complaint(capsys, ["export", str(run)])
    monkeypatch.undo()
    assert main(["resume", str(run)]) == 0


def complaint(capsys: pytest.CaptureFixture[str], argv: list[str]) -> str:
    """Run a command that must fail; -> its one sentence."""
    capsys.readouterr()
    assert main(argv) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("muc: error: ")
    return lines[0]


def test_a_run_is_replaced_only_with_force(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = RunFolder(tmp_path / "run")
    pretrain = ["pretrain", "--data", "digits", "--epochs", "1", "--threads", "1", "--out", str(run)]
    assert main(pretrain) == 0
    (run.path / "evaluation.json").write_text("{}")
    first = run.result()["model_sha256"]
    said = complaint(capsys, [*pretrain, "--seed", "1"])
    assert "holds a finished run; give another --out, or --force" in said
    assert run.result()["model_sha256"] == first
    assert main([*pretrain, "--seed", "1", "--force"]) == 0
    assert run.result()["model_sha256"] != first
    assert run.config()["seed"] == 1
    assert not (run.path / "evaluation.json").exists()


def test_an_interrupted_run_is_not_started_over_by_mistake(
    tmp_path: Path, after_one_step: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pretrain = ["pretrain", "--data", "digits", "--epochs", "1", "--threads", "1", "--out", str(tmp_path / "run")]
    assert main(pretrain) == 130
    assert "holds an interrupted run (muc resume continues it)" in complaint(capsys, pretrain)


def test_two_processes_do_not_train_one_run(
    tmp_path: Path, after_one_step: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    pretrain = ["pretrain", "--data", "digits", "--epochs", "1", "--threads", "1", "--out", str(run)]
    assert main(pretrain) == 130
    after_one_step.undo()
    partial = run / f".state.safetensors.x{storage.PARTIAL}"
    partial.touch()  # the other process is writing it
    other = storage.Hold(run)
    other.take()
    for command in (["resume", str(run)], pretrain, [*pretrain, "--force"]):
        assert f"another process is working in {run}; wait until it is done" in complaint(capsys, command)
    assert partial.exists()
    other.leave()
    assert main(["resume", str(run)]) == 0
    assert not partial.exists()


def test_a_start_keeps_others_out_from_its_first_file_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two starts at once: what is trained is all of one of them, and the other is refused."""
    run, whole, create = RunFolder(tmp_path / "run"), RunFolder(tmp_path / "whole"), RunFolder.create
    pretrain = ["pretrain", "--data", "digits", "--epochs", "1", "--threads", "1", "--out"]

    def create_while_another_starts(self: RunFolder, *settings: Any) -> None:
        monkeypatch.undo()
        partial = self.path / f".config.json.x{storage.PARTIAL}"
        partial.touch()  # as if in the middle of writing
        for other in (["--seed", "1"], ["--seed", "1", "--force"]):
            said = complaint(capsys, [*pretrain, str(self), *other])
            assert f"another process is working in {self}; wait until it is done" in said
        assert partial.exists()
        create(self, *settings)
        said = complaint(capsys, [*pretrain, str(self), "--seed", "1", "--force"])
        assert "another process is working" in said

    monkeypatch.setattr(RunFolder, "create", create_while_another_starts)
    assert main([*pretrain, str(run)]) == 0
    assert main([*pretrain, str(whole)]) == 0
    assert (run.config(), run.split().to_json()) == (whole.config(), whole.split().to_json())
    assert_same_bits(run, whole)


def test_a_run_that_another_process_has_just_finished_is_not_trained_again(
    tmp_path: Path, after_one_step: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = RunFolder(tmp_path / "run")
    with pytest.raises(Interrupted):
        runs.pretrain_run(tiny(epochs=1), run.path, CALM)
    after_one_step.undo()
    take = storage.Hold.take

    def take_late(self: storage.Hold) -> None:
        after_one_step.undo()
        runs.resume_run(run)
        take(self)

    after_one_step.setattr(storage.Hold, "take", take_late)
    assert "is finished; there is nothing to resume" in complaint(capsys, ["resume", str(run)])
    assert len(run.metrics()) == 1


def test_an_import_keeps_out_of_a_folder_where_another_process_works(
    tmp_path: Path, original: RunFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    from safetensors.torch import save_file

    weights = {name: value for name, value in original.load_model().items() if name.startswith("backbone.")}
    save_file(weights, tmp_path / "in.safetensors")
    run = tmp_path / "run"
    run.mkdir()
    other = storage.Hold(run)
    other.take()
    architecture = opening.pretraining_of(original).model.architecture
    argv = ["import", str(tmp_path / "in.safetensors"), "--data", "digits", "--architecture", architecture]
    assert "another process is working" in complaint(capsys, [*argv, "--out", str(run)])
    assert not list(run.iterdir())
    other.leave()
    assert main([*argv, "--out", str(run)]) == 0


def test_a_finished_run_cannot_be_resumed(original: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    before = original.result()
    assert "is finished; there is nothing to resume" in complaint(capsys, ["resume", str(original)])
    assert original.result() == before


def interrupted_unlearning(original: RunFolder, out: Path, monkeypatch: pytest.MonkeyPatch) -> RunFolder:
    with monkeypatch.context() as patch:
        patch.setattr(train, "interrupts", impatience)
        with pytest.raises(Interrupted):
            runs.unlearn_run(original, AlignmentCalibration(epochs=2), TENTH, out, CALM)
    return RunFolder(out)


def test_an_unlearning_does_not_go_on_from_another_parent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    parent = runs.pretrain_run(tiny(epochs=1), tmp_path / "parent", CALM)
    run = interrupted_unlearning(parent, tmp_path / "run", monkeypatch)
    runs.pretrain_run(replace(tiny(epochs=1), seed=1), parent.path, CALM, force=True)
    assert f"{parent} changed since {run} began" in complaint(capsys, ["resume", str(run)])
    assert not run.done


def test_a_run_does_not_go_on_with_other_data(
    tmp_path: Path, after_one_step: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import numpy as np

    images = np.random.default_rng(0).integers(0, 256, (40, 8, 8), dtype=np.uint8)
    np.savez(tmp_path / "mine.npz", images=images, labels=np.arange(40) % 4)
    data = ["--data", str(tmp_path / "mine.npz"), "--architecture", "mlp"]
    assert main(["pretrain", *data, "--epochs", "1", "--threads", "1", "--out", str(tmp_path / "run")]) == 130
    np.savez(tmp_path / "mine.npz", images=images[::-1], labels=np.arange(40) % 4)
    assert "is not what" in complaint(capsys, ["resume", str(tmp_path / "run")])


def test_a_damaged_state_is_named_and_never_skipped(
    tmp_path: Path, original: RunFolder, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Starting over in silence would give the right weights, but hide that the disk is failing."""
    run = interrupted_unlearning(original, tmp_path / "run", monkeypatch)
    state = run.path / "state.safetensors"
    damaged = bytearray(state.read_bytes())
    damaged[-1] ^= 1
    state.write_bytes(damaged)
    assert f"{state} is damaged" in complaint(capsys, ["resume", str(run)])


def test_a_state_of_another_architecture_is_refused(
    tmp_path: Path, original: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = interrupted_unlearning(original, tmp_path / "run", monkeypatch)
    values = read_json(run.path / "config.json")
    values["pretraining"]["model"]["queue_size"] = 32
    write_json(run.path / "config.json", values)
    with pytest.raises(UserError, match=r"do not fit its architecture .*queue"):
        runs.resume_run(run)


def test_an_import_that_was_cut_off_is_not_trained_instead(original: RunFolder, tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "run")
    run.create({**original.config(), "kind": "import"}, {}, original.split())
    with pytest.raises(UserError, match="was cut off; run the import again"):
        runs.resume_run(run)


def test_a_comparison_that_was_cut_off_goes_on(
    tmp_path: Path, original: RunFolder, after_one_step: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = ["compare", str(original), "--forget-fraction", "0.1", "--methods", "finetune", "neggrad"]
    argv += ["--threads", "1", "--out", str(tmp_path / "request"), "--json"]
    assert main(argv) == 130
    after_one_step.undo()
    capsys.readouterr()
    assert main(argv) == 0
    found = json.loads(capsys.readouterr().out)
    assert {row["method"] for row in found["ranking"]} == {"finetune", "neggrad"}
    after_one_step.setattr(records, "record_of", None)  # what was judged is not judged again
    assert main(argv) == 0
    assert json.loads(capsys.readouterr().out)["ranking"] == found["ranking"]


if __name__ == "__main__":
    kill_many_times(Path(sys.argv[1]))
