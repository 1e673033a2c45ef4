"""One way to write the audit's files, down to the byte, so that a file is either what was written or visibly not.

JSON with sorted keys, a "format" and a "version". A file that says the same in other bytes was touched, and is refused.
"""

import json
import os
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

from muc.errors import UserError
from muc.restoring import restore
from muc.storage import replacing

T = TypeVar("T")
VERSION = 2


def canonical(values: dict[str, Any]) -> bytes:
    return (json.dumps(values, sort_keys=True, indent=1, allow_nan=False) + "\n").encode()


def as_object(format: str, record: Any) -> dict[str, Any]:
    """The JSON object of a dataclass."""
    return {"format": format, "version": VERSION, **asdict(record)}


def write_new_secret(path: Path, content: bytes) -> None:
    """For the owner's eyes only, from the first moment on: nobody else may read it, and nothing is replaced."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as f:
        f.write(content)
        f.flush()
        os.fsync(f.fileno())


def write_bytes(path: Path, content: bytes) -> None:
    with replacing(path) as f:
        f.write(content)


def read_object(path: Path, format: str) -> dict[str, Any]:
    """The JSON object in a file of this format, as it was written to the byte."""
    content = read_bytes(path)
    try:
        values = json.loads(content)
    except (ValueError, RecursionError):
        raise UserError(f"{path} is not readable JSON; restore the file from a copy") from None
    if not isinstance(values, dict) or values.get("format") != format:
        raise UserError(f"{path} is not a '{format}' file; restore it, or give the folder of an audit")
    version = values.get("version")
    if type(version) is not int or version != VERSION:
        raise UserError(f"{path} has version {str(version)[:20]}, this muc reads {VERSION}; upgrade muc or restore it")
    try:
        same = canonical(values) == content
    except (ValueError, RecursionError):  # NaN has no place in JSON, but Python's reader takes it
        same = False
    if not same:
        raise UserError(f"{path} was changed after it was written; restore the file from a copy")
    return values


def as_record(kind: type[T], values: dict[str, Any], path: Path) -> T:
    return restore(kind, {k: v for k, v in values.items() if k not in ("format", "version")}, str(path))


def read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise UserError(f"{path} is missing; give the folder of an audit, complete") from None
    except IsADirectoryError:
        raise UserError(f"{path} is a folder; expected a file of an audit") from None


def digest(content: bytes) -> str:
    return sha256(content).hexdigest()


def is_digest(text: str) -> bool:
    return len(text) == 64 and set(text) <= set("0123456789abcdef")
