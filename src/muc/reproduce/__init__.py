"""The paper's tables and figures, made again: a recipe each, found by name. Nothing heavy is imported here."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from muc.reproduce.recipe import Recipe

RECIPES: dict[str, tuple[str, str]] = {
    "cifar10-10": ("white_box", "table 2: all methods on CIFAR-10, 10 % forgotten, MoCo and SimCLR"),
    "cifar10-50": ("white_box", "table 3: the same, 50 % forgotten"),
    "cifar100-10": ("white_box", "table 4: CIFAR-100, 10 % forgotten"),
    "cifar100-50": ("white_box", "table 5: CIFAR-100, 50 % forgotten"),
    "svhn": ("white_box", "table 6: SVHN, 10 % forgotten, MoCo"),
    "resnet50": ("white_box", "table 12: ResNet-50 on CIFAR-10, 10 % forgotten, MoCo"),
    "time-memory": ("time_memory", "table 15: minutes and GB of every method, ResNet-18 to -152"),
}
"""Which module holds a recipe, and what it makes."""


def find_recipe(name: str) -> "Recipe":
    return import_module(f"muc.reproduce.{RECIPES[name][0]}").RECIPES[name]
