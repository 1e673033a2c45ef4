"""Files survive what happens to files: flipped bits, cut ends, full disks, missing permissions, newer versions."""

import errno
import json
import os
import re
import shutil
from collections import namedtuple
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from muc import storage
from muc.__main__ import main
from muc.errors import UserError
from muc.run_folder import RunFolder
from muc.split import Split
from muc.storage import (
    load_tensors,
    make_folder,
    prepare_folder,
    replacing,
    save_tensors,
    write_json,
    write_text,
)

DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.uint8, torch.bool)
OLDER = (
    b'\x00\x01\x00\x00\x00\x00\x00\x00{"__metadata__":{"muc":"{\\"kind\\": \\"test\\"}","sha256":"'
    b'd1e5a1fe9e2d4d7f4a6672c7191dd476adcc8fa817675ef40c66abf47f20e41c","format_version":"1"},'
    b'"b":{"dtype":"I64","shape":[],"data_offsets":[0,8]},"a":{"dtype":"F32","shape":[2],"data_offsets":[8,16]}}      '
    b"\x07\x00\x00\x00\x00\x00\x00\x00\x00\x00\xc0?\x00\x00\x00\xc0"
)
"""The same tensors as in small_file, as they were written at first: three values in the header, in any order."""
WRITTEN = ["config.json", "env.json", "images.safetensors", "split.json"]
SPLIT = Split(seed=3, validation=np.array([4, 1]), retain=np.array([0, 5, 2]), unlearn=np.array([3, 6]))


def bits(value: torch.Tensor) -> bytes:
    return value.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes() if value.numel() else b""


@st.composite
def tensors(draw: st.DrawFn) -> torch.Tensor:
    """Any bits at all (NaN, infinities, negative zero among them) in any of the types a model has."""
    dtype = draw(st.sampled_from(DTYPES))
    shape = draw(st.lists(st.integers(0, 3), max_size=3))
    size = torch.Size(shape).numel() * dtype.itemsize
    raw = draw(st.binary(min_size=size, max_size=size))
    if dtype == torch.bool:
        raw = bytes(b & 1 for b in raw)
    return torch.frombuffer(bytearray(raw), dtype=dtype).reshape(shape) if size else torch.empty(shape, dtype=dtype)


def small_file(folder: Path) -> Path:
    path = folder / "model.safetensors"
    save_tensors(path, {"a": torch.tensor([1.5, -2.0]), "b": torch.tensor(7)}, {"kind": "test"})
    return path


@given(
    values=st.dictionaries(st.text(st.characters(codec="ascii"), min_size=1, max_size=8), tensors(), max_size=4),
    metadata=st.dictionaries(st.text(max_size=4), st.integers() | st.floats(allow_nan=False) | st.text(), max_size=3),
)
def test_what_is_saved_is_loaded_bit_for_bit(
    tmp_path_factory: pytest.TempPathFactory, values: dict[str, torch.Tensor], metadata: dict[str, Any]
) -> None:
    path = tmp_path_factory.mktemp("tensors") / "t.safetensors"
    save_tensors(path, values, metadata)
    found, found_metadata = load_tensors(path)
    assert found_metadata == metadata
    assert found.keys() == values.keys()
    for name, value in values.items():
        assert found[name].dtype == value.dtype
        assert found[name].shape == value.shape
        assert bits(found[name]) == bits(value)


def test_a_transposed_tensor_is_saved_as_what_it_shows(tmp_path: Path) -> None:
    value = torch.arange(6.0).reshape(2, 3).T
    save_tensors(tmp_path / "t", {"a": value}, {})
    assert torch.equal(load_tensors(tmp_path / "t")[0]["a"], value)


def test_the_digest_tells_tensors_and_metadata_apart(tmp_path: Path) -> None:
    a, b = torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.5])
    digests = {
        save_tensors(tmp_path / "t", tensors, metadata)
        for tensors, metadata in (
            ({"x": a}, {}),
            ({"x": b}, {}),
            ({"y": a}, {}),
            ({"x": a.view(torch.int32)}, {}),
            ({"x": a[:, None]}, {}),
            ({"x": a}, {"kind": "other"}),
        )
    }
    assert len(digests) == 6
    assert save_tensors(tmp_path / "t", {"x": a.clone()}, {}) in digests


def older_file(folder: Path) -> Path:
    path = folder / "older.safetensors"
    path.write_bytes(OLDER)
    return path


def test_equal_tensors_make_equal_files(tmp_path: Path) -> None:
    digests = set()
    for i in range(20):  # one of six orders, if it were left to chance
        values = {"kind": "test", "seed": 3} if i % 2 else {"seed": 3, "kind": "test"}
        save_tensors(tmp_path / "t", {"a": torch.tensor([1.5, -2.0]), "b": torch.tensor(7)}, values)
        digests.add(sha256((tmp_path / "t").read_bytes()).hexdigest())
    assert len(digests) == 1


def test_files_as_they_were_written_at_first_are_still_read(tmp_path: Path) -> None:
    tensors, metadata = load_tensors(older_file(tmp_path))
    assert metadata == {"kind": "test"}
    assert torch.equal(tensors["a"], torch.tensor([1.5, -2.0]))
    assert torch.equal(tensors["b"], torch.tensor(7))


@pytest.mark.parametrize("kind", [small_file, older_file])
def test_every_flipped_bit_is_found(tmp_path: Path, kind: Callable[[Path], Path]) -> None:
    path = kind(tmp_path)
    whole = path.read_bytes()
    for position in range(len(whole)):
        for mask in (*(1 << bit for bit in range(8)), 0xFF):
            damaged = bytearray(whole)
            damaged[position] ^= mask
            path.write_bytes(damaged)
            with pytest.raises(UserError):
                load_tensors(path)
    path.write_bytes(whole)
    load_tensors(path)


def test_every_cut_is_found_and_so_is_anything_added(tmp_path: Path) -> None:
    path = small_file(tmp_path)
    whole = path.read_bytes()
    for damaged in (*(whole[:length] for length in range(len(whole))), whole + b"\0"):
        path.write_bytes(damaged)
        with pytest.raises(UserError, match="damaged"):
            load_tensors(path)


def test_tensors_of_a_newer_version_ask_for_an_upgrade(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "FORMAT_VERSION", 99)
    path = small_file(tmp_path)
    monkeypatch.undo()
    with pytest.raises(UserError, match=r"format version 99.*upgrade muc"):
        load_tensors(path)


def test_a_file_of_another_program_is_not_taken_for_ours(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    save_file({"a": torch.zeros(2)}, tmp_path / "t.safetensors")
    with pytest.raises(UserError):
        load_tensors(tmp_path / "t.safetensors")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"nothing\.safetensors is missing"):
        load_tensors(tmp_path / "nothing.safetensors")


def interrupted_write(path: Path, error: BaseException) -> None:
    with replacing(path) as f:
        f.write(b"half")
        raise error


@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(errno.ENOSPC, "no space"), ValueError()])
def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path: Path, error: BaseException) -> None:
    path = tmp_path / "config.json"
    path.write_text("old")
    with pytest.raises(type(error)):
        interrupted_write(path, error)
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["config.json"]


def test_a_file_is_never_seen_half_written(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with replacing(path) as f:
        f.write(b"half")
        f.flush()
        assert not path.exists()
    assert path.read_bytes() == b"half"


def refuse(*_args: Any, **_options: Any) -> NoReturn:
    raise PermissionError(errno.EACCES, "Permission denied", "/somewhere")


@pytest.mark.parametrize("function", ["replace", "mkdir"])
def test_no_write_permission_is_one_sentence_and_leaves_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, function: str
) -> None:
    out = tmp_path / "out" / "run"
    monkeypatch.setattr(storage.os, function, refuse)
    with pytest.raises(UserError, match=r"no permission to write .*; give another --out"):
        RunFolder(out).create({}, {}, SPLIT)
    monkeypatch.undo()
    assert not out.exists() or not list(out.iterdir())


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_folder_is_named(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(UserError, match="no permission to write"):
        RunFolder(tmp_path / "run").create({}, {}, SPLIT)


@pytest.mark.parametrize("place", ["/proc/x", "x" * 300, "x" * 300 + "/y", "file/x"])
def test_a_place_where_nothing_can_be_written_is_one_sentence(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    for write in (make_folder, prepare_folder, lambda path: write_json(path / "a.json", {})):
        with pytest.raises(UserError, match=r"cannot be written \(.+\); choose another place|inside a file") as said:
            write(Path(place))
        assert len(str(said.value)) < 250


def test_a_folder_in_the_place_of_a_file_is_named_and_nothing_is_left(tmp_path: Path) -> None:
    (tmp_path / "report.html").mkdir()
    with pytest.raises(UserError, match=r"report\.html cannot be written \(Is a directory\)"):
        write_text(tmp_path / "report.html", "words")
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


@pytest.mark.parametrize("free", [1000, 1 << 20])
def test_too_little_disk_space_is_noticed_before_writing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int
) -> None:
    path = small_file(tmp_path)
    whole = path.read_bytes()
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(10**9, 10**9 - free, free))
    with pytest.raises(UserError, match=f"only {free:,} are free; make room and run the same command again") as said:
        save_tensors(path, {"a": torch.zeros(9)}, {})
    needed = re.findall(r"needs ([\d,]+) bytes", str(said.value))
    assert int(needed[0].replace(",", "")) > free
    assert path.read_bytes() == whole


@pytest.mark.parametrize(
    ("number", "words"), [(errno.ENOSPC, "disk is full"), (errno.EDQUOT, "disk is full"), (errno.EROFS, "permission")]
)
def test_a_disk_error_ends_a_command_with_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], number: int, words: str
) -> None:
    def fail(*_: Any) -> NoReturn:
        raise OSError(number, os.strerror(number), str(tmp_path))

    monkeypatch.setattr(storage.os, "fsync", fail)
    code = main(["pretrain", "--data", "digits", "--epochs", "1", "--device", "cpu", "--out", str(tmp_path / "run")])
    lines = capsys.readouterr().err.strip().splitlines()
    assert code == 2
    assert len(lines) == 1
    assert lines[0].startswith("muc: error: ")
    assert words in lines[0]


CONFIG = {"kind": "pretrain", "pretraining": {}, "seed": 0, "data_sha256": "", "ancestry": [], "runtime": {}}


def run_folder(path: Path, **config: Any) -> RunFolder:
    run = RunFolder(path)
    run.create({**CONFIG, **config}, {}, SPLIT, inventory=({"train": torch.zeros(1)}, {}))
    return run


def test_a_split_comes_back_as_it_was(tmp_path: Path) -> None:
    run = run_folder(tmp_path / "run")
    found = run.split()
    assert found.seed == SPLIT.seed
    for name in ("validation", "retain", "unlearn", "train"):
        assert np.array_equal(getattr(found, name), getattr(SPLIT, name))
        assert getattr(found, name).dtype == np.int64


@pytest.mark.parametrize(
    "damage",
    [
        {"retain": ["x"]},
        {"retain": [0.9]},
        {"retain": [False]},
        {"retain": [[1], [2, 3]]},
        {"retain": [2**70]},
        {"retain": None},
        {"retain": [0, -1]},
        {"retain": [0, 3]},  # 3 is to be forgotten
        {"seed": "one"},
        {"seed": 3.5},
        {"seed": None},
    ],
    ids=str,
)
def test_a_damaged_split_is_named(tmp_path: Path, damage: dict[str, Any]) -> None:
    run = run_folder(tmp_path / "run")
    write_json(run.path / "split.json", {**SPLIT.to_json(), **damage})
    with pytest.raises(UserError, match=r"split\.json(: '(retain|seed)| is not a split file).*; restore"):
        run.split()


@pytest.mark.parametrize("text", ["[]", "null", "{}", '{"seed": 1', "\udcff", "[" * 100_000])
def test_json_that_is_not_what_it_should_be_is_named(tmp_path: Path, text: str) -> None:
    run = run_folder(tmp_path / "run")
    for name, read in (("split.json", run.split), ("result.json", run.result), ("config.json", run.config)):
        (run.path / name).write_bytes(text.encode(errors="surrogateescape"))
        with pytest.raises(UserError, match=name.replace(".", r"\.")):
            read()


@pytest.mark.parametrize("name", ["config.json", "split.json"])
def test_json_of_a_newer_version_asks_for_an_upgrade(tmp_path: Path, name: str) -> None:
    run = run_folder(tmp_path / "run")
    values = json.loads((run.path / name).read_text())
    write_json(run.path / name, {**values, "format_version": 99})
    with pytest.raises(UserError, match=r"format version 99.*upgrade muc"):
        run.split() if name == "split.json" else run.config()


def test_a_folder_that_is_no_run_is_never_touched(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    for force in (False, True):
        with pytest.raises(UserError, match="not empty and not a run"):
            RunFolder(tmp_path).create({}, {}, SPLIT, force)
    assert (tmp_path / "thesis.tex").read_text() == "years of work"


@pytest.mark.parametrize(
    ("out", "what"),
    [("file", "a file"), ("file/run", "inside a file"), ("link", "a link that leads nowhere")],
)
def test_a_file_where_the_folder_should_be_is_one_sentence(tmp_path: Path, out: str, what: str) -> None:
    (tmp_path / "file").write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(UserError, match=f"{out} is {what}, not a folder"):
        make_folder(tmp_path / out)
    with pytest.raises(UserError, match="give another --out"):
        RunFolder(tmp_path / out).create({}, {}, SPLIT, force=True)
    with pytest.raises(UserError, match="give another --out"):
        write_json(tmp_path / out / "results.json", {})
    assert (tmp_path / "file").read_text() == "mine"


def test_a_start_that_was_killed_can_be_started_again(tmp_path: Path) -> None:
    """Before config.json is written there is no run yet, only its beginnings."""
    run = run_folder(tmp_path / "run")
    (run.path / "config.json").rename(run.path / ".config.json.x1y2.partial")
    assert not run.started
    assert run_folder(tmp_path / "run").started
    assert sorted(p.name for p in run.path.iterdir()) == WRITTEN


def test_a_replacement_that_is_killed_leaves_no_settings_beside_another_split(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = run_folder(tmp_path / "run")
    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "sweep", interrupted)
        with pytest.raises(KeyboardInterrupt):
            run.create({**CONFIG, "seed": 1}, {}, SPLIT, force=True)
    assert not run.started
    run_folder(run.path, seed=2)
    assert run.config()["seed"] == 2


def interrupted(*_: Any) -> NoReturn:
    raise KeyboardInterrupt


def test_a_folder_that_cannot_be_locked_is_said_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def unable(*_: Any) -> NoReturn:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))

    monkeypatch.setattr(storage.fcntl, "flock", unable)
    storage.tell_once.cache_clear()
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        hold = storage.Hold(tmp_path / name)
        hold.take()
        hold.leave()
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 1
    assert "folders cannot be locked here (Bad file descriptor); see to it that no two processes" in said[0]


def test_metrics_lose_only_what_will_be_written_again(tmp_path: Path) -> None:
    run = run_folder(tmp_path / "run")
    for epoch in (1, 2, 3):
        run.append_metrics({"epoch": epoch, "loss": np.float32(0.5)})
    with open(run.path / "metrics.jsonl", "a") as f:
        f.write('{"epoch": 4, "lo')
    run.cut_metrics(2)
    assert run.metrics() == [{"epoch": 1, "loss": 0.5}, {"epoch": 2, "loss": 0.5}]


@pytest.mark.parametrize("line", ["5", "[]", '{"loss": 1}'])
def test_metrics_that_are_none_are_named(tmp_path: Path, line: str) -> None:
    run = run_folder(tmp_path / "run")
    (run.path / "metrics.jsonl").write_bytes(b"\xff\n")  # killed while writing it
    assert run.metrics() == []
    (run.path / "metrics.jsonl").write_text(line + "\n")
    with pytest.raises(UserError, match=r"metrics\.jsonl holds the line .*, which is no epoch's; remove it"):
        run.cut_metrics(1)


def test_texts_are_kept_as_they_are_and_rows_of_numbers_on_a_line(tmp_path: Path) -> None:
    values = {"photo [1  2].png": 'a "quoted" [3,  4] and a \\', "scores": [1.5, -2e-7], "[5,  6]": ["[7  8]"]}
    write_json(tmp_path / "a.json", values)
    assert json.loads((tmp_path / "a.json").read_text()) == values
    assert '"scores": [1.5, -2e-07]' in (tmp_path / "a.json").read_text()


def test_what_a_user_hides_stays_hidden(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        write_text(tmp_path / "hidden", "text")
        os.umask(0o022)
        write_text(tmp_path / "open", "text")
    finally:
        os.umask(before)
    modes = [(tmp_path / name).stat().st_mode & 0o777 for name in ("hidden", "open")]
    assert modes == [0o600, 0o644]
