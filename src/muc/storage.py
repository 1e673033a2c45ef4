"""The only place for file formats: JSON and safetensors, written whole or not at all, versioned, checksummed."""

import errno
import fcntl
import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from functools import cache
from hashlib import sha256
from math import isfinite
from pathlib import Path
from secrets import token_hex
from typing import Any, BinaryIO

import numpy as np

from muc.errors import UserError

FORMAT_VERSION = 1
PARTIAL = ".partial"
SPARE_BYTES = 1 << 20  # what is left free beside a file of weights, for the small ones that come with it
LONGEST_SHOWN = 120  # letters of a path in a sentence
ROW_OR_TEXT = re.compile(r'"(?:[^"\\]|\\.)*"|\[([-\d.,eE\s]+)\]')
"""Of JSON: a row of numbers (group 1), or a text, in which brackets are what somebody wrote."""


@contextmanager
def writing(path: Path) -> Generator[None]:
    """Whatever the operating system has against a path is one sentence. Full disks and missing permissions pass: the
    command line has sentences of its own for them."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EPERM, errno.EROFS):
            raise
        shown = str(path) if len(str(path)) <= LONGEST_SHOWN else f"{str(path)[:LONGEST_SHOWN]}…"
        raise UserError(f"{shown} cannot be written ({error.strerror}); choose another place") from None


def make_folder(path: Path, mode: int = 0o777) -> None:
    """With all folders above it; one that is there is left as it is."""
    with writing(path):
        try:
            path.mkdir(mode, parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            what = "a link that leads nowhere" if path.is_symlink() else "a file" if path.exists() else "inside a file"
            raise UserError(f"{path} is {what}, not a folder; give another --out") from None


def prepare_folder(path: Path) -> None:
    """Before what takes long: the folder is there, and takes files."""
    make_folder(path)
    with writing(path), tempfile.TemporaryFile(dir=path):
        pass


class Hold:
    """A folder that one process at a time may work in. The folder itself is locked: no file is left behind, and the
    lock goes with the process, however that ends."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.handle = folder, -1

    def take(self) -> None:
        self.handle = os.open(self.folder, os.O_RDONLY)
        try:
            fcntl.flock(self.handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.leave()
            raise UserError(
                f"another process is working in {self.folder}; wait until it is done, or give another folder"
            ) from None
        except OSError as error:  # a network's file system
            tell_once(
                f"muc: warning: folders cannot be locked here ({error.strerror}); see to it that no two processes work "
                "in one run"
            )

    def leave(self) -> None:
        if self.handle >= 0:
            os.close(self.handle)
        self.handle = -1

    def __enter__(self) -> None:
        self.take()

    def __exit__(self, *_: object) -> None:
        self.leave()


@cache
def tell_once(text: str) -> None:
    """A comparison takes many folders of one file system."""
    print(text, file=sys.stderr)


@contextmanager
def replacing(path: Path) -> Generator[BinaryIO]:
    """Write a file beside `path`, flush it to disk, and only then put it in its place."""
    make_folder(path.parent)
    partial = path.with_name(f".{path.name}.{token_hex(8)}{PARTIAL}")
    with writing(path):
        handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)  # less what the user's umask forbids
    try:
        with os.fdopen(handle, "wb") as f:
            yield f
            f.flush()
            os.fsync(f.fileno())
        with writing(path):
            os.replace(partial, path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    _flush(path.parent)


def _flush(folder: Path) -> None:
    """A file is safe when its folder's entry is on the disk, too."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError:
        pass  # a network's file system that cannot do that for folders
    finally:
        os.close(handle)


def write_bytes(path: Path, content: bytes) -> None:
    with replacing(path) as f:
        f.write(content)


def write_text(path: Path, text: str) -> None:
    write_bytes(path, text.encode())


def write_json(path: Path, values: Any) -> None:
    text = json.dumps(_finite(values), indent=1, default=plain, allow_nan=False)
    # Rows of numbers on one line: a file of 20,000 scores stays readable.
    text = re.sub(ROW_OR_TEXT, lambda found: found[0] if found[1] is None else f"[{' '.join(found[1].split())}]", text)
    write_text(path, text + "\n")


def _finite(values: Any) -> Any:
    """NaN and infinity have no place in JSON: null."""
    if isinstance(values, dict):
        return {key: _finite(value) for key, value in values.items()}
    if isinstance(values, list | tuple):
        return [_finite(value) for value in values]
    return None if isinstance(values, float) and not isfinite(values) else values


def plain(value: Any) -> Any:
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
        raise UserError(f"{path} is not readable JSON ({error}); restore it or make it again") from None


def read_object(path: Path, *keys: str) -> dict[str, Any]:
    """A JSON object of a version that can be read, with at least these keys."""
    values = read_json(path)
    if not isinstance(values, dict):
        raise UserError(f"{path} holds no JSON object; restore it or make it again")
    check_version(values.get("format_version"), path)
    if missing := [key for key in keys if key not in values]:
        raise UserError(f"{path} has no '{missing[0]}'; restore it or make it again")
    return values


def save_tensors(path: Path, tensors: dict[str, Any], metadata: dict[str, Any]) -> str:
    """One safetensors file whose header carries `metadata` and a SHA-256 over both; -> that digest.

    All of it is one value under one key: of several keys safetensors writes any first, and equal files would differ.
    """
    from safetensors.torch import save

    tensors = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
    text = json.dumps(metadata, sort_keys=True)
    digest = _digest(tensors, text)
    header = {"format_version": FORMAT_VERSION, "metadata": text, "sha256": digest}
    payload = save(tensors, {"muc": json.dumps(header)})
    needed, free = len(payload) + SPARE_BYTES, shutil.disk_usage(path.parent).free
    if free < needed:
        raise UserError(
            f"{path} needs {needed:,} bytes but only {free:,} are free; make room and run the same command again"
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
        raise UserError(f"{path} is missing; restore it from a copy or make the run again")
    check_readable(path)
    try:
        with safe_open(path, framework="pt") as f:
            header = f.metadata() or {}
            tensors = {name: f.get_tensor(name) for name in f.keys()}  # noqa: SIM118, not a dict
    except (SafetensorError, ValueError, OSError):
        raise damaged from None
    found = _read_header(header)
    check_version(found.get("format_version"), path)
    text = found.get("metadata")
    if not isinstance(text, str) or found.get("sha256") != _digest(tensors, text):
        raise damaged
    return tensors, json.loads(text)


def read_metadata(path: Path) -> dict[str, Any]:
    """That of a file that save_tensors wrote, without its tensors, which are not checked; nothing of any other."""
    from safetensors import safe_open

    with safe_open(path, framework="pt") as f:
        found = json.loads(_read_header(f.metadata() or {}).get("metadata") or "{}")
    return found if isinstance(found, dict) else {}


def check_readable(path: Path) -> None:
    """safetensors says of a file without permission that it is not there, which is not to be called damage."""
    with open(path, "rb"):
        pass


def _read_header(header: dict[str, str]) -> dict[str, Any]:
    """What save_tensors wrote; at first it was three values under keys of their own."""
    if "format_version" in header:
        return {**header, "metadata": header.get("muc")}
    try:
        found = json.loads(header.get("muc", ""))
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


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
        raise UserError(f"{where} is damaged (it has no valid format version); restore it or make it again")
