"""The paper's tables and figures, made again: a recipe each, found by name. Nothing heavy is imported here."""

from importlib import import_module
from typing import Any

RECIPES: dict[str, tuple[str, str]] = {
    "time-memory": ("muc.reproduce.time_memory", "table 15: minutes and GB of every method, ResNet-18 to -152"),
}


def recipe(name: str) -> Any:
    """The recipe's `reproduce` function."""
    return import_module(RECIPES[name][0]).reproduce
