"""Dataclasses from JSON, strictly: what is unknown or of another type is named with its place, never guessed."""

from dataclasses import fields, is_dataclass
from pathlib import Path
from types import UnionType
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from muc.errors import UserError

T = TypeVar("T")
WORDS = {int: "a whole number", float: "a number", str: "a text", bool: "true or false", Path: "a text"}


def restore(kind: type[T], values: Any, where: str, defaults: bool = False) -> T:
    """The dataclass that `values` describe; with `defaults`, what is missing has its own. `where` is the file's name;
    errors say which field of it is wrong."""
    return cast(T, _restore(kind, values, where, "", defaults))


def _restore(hint: Any, value: Any, where: str, field: str, defaults: bool) -> Any:
    if is_dataclass(hint):
        return _dataclass(cast(type, hint), value, where, field, defaults)
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return None if value is None else _restore(inner[0], value, where, field, defaults)
    if origin is Literal:
        return value if value in inner else _refuse(value, f"one of {', '.join(map(str, inner))}", where, field)
    if origin is tuple:  # JSON has lists
        if not isinstance(value, list):
            _refuse(value, "a list", where, field)
        return tuple(_restore(inner[0], item, where, f"{field}[{i}]", defaults) for i, item in enumerate(value))
    if origin is list:
        if not isinstance(value, list):
            _refuse(value, "a list", where, field)
        if all(type(item) is inner[0] for item in value):
            return value  # a split's million indices, one by one, would take seconds
        return [_restore(inner[0], item, where, f"{field}[{i}]", defaults) for i, item in enumerate(value)]
    if origin is dict:
        if not isinstance(value, dict):
            _refuse(value, "an object", where, field)
        return {key: _restore(inner[1], item, where, f"{field}.{key}", defaults) for key, item in value.items()}
    if hint is Path and type(value) is str:
        return Path(value)
    if hint is float and type(value) is int and abs(value) < 1e308:
        return float(value)
    return value if hint is Any or type(value) is hint else _refuse(value, WORDS[hint], where, field)


def _dataclass(kind: type, values: Any, where: str, field: str, defaults: bool) -> Any:
    if not isinstance(values, dict):
        _refuse(values, "an object", where, field)
    hints, known = get_type_hints(kind), [f.name for f in fields(cast(Any, kind))]
    prefix = f"{field}." if field else ""
    for name in () if defaults else known:
        if name not in values:
            raise UserError(f"{where} has no '{prefix}{name}'; restore the file from a copy")
    for name in values:
        if name not in known:
            raise UserError(
                f"{where} has a field '{prefix}{name}' that this version does not know; restore it or upgrade muc"
            )
    found = {
        name: _restore(hints[name], values[name], where, f"{prefix}{name}", defaults)
        for name in known
        if name in values
    }
    try:
        return kind(**found)
    except UserError as error:  # of what the dataclass itself checks
        raise UserError(f"{where}: {error}") from None


def _refuse(value: Any, expected: str, where: str, field: str) -> Any:
    shown = repr(value)
    shown = shown if len(shown) <= 40 else shown[:37] + "…"
    what = f"{where}: '{field}'" if field else where
    raise UserError(f"{what} is {shown}; expected {expected}; restore the file from a copy")
