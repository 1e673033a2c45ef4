"""The only place for file formats: run folders, checkpoints, splits and results. Versioned, checksummed, atomic.

A run folder is complete and describes itself:

    config.json         what was asked for, fully resolved
    env.json            with what: versions, device
    split.json          which images were for what, by index
    metrics.jsonl       one line an epoch, while running
    state.safetensors   everything needed to go on (until the run is done)
    model.safetensors   the result
    result.json         written last: its presence means the run is done
    evaluation.json     what `muc evaluate` found (original.json: of the original, on the same request)
"""

import json
import os
import re
import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from math import isfinite
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from muc.errors import UserError

FORMAT_VERSION = 1
PARTIAL = ".partial"
CONFIG_KEYS = ("kind", "pretraining", "seed", "data_sha256", "ancestry", "runtime")
UNLEARN_KEYS = {"method": {"name"}, "parent": {"path", "model_sha256"}}
RECORD, ORIGINAL_RECORD = "evaluation.json", "original.json"


@contextmanager
def replacing(path: Path) -> Generator[BinaryIO]:
    """Write a file beside `path`, flush it to disk, and only then put it in its place."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, partial = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=PARTIAL)
    try:
        with os.fdopen(handle, "wb") as f:
            yield f
            f.flush()
            os.fsync(f.fileno())
        os.chmod(partial, 0o644)
        os.replace(partial, path)
    except BaseException:
        Path(partial).unlink(missing_ok=True)
        raise


def write_text(path: Path, text: str) -> None:
    with replacing(path) as f:
        f.write(text.encode())


def write_json(path: Path, values: Any) -> None:
    text = json.dumps(_finite(values), indent=1, default=_plain, allow_nan=False)
    # Rows of numbers on one line: a file of 20,000 scores stays readable.
    text = re.sub(r"\[([-\d.,eE\s]+)\]", lambda row: f"[{' '.join(row[1].split())}]", text)
    write_text(path, text + "\n")


def _finite(values: Any) -> Any:
    """NaN and infinity have no place in JSON: null."""
    if isinstance(values, dict):
        return {key: _finite(value) for key, value in values.items()}
    if isinstance(values, list | tuple):
        return [_finite(value) for value in values]
    return None if isinstance(values, float) and not isfinite(values) else values


def _plain(value: Any) -> Any:
    """What JSON has no word for: paths, numpy scalars and arrays."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    return str(value)


def read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text())
    except FileNotFoundError:
        raise UserError(f"{path} is missing; is {path.parent} a run folder?") from None
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path} is not readable JSON ({error}); restore it or make the run again") from None


def read_object(path: Path, *keys: str) -> dict[str, Any]:
    """A JSON object of a version that can be read, with at least these keys."""
    values = read_json(path)
    if not isinstance(values, dict):
        raise UserError(f"{path} holds no JSON object; restore it or make the run again")
    check_version(values.get("format_version"), path)
    if missing := [key for key in keys if key not in values]:
        raise UserError(f"{path} has no '{missing[0]}'; restore it or make the run again")
    return values


def save_tensors(path: Path, tensors: dict[str, Any], metadata: dict[str, Any]) -> str:
    """One safetensors file whose header carries `metadata` and a SHA-256 over both; -> that digest."""
    from safetensors.torch import save

    tensors = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
    text = json.dumps(metadata, sort_keys=True)
    digest = _digest(tensors, text)
    payload = save(tensors, {"format_version": str(FORMAT_VERSION), "muc": text, "sha256": digest})
    free = shutil.disk_usage(path.parent).free
    if free < len(payload) + (1 << 20):
        raise UserError(
            f"{path} needs {len(payload) / 1e6:.0f} MB but only {free / 1e6:.0f} MB are free; make room, then resume"
        )
    with replacing(path) as f:
        f.write(payload)
    return digest


def load_tensors(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """-> (tensors, metadata) of a file that save_tensors wrote; any flipped bit is found."""
    from safetensors import SafetensorError, safe_open

    damaged = UserError(
        f"{path} is damaged (its checksum does not match); restore it from a copy or make the run again"
    )
    if not path.is_file():
        raise UserError(f"{path} is missing; the run has no saved weights there")
    try:
        with safe_open(path, framework="pt") as f:
            header = f.metadata() or {}
            tensors = {name: f.get_tensor(name) for name in f.keys()}  # noqa: SIM118, not a dict
    except (SafetensorError, ValueError, OSError):
        raise damaged from None
    check_version(header.get("format_version"), path)
    if "muc" not in header or header.get("sha256") != _digest(tensors, header["muc"]):
        raise damaged
    return tensors, json.loads(header["muc"])


def _digest(tensors: dict[str, Any], text: str) -> str:
    import torch

    state = sha256(text.encode())
    for name in sorted(tensors):
        value = tensors[name]
        state.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
        state.update(value.reshape(-1).view(torch.uint8).numpy().data if value.numel() else b"")
    return state.hexdigest()


def check_version(version: Any, where: Path) -> None:
    number = int(version) if str(version).isdecimal() else 0
    if number > FORMAT_VERSION:
        raise UserError(f"{where} has format version {version}, this muc reads up to {FORMAT_VERSION}; upgrade muc")
    if number < 1:
        raise UserError(f"{where} is damaged (it has no valid format version); restore it or make the run again")


@dataclass(frozen=True)
class Split:
    """Which training images serve for what, by index into the data set's training part."""

    seed: int
    validation: np.ndarray
    retain: np.ndarray
    unlearn: np.ndarray

    @property
    def train(self) -> np.ndarray:
        """D = R and U together: what the model before unlearning was trained on."""
        return np.concatenate([self.unlearn, self.retain])

    def to_json(self) -> dict[str, Any]:
        parts = {name: getattr(self, name).tolist() for name in ("validation", "retain", "unlearn")}
        return {"format_version": FORMAT_VERSION, "seed": self.seed, **parts}

    @staticmethod
    def from_json(values: dict[str, Any], where: Path) -> "Split":
        try:
            parts = {n: np.array(values[n], dtype=np.int64) for n in ("validation", "retain", "unlearn")}
            rows = np.concatenate(list(parts.values()))
            if rows.min(initial=0) < 0 or len(np.unique(rows)) < len(rows):
                raise ValueError("an index is negative or comes twice")
            return Split(seed=int(values["seed"]), **parts)
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise UserError(f"{where} is not a split file ({error}); restore it or make the run again") from None


class RunFolder:
    """One run on disk."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)

    def __fspath__(self) -> str:
        return str(self.path)

    def __str__(self) -> str:
        return str(self.path)

    @property
    def done(self) -> bool:
        return (self.path / "result.json").is_file()

    @property
    def started(self) -> bool:
        return (self.path / "config.json").is_file()

    def create(self, config: dict[str, Any], env: dict[str, Any], split: Split, force: bool = False) -> None:
        """Begin a run; a folder that holds one already is only emptied with `force`."""
        if self.path.exists() and not self.path.is_dir():
            raise UserError(f"{self} is a file, not a folder; give another --out")
        if self.path.exists() and not self._only_begun():
            if not self.started:
                raise UserError(f"{self} is not empty and not a run; give another --out")
            if not force:
                state = "a finished run" if self.done else "an interrupted run (muc resume continues it)"
                raise UserError(f"{self} holds {state}; give another --out, or --force to replace it")
            self._empty()
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self.sweep()
            write_json(self.path / "split.json", split.to_json())
            write_json(self.path / "env.json", env)
            write_json(self.path / "config.json", {"format_version": FORMAT_VERSION, **config})  # last: now it is a run
        except PermissionError:
            raise UserError(f"no permission to write {self}; give another --out") from None
        except NotADirectoryError:
            raise UserError(f"{self} is inside a file, not a folder; give another --out") from None

    def _only_begun(self) -> bool:
        """Whether nothing is here but, perhaps, what a start that was killed left: files, but no config.json yet."""
        return all(p.name in ("split.json", "env.json") or p.suffix == PARTIAL for p in self.path.iterdir())

    def _empty(self) -> None:
        (self.path / "result.json").unlink(missing_ok=True)  # first: a half-emptied folder must not look finished
        children = [child for child in self.path.iterdir() if child.name != "config.json"]
        for child in children:
            shutil.rmtree(child) if child.is_dir() and not child.is_symlink() else child.unlink()
        (self.path / "config.json").unlink(missing_ok=True)  # last: what is still here must look like a run

    def sweep(self) -> None:
        """Remove the half-written files of a process that was killed."""
        for path in self.path.glob(f".*{PARTIAL}"):
            path.unlink(missing_ok=True)

    def config(self) -> dict[str, Any]:
        if not self.path.is_dir():
            raise UserError(f"there is no run at {self}; 'muc runs' lists the runs below a folder")
        path = self.path / "config.json"
        values = read_object(path, *CONFIG_KEYS)
        for part, keys in UNLEARN_KEYS.items() if values["kind"] == "unlearn" else ():
            if not keys <= set(values.get(part) or ()):
                raise UserError(f"{path} has no complete '{part}'; restore it or make the run again")
        return {key: value for key, value in values.items() if key != "format_version"}

    def env(self) -> dict[str, Any]:
        return read_json(self.path / "env.json")

    def split(self) -> Split:
        path = self.path / "split.json"
        return Split.from_json(read_object(path), path)

    def result(self) -> dict[str, Any]:
        if not self.done:
            raise UserError(f"the run {self} is not finished; continue it with: muc resume {self}")
        return read_object(self.path / "result.json", "model_sha256", "seconds", "peak_memory_bytes")

    def load_model(self) -> dict[str, Any]:
        self.result()
        return load_tensors(self.path / "model.safetensors")[0]

    def finish(self, tensors: dict[str, Any], metadata: dict[str, Any], result: dict[str, Any]) -> None:
        digest = save_tensors(self.path / "model.safetensors", tensors, metadata)
        write_json(self.path / "result.json", {"format_version": FORMAT_VERSION, "model_sha256": digest, **result})
        (self.path / "state.safetensors").unlink(missing_ok=True)

    def save_state(self, tensors: dict[str, Any], metadata: dict[str, Any]) -> None:
        save_tensors(self.path / "state.safetensors", tensors, metadata)

    def load_state(self) -> tuple[dict[str, Any], dict[str, Any]] | None:
        path = self.path / "state.safetensors"
        return load_tensors(path) if path.exists() else None

    def append_metrics(self, values: dict[str, Any]) -> None:
        with open(self.path / "metrics.jsonl", "a") as f:
            f.write(json.dumps(values, default=_plain) + "\n")

    def cut_metrics(self, epochs: int) -> None:
        """Drop the lines of epochs that will be run again, and a line cut off in the middle."""
        path = self.path / "metrics.jsonl"
        if path.exists():
            write_text(path, "".join(json.dumps(line) + "\n" for line in self.metrics() if line["epoch"] <= epochs))

    def metrics(self) -> list[dict[str, Any]]:
        path = self.path / "metrics.jsonl"
        lines = []
        for line in path.read_text().splitlines() if path.exists() else []:
            try:
                lines.append(json.loads(line))
            except json.JSONDecodeError:
                break  # killed while writing it
        return lines

    def write_record(self, record: dict[str, Any], of_original: bool = False) -> None:
        """Keep an evaluation: of this run, or of the original on the request that this run serves."""
        write_json(self.path / (ORIGINAL_RECORD if of_original else RECORD), record)

    def records(self) -> list[dict[str, Any]]:
        """What `muc evaluate` left here: the original's record, if it was evaluated too, and the run's own."""
        self.config()
        paths = [path for name in (ORIGINAL_RECORD, RECORD) if (path := self.path / name).exists()]
        if not paths:
            raise UserError(f"{self} has not been evaluated; first: muc evaluate {self} --against RETRAIN_RUN")
        return [read_json(path) for path in paths]
