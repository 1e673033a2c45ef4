"""A folder that is decoded as it is needed gives the bits of one that is decoded at once: weights, resumes, metrics."""

import shutil
import signal
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from muc import config, opening, runs, train
from muc.__main__ import main
from muc.config import Request
from muc.data import load_images, plan_batches, sources
from muc.data.files import ImageFiles
from muc.errors import Interrupted
from muc.evaluation import features
from muc.evaluation.records import evaluate_runs, judge
from muc.methods import FineTune, Retrain
from muc.run_folder import RunFolder
from muc.runtime import Runtime

CALM = config.Runtime(device="cpu", threads=1)
N, CLASSES = 60, 3


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root, source = tmp_path_factory.mktemp("pictures"), np.random.default_rng(0)
    for i in range(N):
        path = root / f"class{i % CLASSES}" / f"{i:02}.png"
        path.parent.mkdir(exist_ok=True)
        Image.fromarray(source.integers(0, 256, (10, 12, 3), dtype=np.uint8)).save(path)
    return root


def settings(folder: Path, stream: Any) -> config.Pretraining:
    return config.Pretraining(
        data=config.Data(name=str(folder), image_size=8, stream=stream, validation_fraction=0.2),
        model=config.Model(architecture="mlp", projection_dim=8),
        optimisation=config.Optimisation(epochs=3, batch_size=8),
        probe=config.Probe(epochs=2, batch_size=8, crop_padding=1),
    )


def feeding() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("muc-feed")]


def served(folder: Path, stream: Any, out: Path) -> tuple[RunFolder, RunFolder]:
    original = runs.pretrain_run(settings(folder, stream), out / "original", CALM)
    return original, runs.unlearn_run(original, FineTune(epochs=2), Request(forget_fraction=0.2), out / "served", CALM)


@pytest.fixture(scope="module")
def both(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[RunFolder, RunFolder]]:
    return {stream: served(folder, stream, tmp_path_factory.mktemp(stream)) for stream in ("on", "off")}


def test_streamed_runs_end_with_the_same_weights(both: dict[str, tuple[RunFolder, RunFolder]]) -> None:
    for streamed, whole in zip(both["on"], both["off"], strict=True):
        assert isinstance(opening.open_images(streamed).train, ImageFiles)
        assert isinstance(opening.open_images(whole).train, np.ndarray)
        expected = whole.load_model()
        assert all(torch.equal(value, expected[name]) for name, value in streamed.load_model().items())


def test_streamed_runs_say_how_long_they_waited_and_what_bound_them(
    both: dict[str, tuple[RunFolder, RunFolder]],
) -> None:
    for run in both["on"]:
        result = run.result()
        assert 0 <= result["waiting"] <= 1
        slow = result["waiting"] > 0.05
        assert result["bound_by"] == ("reading and decoding" if slow else "the device")
        assert all(0 <= line["waiting"] <= 1 for line in run.metrics())
    for run in both["off"]:
        assert not {"waiting", "bound_by"} & run.result().keys()
        assert not any("waiting" in line for line in run.metrics())


def numbers(record: dict[str, Any]) -> dict[str, Any]:
    clock = ("RTE_minutes", "peak_memory_GB")
    return {k: v for k, v in record["metrics"].items() if k not in clock} | record["per_sample"]


@pytest.mark.parametrize("batch", [2048, 7])
def test_streamed_runs_are_judged_the_same(
    both: dict[str, tuple[RunFolder, RunFolder]], batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(features, "BATCH", batch)
    streamed, whole = ([numbers(r) for r in evaluate_runs(list(both[stream]), runtime=CALM)] for stream in both)
    assert streamed == whole
    runtime = Runtime(CALM)
    on, off = (judge(run, run, runtime, held_out="validation") for run in (both["on"][1], both["off"][1]))
    assert on == off


def test_arrays_without_room_on_the_device_give_the_same_too(
    both: dict[str, tuple[RunFolder, RunFolder]], folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(features, "BATCH", 7)
    resident = [numbers(record) for record in evaluate_runs(list(both["off"]), runtime=CALM)]
    monkeypatch.setattr(Runtime, "has_room", lambda _self, _bytes: False)
    assert [numbers(record) for record in evaluate_runs(list(both["off"]), runtime=CALM)] == resident
    run = runs.pretrain_run(settings(folder, "off"), tmp_path / "run", CALM)
    assert "bound_by" in run.result(), "it was streamed"
    assert run.result()["model_sha256"] == both["off"][0].result()["model_sha256"]


def test_a_streamed_run_that_was_cut_off_resumes_to_the_same_bits_and_leaves_no_threads(
    both: dict[str, tuple[RunFolder, RunFolder]], folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = 0

    def after_a_step(training: train.Training) -> None:
        nonlocal steps
        step(training)
        assert feeding()
        steps += 1
        if steps in (2, 9):
            signal.raise_signal(signal.SIGINT)

    step = train.Training._step
    monkeypatch.setattr(train.Training, "_step", after_a_step)
    with pytest.raises(Interrupted):
        runs.pretrain_run(settings(folder, "on"), tmp_path / "run", CALM)
    assert not feeding()
    run = RunFolder(tmp_path / "run")
    with pytest.raises(Interrupted):
        runs.resume_run(run)
    runs.resume_run(run)
    assert not feeding()
    assert run.result()["model_sha256"] == both["on"][0].result()["model_sha256"]


def training(folder: Path, stream: Any, device: str = "cpu") -> train.Training:
    chosen = settings(folder, stream)
    images = load_images(chosen.data)
    plan = plan_batches(np.arange(40), np.arange(0), "retain", 8, 0)
    model, runtime = opening.fresh_model(chosen, images, 0), Runtime(replace(CALM, device=device, deterministic=True))
    return train.Training(model, Retrain(), images.train, plan, chosen.views, chosen.optimisation, runtime, 0)


@pytest.mark.parametrize("device", ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"])
def test_a_step_on_streamed_pixels_is_the_step_on_resident_ones(folder: Path, device: str) -> None:
    """On a GPU the step is recorded after the third."""
    streamed, resident = training(folder, "on", device), training(folder, "off", device)
    for each in (streamed, resident):
        each.run()
    Runtime(CALM)  # other tests are not to be deterministic
    expected = resident.model.state_dict()
    assert all(torch.equal(value, expected[name]) for name, value in streamed.model.state_dict().items())
    assert (streamed.waiting() is None, resident.waiting() is None) == (False, True)


def test_the_time_an_earlier_session_waited_counts(folder: Path) -> None:
    first, second = training(folder, "on"), training(folder, "on")
    Runtime(CALM)
    first.feed.waited, first.seconds = 3.0, 12.0
    second.restore(*first.state())
    assert second.waiting() == 0.25


def test_a_file_that_breaks_during_a_run_is_named_and_ends_it(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(folder, tmp_path / "data")
    images = load_images(settings(tmp_path / "data", "on").data)
    broken = tmp_path / "data" / images.train_names[7]
    broken.write_bytes(b"no picture")
    argv = ["pretrain", "--data", str(tmp_path / "data"), "--stream", "on", "--image-size", "8", "--epochs", "50"]
    argv += ["--architecture", "mlp", "--batch-size", "8", "--threads", "1", "--validation-fraction", "0"]
    assert main([*argv, "--out", str(tmp_path / "run")]) == 2
    sentence = capsys.readouterr().err.strip().splitlines()[-1]
    assert sentence.startswith(f"muc: error: {broken} is not a readable image")
    assert sentence.endswith("; repair or remove it")
    assert not feeding()


def test_a_run_that_began_streamed_goes_on_so_on_a_larger_machine(
    both: dict[str, tuple[RunFolder, RunFolder]], folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "memory", lambda: 1000)
    run = runs.pretrain_run(settings(folder, "auto"), tmp_path / "small", CALM)
    monkeypatch.setattr(sources, "memory", lambda: 10**12)
    assert isinstance(opening.open_images(run).train, ImageFiles)
    run = runs.pretrain_run(replace(settings(folder, "auto"), seed=1), tmp_path / "large", CALM)
    monkeypatch.setattr(sources, "memory", lambda: 1000)
    assert isinstance(opening.open_images(run).train, np.ndarray)


def test_streamed_data_that_changed_is_refused(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(folder, tmp_path / "data")
    run = runs.pretrain_run(settings(tmp_path / "data", "on"), tmp_path / "run", CALM)
    next((tmp_path / "data").rglob("*.png")).unlink()
    assert main(["unlearn", str(run), "--forget-fraction", "0.1"]) == 2
    assert "is not what" in capsys.readouterr().err
