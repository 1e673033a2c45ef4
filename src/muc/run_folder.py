"""A run on disk: a folder that is complete and describes itself.

config.json         what was asked for, fully resolved
env.json            with what: commit, versions, device
split.json          which images were for what, by index
images.safetensors  what the images were: a digest of each
metrics.jsonl       one line an epoch, while running
state.safetensors   everything needed to go on (until the run is done)
model.safetensors   the result
result.json         written last: its presence means the run is done
evaluation.json     what `muc evaluate` found (original.json: of the original, on the same request)
search.json         what a search found of this run and the trials beside it
tensorboard/        the same numbers as in metrics.jsonl, where they were asked for
serve/              keys of those who may ask `muc serve` about this run, and what they asked
"""

import json
import shlex
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from muc.errors import UserError
from muc.restoring import restore
from muc.run_files import ConfigFile, ResultFile
from muc.split import Split
from muc.storage import (
    FORMAT_VERSION,
    PARTIAL,
    load_tensors,
    make_folder,
    plain,
    read_json,
    read_object,
    save_tensors,
    write_json,
    write_text,
)

CONFIG_KEYS = ("kind", "pretraining", "seed", "data_sha256", "ancestry", "runtime")
UNLEARN_KEYS = {"method": {"name"}, "parent": {"path", "model_sha256"}}
IMAGES = "images.safetensors"
RECORD, ORIGINAL_RECORD = "evaluation.json", "original.json"
OWN = {
    *("config.json", "env.json", "split.json", IMAGES, "metrics.jsonl", "state.safetensors", "model.safetensors"),
    *("result.json", RECORD, ORIGINAL_RECORD, "search.json", "tensorboard"),
}  # as listed above, but for data owners' keys (serve/); what else lies in a run's folder is not ours to remove
RECORD_KEYS = ("run", "seed")  # what `identity` may need; a report checks the rest


def identity(record: dict[str, Any]) -> tuple[Any, Any]:
    """Of what a record is: the model, wherever its run lies, and the request that it was judged on.
    Records of the first weeks have no digests; a path and a seed stand for their model."""
    model = record.get("model_sha256") or (record.get("run"), record.get("seed"))
    return model, record.get("request_sha256")


Tensors = tuple[dict[str, Any], dict[str, Any]]
"""Tensors by name, and metadata: what a file of them holds."""


def inside_run(place: Path) -> Path | None:
    """The run that a folder is, or lies in."""
    runs = (f for f in (place, *place.parents) if all((f / n).is_file() for n in ("config.json", "split.json")))
    return next(runs, None)


class RunFolder:
    """One run on disk."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)

    def __fspath__(self) -> str:
        return str(self.path)

    def __str__(self) -> str:
        return str(self.path)

    @property
    def config_file(self) -> Path:
        return self.path / "config.json"

    @property
    def done(self) -> bool:
        return (self.path / "result.json").is_file()

    @property
    def started(self) -> bool:
        return self.config_file.is_file()

    @property
    def how_to_go_on(self) -> str:
        """What to type where it was interrupted."""
        return shlex.join(["muc", "resume", str(self)])

    def make(self) -> None:
        """The folder itself, so that it can be locked before anything is written."""
        with self._permitted():
            make_folder(self.path)

    def create(
        self,
        config: dict[str, Any],
        env: dict[str, Any],
        split: Split,
        force: bool = False,
        inventory: Tensors | None = None,
    ) -> None:
        """Begin a run; a folder that holds one already is only emptied with `force`. Whoever calls this holds it."""
        self.check_free(force)
        if self.started:
            self._empty()
        with self._permitted():
            self.sweep()
            write_json(self.path / "split.json", split.to_json())
            if inventory:
                save_tensors(self.path / IMAGES, *inventory)
            write_json(self.path / "env.json", env)
            write_json(self.config_file, {"format_version": FORMAT_VERSION, **config})  # last: now it is a run

    def check_free(self, force: bool = False) -> None:
        """Refuse a place that holds anything; with `force`, anything but a run."""
        if self.path.exists() and not self.path.is_dir():
            raise UserError(f"{self} is a file, not a folder; give another --out")
        if not self.path.exists() or self._only_begun():
            return
        if not self.started:
            raise UserError(f"{self} is not empty and not a run; give another --out")
        if not force and not self._import_that_was_cut_off():
            state = "a finished run" if self.done else "an interrupted run (muc resume continues it)"
            raise UserError(f"{self} holds {state}; give another --out, or --force to replace it")
        for other in self.path.iterdir():
            if other.name not in OWN and other.suffix != PARTIAL:
                what = "holds data owners' keys" if other.name == "serve" else f"is no part of the run {self}"
                raise UserError(f"{other} {what} and would be lost; move it away first")

    @contextmanager
    def _permitted(self) -> Generator[None]:
        try:
            yield
        except PermissionError:
            raise UserError(f"no permission to write {self}; give another --out") from None

    def _only_begun(self) -> bool:
        """Whether nothing is here but, perhaps, what a start that was killed left: files, but no config.json yet."""
        return all(p.name in ("split.json", IMAGES, "env.json") or p.suffix == PARTIAL for p in self.path.iterdir())

    def _import_that_was_cut_off(self) -> bool:
        """There is nothing in it that could go on."""
        return not self.done and self.config()["kind"] == "import"

    def _empty(self) -> None:
        (self.path / "result.json").unlink(missing_ok=True)  # first: a half-emptied folder must not look finished
        children = [child for child in self.path.iterdir() if child.name != "config.json"]
        for child in children:
            shutil.rmtree(child) if child.is_dir() and not child.is_symlink() else child.unlink()
        self.config_file.unlink(missing_ok=True)  # last: what is still here must look like a run

    def sweep(self) -> None:
        """Remove the half-written files of a process that was killed."""
        for path in self.path.glob(f".*{PARTIAL}"):
            path.unlink(missing_ok=True)

    def config(self) -> dict[str, Any]:
        if self.path.is_file():
            raise UserError(f"{self} is a file, not a run; give run folders only (all of a folder's: FOLDER/*/)")
        if not self.path.is_dir():
            raise UserError(f"there is no run at {self}; 'muc runs' lists the runs below a folder")
        path = self.config_file
        if not path.exists() and (inside := sorted(self.path.glob("*/config.json"))):
            such = f"it holds {len(inside)}, {inside[0].parent} first"
            raise UserError(f"{path} is missing; is {self} a run folder? {such}")
        values = read_object(path, *CONFIG_KEYS)
        del values["format_version"]
        restore(ConfigFile, values, str(path), defaults=True)
        for part, keys in UNLEARN_KEYS.items() if values["kind"] == "unlearn" else ():
            if not all(isinstance((values.get(part) or {}).get(key), str) for key in keys):
                raise UserError(f"{path} has no complete '{part}'; restore it or make the run again")
        return values

    def env(self) -> dict[str, Any]:
        return read_json(self.path / "env.json")

    def split(self) -> Split:
        path = self.path / "split.json"
        return Split.from_json(read_object(path), path)

    def inventory(self) -> Tensors | None:
        """What is kept of its images (data/inventory.py)."""
        path = self.path / IMAGES
        return load_tensors(path) if path.exists() else None

    def made_by(self) -> str:
        """The method's name; of what serves no request, its kind."""
        values = self.config()
        return values["method"]["name"] if values["kind"] == "unlearn" else values["kind"]

    def original_sha256(self) -> str:
        """Of the weights that an unlearned run began with."""
        return self.config()["parent"]["model_sha256"]

    def result(self) -> dict[str, Any]:
        if not self.done:
            self.config()  # says what is wrong where there is no run at all
            raise UserError(f"the run {self} is not finished; continue it with: {self.how_to_go_on}")
        path = self.path / "result.json"
        values = read_object(path, "model_sha256", "seconds", "peak_memory_bytes")
        restore(ResultFile, values, str(path), defaults=True)
        return values

    def load_model(self) -> dict[str, Any]:
        self.result()
        return load_tensors(self.path / "model.safetensors")[0]

    def finish(self, tensors: dict[str, Any], metadata: dict[str, Any], result: dict[str, Any]) -> None:
        digest = save_tensors(self.path / "model.safetensors", tensors, metadata)
        write_json(self.path / "result.json", {"format_version": FORMAT_VERSION, "model_sha256": digest, **result})
        (self.path / "state.safetensors").unlink(missing_ok=True)

    def save_state(self, tensors: dict[str, Any], metadata: dict[str, Any]) -> None:
        save_tensors(self.path / "state.safetensors", tensors, metadata)

    def load_state(self) -> Tensors | None:
        path = self.path / "state.safetensors"
        return load_tensors(path) if path.exists() else None

    def append_metrics(self, values: dict[str, Any]) -> None:
        with open(self.path / "metrics.jsonl", "a") as f:
            f.write(json.dumps(values, default=plain) + "\n")

    def cut_metrics(self, epochs: int) -> None:
        """Drop the lines of epochs that will be run again, and a line cut off in the middle."""
        path = self.path / "metrics.jsonl"
        if path.exists():
            write_text(path, "".join(json.dumps(line) + "\n" for line in self.metrics() if line["epoch"] <= epochs))

    def metrics(self) -> list[dict[str, Any]]:
        path = self.path / "metrics.jsonl"
        lines = []
        for line in path.read_text(errors="replace").splitlines() if path.exists() else []:
            try:
                values = json.loads(line)
            except json.JSONDecodeError:
                break  # killed while writing it
            if not isinstance(values, dict) or type(values.get("epoch")) is not int:
                raise UserError(f"{path} holds the line {line[:40]!r}, which is no epoch's; remove it")
            lines.append(values)
        return lines

    def write_record(self, record: dict[str, Any], of_original: bool = False) -> None:
        """Keep an evaluation: of this run, or of the original on the request that this run serves."""
        write_json(self.path / (ORIGINAL_RECORD if of_original else RECORD), record)

    def records(self) -> list[dict[str, Any]]:
        """What `muc evaluate` left here: the original's record, if it was evaluated too, and the run's own."""
        self.config()
        paths = [path for name in (ORIGINAL_RECORD, RECORD) if (path := self.path / name).exists()]
        if not paths:
            command = shlex.join(["muc", "evaluate", str(self), "--against", "RETRAIN_RUN"])
            raise UserError(f"{self} has not been evaluated; first: {command}")
        return [read_object(path, *RECORD_KEYS) for path in paths]
