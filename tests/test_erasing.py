"""Images that a run has forgotten can be erased from the data: everything that does not need them goes on, to the same
bits, and what does need them says so."""

import io
import json
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from muc import opening
from muc.__main__ import main
from muc.api import embedder as api_embedder
from muc.config import Data
from muc.data import files
from muc.errors import UserError
from muc.run_folder import RunFolder
from muc.storage import save_tensors, write_json

N, FORGOTTEN = 60, 8
SMALL = ["--architecture", "mlp", "--epochs", "2", "--batch-size", "8", "--threads", "1", "--projection-dim", "8"]
SMALL += ["--image-size", "8"]
PAIRS = ["--algorithm", "clip", "--text-width", "16", "--text-layers", "1", "--text-context", "16"]


def pictures() -> list[Image.Image]:
    source = np.random.default_rng(0)
    return [Image.fromarray(source.integers(0, 256, (8, 8, 3), dtype=np.uint8)) for _ in range(N)]


def write_npz(path: Path, kept: list[int]) -> None:
    images = np.stack([np.asarray(picture) for picture in pictures()])[kept]
    np.savez(path / "mine.npz", images=images, labels=np.array(kept) % 3)


def write_folder(path: Path, kept: list[int]) -> None:
    shutil.rmtree(path / "mine", ignore_errors=True)
    for i, picture in enumerate(pictures()):
        if i in kept:
            file = path / "mine" / f"class{i % 3}" / f"{i:02}.png"
            file.parent.mkdir(parents=True, exist_ok=True)
            picture.save(file)


def write_shards(path: Path, kept: list[int]) -> None:
    (path / "mine").mkdir(exist_ok=True)
    with tarfile.open(path / "mine" / "0.tar", "w") as tar:
        for i, picture in enumerate(pictures()):
            encoded = io.BytesIO()
            picture.save(encoded, "PNG")
            about = json.dumps({"captions": [f"image {i}", f"number {i}"]}).encode()
            for suffix, data in (("png", encoded.getvalue()), ("json", about)) if i in kept else ():
                info = tarfile.TarInfo(f"k{i:02}.{suffix}")
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))


SOURCES: dict[str, tuple[Callable[[Path, list[int]], None], str, list[str]]] = {
    "npz": (write_npz, "mine.npz", []),
    "folder": (write_folder, "mine", ["--stream", "off"]),
    "streamed folder": (write_folder, "mine", ["--stream", "on"]),
    "shards": (write_shards, "mine", ["--stream", "off", *PAIRS]),
    "streamed shards": (write_shards, "mine", ["--stream", "on", *PAIRS]),
}


def places(run: RunFolder, rows: np.ndarray) -> list[int]:
    """Of the images in the source, by what they look like."""
    images, known = opening.open_images(run), [np.asarray(p).transpose(2, 0, 1).tobytes() for p in pictures()]
    return [known.index(np.asarray(images.train[int(i)]).tobytes()) for i in rows]


def numbers(run: RunFolder) -> dict[str, Any]:
    (record,) = [r for r in run.records() if r["method"] != "pretrain" and r["run"] == str(run)]
    return {k: v for k, v in record["metrics"].items() if k not in ("RTE_minutes", "peak_memory_GB")}


def say(capsys: pytest.CaptureFixture[str], *argv: object) -> tuple[int, str]:
    capsys.readouterr()
    code = main([str(argument) for argument in argv])
    return code, capsys.readouterr().err


@pytest.mark.parametrize("source", SOURCES)
def test_what_was_forgotten_is_erased_and_the_next_request_is_served_as_before(
    source: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write, name, flags = SOURCES[source]
    write(tmp_path, list(range(N)))
    runs, calm = tmp_path / "runs", ["--threads", "1"]
    assert main(["pretrain", "--data", str(tmp_path / name), *SMALL, *flags, "--out", str(runs / "first")]) == 0
    first = RunFolder(runs / "first")
    forgotten, asked = np.split(first.split().retain[: 2 * FORGOTTEN], 2)

    def unlearn(parent: str, method: str, rows: np.ndarray, out: str) -> tuple[int, str]:
        request = tmp_path / f"{out}.txt"
        names = opening.open_images(RunFolder(runs / parent), rows).train_names
        request.write_text("\n".join(names[i] if len(names) else str(i) for i in rows))
        argv = ["unlearn", runs / parent, "--method", method, "--epochs", 1, *calm, "--forget", request]
        return say(capsys, *argv, "--out", runs / out)

    def evaluate(run: str) -> tuple[int, str]:
        return say(capsys, "evaluate", runs / run, *calm)

    assert unlearn("first", "alignment_calibration", forgotten, "served")[0] == 0
    assert unlearn("served", "neggrad", asked, "next-before")[0] == 0
    assert evaluate("next-before")[0] == 0

    write(tmp_path, sorted(set(range(N)) - set(places(first, forgotten))))

    assert unlearn("served", "neggrad", asked, "next-after")[0] == 0
    before, after = (RunFolder(runs / run) for run in ("next-before", "next-after"))
    assert after.result()["model_sha256"] == before.result()["model_sha256"]
    assert evaluate("next-after")[0] == 0
    assert numbers(after) == numbers(before)
    again = ["--methods", "neggrad", "--forget", tmp_path / "next-before.txt", *calm]
    assert say(capsys, "compare", runs / "served", *again, "--out", runs / "compared")[0] == 0
    compared = RunFolder(runs / "compared" / "neggrad")
    assert sorted(compared.split().unlearn) == sorted(before.split().unlearn)
    if source == "folder":  # by name: it is no name any more
        code, sentence = say(capsys, "unlearn", runs / "served", "--forget", tmp_path / "served.txt")
        assert code == 2
        assert "unknown image" in sentence
        assert "names are such as 'class0/" in sentence
    for code, sentence in (evaluate("served"), unlearn("first", "finetune", asked, "again")):
        assert code == 2
        assert f"{FORGOTTEN} of the images that it needs are gone or changed, training image" in sentence
    assert not (runs / "again").exists()


@pytest.mark.parametrize(("emptied", "held_out"), [(True, 0), (False, 0), (False, 0.2)])
def test_a_class_can_be_erased_whole(
    emptied: bool, held_out: float, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also those of its images that were held out for validation. Its test images stay, of a class that has no training
    images any more."""
    data, runs = tmp_path / "mine", tmp_path / "runs"
    for i, picture in enumerate(pictures()):
        file = data / ("test" if i < 12 else "train") / f"class{i % 3}" / f"{i:02}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        picture.save(file)
    flags = ["--data", data, *SMALL, "--validation-fraction", held_out]
    assert say(capsys, "pretrain", *flags, "--out", runs / "first")[0] == 0
    calm = ["--method", "finetune", "--epochs", 1, "--threads", 1]
    assert say(capsys, "unlearn", runs / "first", *calm, "--forget-class", "class1", "--out", runs / "served")[0] == 0
    of_class = sum(i % 3 == 1 for i in range(12, N))
    request = RunFolder(runs / "served").config()["request"]
    assert request["images"] + request["never_trained_on"] == of_class
    assert bool(request["never_trained_on"]) == bool(held_out)
    second = ["unlearn", runs / "served", *calm, "--forget-fraction", 0.2, "--out"]
    assert say(capsys, *second, runs / "before")[0] == 0
    shutil.rmtree(data / "train" / "class1")
    if emptied:
        (data / "train" / "class1").mkdir()
    assert say(capsys, *second, runs / "after")[0] == 0
    before, after = (RunFolder(runs / run) for run in ("before", "after"))
    assert after.result()["model_sha256"] == before.result()["model_sha256"]
    assert opening.open_images(after, after.split().kept).class_names == ["class0", "class1", "class2"]
    code, sentence = say(capsys, "pretrain", *flags, "--out", runs / "new")
    assert code == 2
    assert ("holds no images" if emptied else "is of a class that has no training images") in sentence


def test_a_damaged_split_is_named_also_where_images_were_erased(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_npz(tmp_path, list(range(N)))
    assert main(["pretrain", "--data", str(tmp_path / "mine.npz"), *SMALL, "--out", str(tmp_path / "run")]) == 0
    run = RunFolder(tmp_path / "run")
    values = run.split().to_json()
    gone = values["retain"].pop()
    write_json(run.path / "split.json", values)
    write_npz(tmp_path, sorted(set(range(N)) - set(places(run, np.array([gone])))))
    write_json(run.path / "split.json", {**values, "retain": [10**6, *values["retain"][1:]]})
    code, sentence = say(capsys, "unlearn", run, "--method", "finetune", "--forget-fraction", 0.1)
    assert code == 2
    assert "names image 1000000, but mine had 48; restore its split.json" in sentence


def test_all_that_a_run_did_not_forget_is_needed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Validation images among it: nobody trains on them, but they judge."""
    write_npz(tmp_path, list(range(N)))
    assert main(["pretrain", "--data", str(tmp_path / "mine.npz"), *SMALL, "--out", str(tmp_path / "run")]) == 0
    run = RunFolder(tmp_path / "run")
    write_npz(tmp_path, sorted(set(range(N)) - set(places(run, run.split().validation[:1]))))
    code, sentence = say(capsys, "unlearn", run, "--method", "finetune", "--forget-fraction", 0.1)
    assert code == 2
    assert "that it needs" in sentence


def test_files_are_read_once_to_know_what_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_folder(tmp_path, list(range(N)))
    hashed: list[Path] = []
    plain = files._hash_file
    monkeypatch.setattr(files, "_hash_file", lambda path: hashed.append(path) or plain(path))
    argv = ["pretrain", "--data", str(tmp_path / "mine"), "--stream", "on", *SMALL, "--out", str(tmp_path / "run")]
    assert main(argv) == 0
    assert len(hashed) == N


def test_an_endpoint_is_far_from_all_images(tmp_path: Path) -> None:
    write_npz(tmp_path, list(range(N)))
    assert main(["pretrain", "--data", str(tmp_path / "mine.npz"), *SMALL, "--out", str(tmp_path / "run")]) == 0
    images = np.stack([np.asarray(picture).transpose(2, 0, 1) for picture in pictures()])
    run = RunFolder(tmp_path / "run")
    expected = api_embedder(opening.open_model(run, opening.open_images(run)))(images)
    (tmp_path / "mine.npz").unlink()
    embedder = opening.embedder(run)
    assert embedder.input_shape == (3, 8)
    assert np.array_equal(embedder(images), expected)
    for tensors, metadata in (({}, {}), ({"train": torch.zeros(1), "test": torch.zeros(1)}, {"classes": 3})):
        save_tensors(run.path / "images.safetensors", tensors, metadata)
        with pytest.raises(UserError, match="does not say what the run's images were; restore it from a copy"):
            opening.embedder(run)


def test_a_run_that_does_not_know_its_images_wants_all_of_them_as_they_were(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Runs of earlier versions."""
    write_npz(tmp_path, list(range(N)))
    assert main(["pretrain", "--data", str(tmp_path / "mine.npz"), *SMALL, "--out", str(tmp_path / "run")]) == 0
    (tmp_path / "run" / "images.safetensors").unlink()
    again = ["unlearn", tmp_path / "run", "--method", "finetune", "--epochs", 1, "--threads", 1]
    again += ["--forget-fraction", 0.1, "--out"]
    assert say(capsys, *again, tmp_path / "first")[0] == 0
    assert opening.embedder(RunFolder(tmp_path / "run")).input_shape == (3, 8)
    write_npz(tmp_path, list(range(1, N)))
    code, sentence = say(capsys, *again, tmp_path / "second")
    assert code == 2
    assert "is not what" in sentence
    assert "restore the original images" in sentence


def test_downloaded_data_are_found_from_anywhere_and_where_they_were_moved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    (here / "sets").mkdir(parents=True)
    there.mkdir()
    images, labels = np.stack([np.asarray(picture) for picture in pictures()]), np.arange(N) % 3
    np.savez(here / "sets" / "cifar10.npz", x_train=images, y_train=labels, x_test=images[:9], y_test=labels[:9])
    monkeypatch.chdir(here)
    assert main(["pretrain", "--data", "cifar10", "--root", "sets", *SMALL, "--out", str(tmp_path / "run")]) == 0
    run = RunFolder(tmp_path / "run")
    monkeypatch.chdir(there)
    monkeypatch.setenv("MUC_DATA", str(there / "none"))
    before = opening.open_images(run).digest
    (here / "sets").rename(there / "moved")
    monkeypatch.setenv("MUC_DATA", str(there / "moved"))
    assert opening.open_images(run).digest == before


def test_a_file_that_was_moved_is_sought_in_muc_data_whatever_root_the_run_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, there = RunFolder(tmp_path / "run"), tmp_path / "there"
    there.mkdir()
    data = Data(name=str(tmp_path / "gone" / "mine.npz"), root=tmp_path)
    monkeypatch.setenv("MUC_DATA", str(there))
    with pytest.raises(UserError, match=r"name the folder that holds 'mine\.npz' in MUC_DATA"):
        opening.located(data, run)
    write_npz(there, [0])
    assert opening.located(data, run).name == str(there / "mine.npz")


def test_files_of_data_that_were_moved_are_found_when_others_were_erased(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_folder(tmp_path, list(range(N)))
    run = RunFolder(tmp_path / "run")
    assert main(["pretrain", "--data", str(tmp_path / "mine"), "--stream", "on", *SMALL, "--out", str(run)]) == 0
    gone, kept = np.split(run.split().retain, [1])
    erased = places(run, gone)
    (tmp_path / "data").mkdir()
    shutil.rmtree(tmp_path / "mine")
    write_folder(tmp_path / "data", sorted(set(range(N)) - set(erased)))
    monkeypatch.chdir(tmp_path)  # ./data is where data are, where MUC_DATA does not say
    assert opening.open_images(run, kept).train[kept].any()
