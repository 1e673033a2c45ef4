"""Settings read back from JSON."""

import json
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import UnionType
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from muc.errors import UserError

T = TypeVar("T")

PLAIN = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}


def from_dict(kind: type[T], values: Any, where: Path | None = None) -> T:
    """Rebuild a (nested) settings dataclass from JSON; unknown keys are errors, missing ones have their defaults."""
    what = f"{kind.__name__} settings in {where}" if where else f"{kind.__name__} settings"
    if not isinstance(values, dict):
        raise UserError(f"{what} should be a JSON object, not {type(values).__name__}")
    hints = get_type_hints(kind)
    names = {f.name for f in fields(cast(Any, kind))}
    if unknown := sorted(set(values) - names):
        raise UserError(f"{what} have no '{unknown[0]}'; was the run made by a newer muc?")
    try:
        return kind(**{name: _restore(hints[name], value, name, where) for name, value in values.items()})
    except TypeError as error:
        raise UserError(f"{what} are damaged ({error}); restore the file") from None


def _restore(hint: Any, value: Any, name: str, where: Path | None) -> Any:
    if is_dataclass(hint):
        return from_dict(cast(type, hint), value, where)
    if get_origin(hint) in (Union, UnionType):
        return None if value is None else _restore(get_args(hint)[0], value, name, where)
    if hint is Path:
        return Path(value)
    if hint is float and type(value) is int:
        return float(value)
    known = get_args(hint) if get_origin(hint) is Literal else ()
    if (hint in PLAIN and type(value) is not hint) or (known and value not in known):
        wanted = f"one of {', '.join(known)}" if known else PLAIN[hint]
        raise TypeError(f"{name} is {json.dumps(value)}, not {wanted}")
    return tuple(value) if isinstance(value, list) else value
