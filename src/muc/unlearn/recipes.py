"""Hyper-parameters to start from: the methods' own defaults are the paper's, the embedded sets need larger steps."""

from dataclasses import replace
from typing import Any

from muc.errors import check_name
from muc.unlearn import METHODS, Method

EMBEDDED: dict[str, dict[str, Any]] = {}


def default_method(name: str, data: str) -> Method:
    """The method with the defaults for a data set."""
    kind = METHODS[check_name("method", name, METHODS)]
    return replace(kind(), **EMBEDDED.get(name, {})) if data in ("glyphs", "digits") else kind()
