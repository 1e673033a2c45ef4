"""Flags from the settings dataclasses, flattened: `--learning-rate`, not `--optimisation.learning-rate`."""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any, Self, TypeVar

import tyro
from tyro.conf import OmitArgPrefixes, Positional

from muc import config
from muc.errors import UserError

T = TypeVar("T")

Run = Annotated[Positional[Path], tyro.conf.arg(metavar="RUN")]
Runs = Annotated[Positional[tuple[Path, ...]], tyro.conf.arg(metavar="RUN")]
RequestFlags = OmitArgPrefixes[config.Request]
RuntimeFlags = OmitArgPrefixes[config.Runtime]


@dataclass(frozen=True)
class DataFlags(config.Data):
    """Which images, and how they are split."""

    name: Annotated[str, tyro.conf.arg(name="data")] = "glyphs"
    """glyphs, glyph-pairs (with captions), digits, cifar10, cifar100, svhn, an .npz file, or a folder: of images (one
    sub-folder a class), of tar shards, or with a captions.json."""


@dataclass(frozen=True)
class ModelFlags(config.Model):
    """The contrastive model: a backbone and what its algorithm puts around it."""

    towers: tyro.conf.Suppress[dict[str, Any] | None] = None  # comes with an imported model, not from a person


@dataclass(frozen=True)
class PretrainingFlags(config.Pretraining):
    """Everything that determines a pretrained encoder."""

    data: OmitArgPrefixes[DataFlags] = field(default_factory=DataFlags)
    model: OmitArgPrefixes[ModelFlags] = field(default_factory=ModelFlags)
    views: OmitArgPrefixes[config.Views] = field(default_factory=config.Views)
    optimisation: OmitArgPrefixes[config.Optimisation] = field(default_factory=config.Optimisation)

    @classmethod
    def recipe(cls, argv: Sequence[str], **others: Any) -> Self:
        """The defaults that belong to the --data and --algorithm of the command line."""
        found = config.recipe(peek(argv, "--data", "glyphs"), peek(argv, "--algorithm", "simclr"))
        flags = {"data": DataFlags(**vars(found.data)), "model": ModelFlags(**vars(found.model))}
        values: dict[str, Any] = {**vars(found), **flags, **others}
        return cls(**values)

    def settings(self) -> config.Pretraining:
        values: dict[str, Any] = {f.name: getattr(self, f.name) for f in fields(config.Pretraining)}
        values["data"] = config.Data(**vars(self.data))
        values["model"] = config.Model(**vars(self.model))
        return config.Pretraining(**values)


def parse(kind: type[T], argv: Sequence[str], command: str, about: str, example: str, default: Any = None) -> T:
    """Fill the dataclass from the flags; where they are wrong, tyro says how and exits with code 2."""
    options = {} if default is None else {"default": default}
    return tyro.cli(
        kind,
        args=list(argv),
        prog=f"muc {command}",
        description=f"{about}\n\nExample: {example}",
        config=(tyro.conf.FlagCreatePairsOff,),
        **options,
    )


def peek(argv: Sequence[str], flag: str, default: str) -> str:
    """A flag's value before parsing: other flags' defaults depend on it."""
    for i, argument in enumerate(argv):
        if argument.startswith(f"{flag}="):
            return argument.partition("=")[2]
        if argument == flag and i + 1 < len(argv):
            return argv[i + 1]
    return default


def say(text: str) -> None:
    """For the person at the terminal; standard output is for results."""
    print(text, file=sys.stderr)


def print_json(values: Any) -> None:
    print(json.dumps(values, indent=1))


def existing(paths: Sequence[Path]) -> list[Path]:
    if not paths:
        raise UserError("no run was given; name at least one run folder ('muc runs' lists them)")
    return list(paths)
