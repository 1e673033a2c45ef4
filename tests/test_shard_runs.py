"""Image-text pairs in tar shards through the commands: streamed or not, cut off or not, the same bits."""

import io
import json
import signal
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from muc import config, opening, runs, train
from muc.__main__ import main
from muc.data.glyphs import load_glyph_pairs
from muc.errors import Interrupted
from muc.run_folder import RunFolder

N = 130
SMALL = ["--architecture", "mlp", "--image-size", "16", "--text-width", "16", "--text-layers", "1", "--epochs", "2"]
SMALL += ["--projection-dim", "16", "--text-context", "16", "--batch-size", "16", "--threads", "1"]


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Letters with one or two captions in three shards; one of them is broken."""
    folder, glyphs = tmp_path_factory.mktemp("letters"), load_glyph_pairs()
    for number in range(3):
        with tarfile.open(folder / f"{number}.tar", "w") as tar:
            for i in range(number, N, 3):
                picture = io.BytesIO()
                Image.fromarray(np.asarray(glyphs.train[i])[0]).save(picture, "PNG")
                text = glyphs.train_captions[i][0]
                about = json.dumps({"captions": [text, f"the {text}"][: 1 + i % 2]}).encode()
                for suffix, data in (("png", picture.getvalue() if i != 70 else b"broken"), ("json", about)):
                    info = tarfile.TarInfo(f"{i:06}.{suffix}")
                    info.size = len(data)
                    tar.addfile(info, io.BytesIO(data))
    return folder


def pretrain(shards: Path, stream: str, out: Path) -> int:
    asked = ["pretrain", "--algorithm", "clip", "--data", str(shards), "--stream", stream, *SMALL]
    return main([*asked, "--out", str(out)])


def numbers(record: dict[str, Any]) -> dict[str, Any]:
    clock = ("RTE_minutes", "peak_memory_GB")
    return {k: v for k, v in record["metrics"].items() if k not in clock} | record["per_sample"]


@pytest.fixture(scope="module")
def whole(shards: Path, tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    out = tmp_path_factory.mktemp("whole") / "run"
    assert pretrain(shards, "on", out) == 0
    return RunFolder(out)


def test_pretrain_unlearn_evaluate_and_report_streamed_or_not(
    shards: Path, whole: RunFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert pretrain(shards, "off", tmp_path / "off") == 0
    assert f"{shards.name}: 1 of 130 samples are broken and left out" in capsys.readouterr().err
    images = opening.open_images(whole)
    forgotten = whole.split().retain[[3, 8, 20, 1]]
    (tmp_path / "request").write_text("\n".join(images.train_names[i] for i in forgotten))
    records = []
    for original in (whole, RunFolder(tmp_path / "off")):
        served = tmp_path / f"{original.path.name}-served"
        for name in ("retrain", "alignment_calibration"):
            asked = ["unlearn", str(original), "--method", name, "--epochs", "1", "--threads", "1", "--out"]
            assert main([*asked, f"{served}-{name}", "--forget", str(tmp_path / "request")]) == 0
        capsys.readouterr()
        judged = [str(original), f"{served}-alignment_calibration", "--against", f"{served}-retrain"]
        assert main(["evaluate", *judged, "--threads", "1"]) == 0
        judged_runs = [RunFolder(f"{served}-{name}") for name in ("retrain", "alignment_calibration")]
        records.append([numbers(record) for run in judged_runs for record in run.records()])
        assert RunFolder(f"{served}-retrain").split().unlearn.tolist() == forgotten.tolist()
    assert records[0] == records[1]
    assert "zero_shot" not in records[0][0], "there are no classes"
    models = [[RunFolder(path).load_model() for path in (o, f"{tmp_path / o.path.name}-served-alignment_calibration")]
              for o in (whole, RunFolder(tmp_path / "off"))]  # fmt: skip
    for streamed, resident in zip(*models, strict=True):
        assert all(np.array_equal(value, resident[name]) for name, value in streamed.items())
    assert main(["report", *(f"{served}-{name}" for name in ("retrain", "alignment_calibration")),
                 "--out", str(tmp_path / "report")]) == 0  # fmt: skip
    assert (tmp_path / "report" / "report.html").exists()


def test_a_streamed_run_that_was_cut_off_resumes_to_the_same_bits(
    shards: Path, whole: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[list[bytes]] = []
    step = train.Training._step

    def after_a_step(training: train.Training) -> None:
        step(training)
        seen.append([pixels.tobytes() for pixels in training.feed.pixels().numpy()])
        if len(seen) in (2, 7):
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(train.Training, "_step", after_a_step)
    settings = opening.pretraining_of(whole)
    calm = config.Runtime(device="cpu", threads=1)
    with pytest.raises(Interrupted):
        runs.pretrain_run(settings, tmp_path / "run", calm)
    run = RunFolder(tmp_path / "run")
    with pytest.raises(Interrupted):
        runs.resume_run(run)
    runs.resume_run(run)
    assert run.result()["model_sha256"] == whole.result()["model_sha256"]
    pixels = opening.open_images(run).train[run.split().retain]
    steps = len(pixels) // 16
    assert len(seen) == 2 * steps
    for epoch in (seen[:steps], seen[steps:]):
        shown = [letter for batch in epoch for letter in batch]
        assert len(set(shown)) == len(shown) == steps * 16, "no letter twice, and none left out but what fills no batch"
        assert set(shown) <= {letter.tobytes() for letter in pixels}


def test_a_run_goes_on_with_the_same_pairs_in_other_shards_and_not_with_others(
    shards: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "letters"
    data.mkdir()
    for path in shards.iterdir():
        (data / path.name).write_bytes(path.read_bytes())
    assert pretrain(data, "on", tmp_path / "run") == 0
    with tarfile.open(data / "together.tar", "w") as together:
        for number in (2, 0):
            with tarfile.open(data / f"{number}.tar") as tar:
                for member in tar:
                    together.addfile(member, tar.extractfile(member))
            (data / f"{number}.tar").unlink()
    asked = ["unlearn", str(tmp_path / "run"), "--method", "finetune", "--epochs", "1", "--forget-fraction", "0.1"]
    assert main([*asked, "--threads", "1", "--out", str(tmp_path / "served")]) == 0
    (data / "1.tar").unlink()
    capsys.readouterr()
    assert main([*asked, "--threads", "1", "--out", str(tmp_path / "again")]) == 2
    assert "is not what" in capsys.readouterr().err
