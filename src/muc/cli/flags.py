"""Flags from the settings dataclasses, flattened: `--learning-rate`, not `--optimisation.learning-rate`."""

import json
import re
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext, redirect_stdout, suppress
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Annotated, Any, NoReturn, Self, TypeVar

import tyro
from tyro.conf import OmitArgPrefixes, Positional

from muc import config
from muc.errors import UserError, check_name
from muc.recipes import recipe
from muc.run_folder import RunFolder

T = TypeVar("T")

Run = Annotated[Positional[Path], tyro.conf.arg(metavar="RUN")]
Runs = Annotated[Positional[tuple[Path, ...]], tyro.conf.arg(metavar="RUN", help_behavior_hint="(at least one)")]
RequestFlags = OmitArgPrefixes[config.Request]
RuntimeFlags = OmitArgPrefixes[config.Runtime]
NORMALISATION = tyro.conf.arg(metavar="FLOAT …", help_behavior_hint="(default: ImageNet's; of gray images 0.5)")


@dataclass(frozen=True)
class DataFlags(config.Data):
    """Which images, and how they are split."""

    name: Annotated[str, tyro.conf.arg(name="data")] = "glyphs"
    """glyphs, glyph-pairs (with captions), digits, cifar10, cifar100, svhn, an .npz file, or a folder: of images (one
    sub-folder a class), of tar shards, or with a captions.json."""


@dataclass(frozen=True)
class ModelFlags(config.Model):
    """The contrastive model: a backbone and what its algorithm puts around it."""

    stem_relu: Annotated[bool, tyro.conf.arg(help_behavior_hint="(default: there is one)")] = config.Model.stem_relu
    """No ReLU after the first convolution (ResNets), as in the paper's released code."""
    mean: Annotated[tuple[float, ...] | None, NORMALISATION] = None
    """What images are normalised by after scaling to [0, 1], a number a channel; of open_clip's it is known."""
    std: Annotated[tuple[float, ...] | None, NORMALISATION] = None
    """Likewise, the deviation."""
    head: tyro.conf.Suppress[tuple[str, ...] | None] = None  # these come with an imported model, not from a person
    towers: tyro.conf.Suppress[dict[str, Any] | None] = None


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
        found = recipe(peek(argv, "--data", "glyphs"), peek(argv, "--algorithm", "simclr"))
        flags = {"data": DataFlags(**vars(found.data)), "model": ModelFlags(**vars(found.model))}
        values: dict[str, Any] = {**vars(found), **flags, **others}
        return cls(**values)

    def settings(self) -> config.Pretraining:
        values: dict[str, Any] = {f.name: getattr(self, f.name) for f in fields(config.Pretraining)}
        values["data"] = config.Data(**vars(self.data))
        values["model"] = config.Model(**vars(self.model))
        return config.Pretraining(**values)


def parse(kind: type[T], argv: Sequence[str], command: str, about: str, example: str, default: Any = None) -> T:
    """Fill the dataclass from the flags; what is wrong with them is one sentence."""
    options = {} if default is None else {"default": default}

    def fill(arguments: Sequence[str]) -> T:
        return tyro.cli(
            kind,
            args=list(arguments),
            prog=f"muc {command}",
            description=f"{about}\n\nExample: {example}",
            config=(tyro.conf.FlagCreatePairsOff, tyro.conf.DisallowNone),
            **options,
        )

    def known() -> list[str]:
        with redirect_stdout(TextIOWrapper(BytesIO(), "utf-8")) as page, suppress(SystemExit):
            fill(["--help"])
        page.seek(0)
        return ["--help", *re.findall(r"│ (--[\w.-]+)", page.read())]

    def refuse(fault: Any) -> None:
        method = getattr(default, "method", None)
        name = command if method is None else f"{command} --method {peek(argv, '--method', method)}"
        with suppress(AttributeError):  # tyro's account of a fault is not public; of another version its own words do
            explain(fault, argv, f"muc {name}", known(), example)

    watch: Callable[[Any], Any] = getattr(getattr(tyro, "_errors", None), "on_parse_error", nullcontext)
    refuse_empty(argv)
    with watch(refuse):
        flags = fill(argv)
    refuse_twice(argv)
    return flags


NUMBERS: dict[str, tuple[type, str]] = {"FLOAT": (float, "a number"), "INT": (int, "a whole number")}
"""How a help page shows what a flag takes -> what it is made with, and in words."""
SAME = ("--beta", "--paper-beta")


def explain(fault: Any, argv: Sequence[str], command: str, known: Sequence[str], example: str) -> None:
    """One sentence for what tyro found, where it is something that a person may do."""
    kind = type(fault).__name__
    strange = {"UnrecognizedArgs": "tokens", "MissingArgs": "unrecognized_tokens"}
    words = list(getattr(fault, strange[kind])) if kind in strange else []
    if kind == "BadValue" and fault.argument.is_positional():  # tyro looked for it where a flag is
        words = [flag for flag in given(argv) if flag not in known]
    for flag in given(words):
        close = get_close_matches(flag[2:], [name[2:] for name in known], n=1)
        hint = f"did you mean --{close[0]}? " if close else ""
        raise UserError(f"{command} has no {flag}; {hint}`{command} --help` lists its flags")
    match kind:
        case "UnrecognizedArgs":
            fix = f"put a value behind its flag (`{command} --help` lists the flags)"
            raise UserError(f"{command} has no place for '{words[0]}'; {fix}")
        case "MissingArgs":
            names = " and ".join(name_of(missing.arg) for missing in fault.missing_arguments)
            raise UserError(f"{command} needs {names}; for example: {example.splitlines()[0]}")
        case "InvalidChoice":
            check_name(name_of(fault.argument), fault.value, [choice for choice in fault.choices if choice != "None"])
        case "BadValue" | "InstantiationFailure" if fault.argument is not None:
            refuse_value(fault.argument, argv)
        case "InstantiationFailure":
            raise UserError(str(fault.message))


def refuse_value(argument: Any, argv: Sequence[str]) -> NoReturn:
    name, shown = name_of(argument), str(argument.lowered.metavar)
    make, words = next((NUMBERS[key] for key in NUMBERS if key in shown), (str, "one behind it"))
    for word in given(argv).get(name, ()):
        try:
            make(word)
        except ValueError:
            raise UserError(f"{name} is '{word}'; give {words}") from None
    raise UserError(f"{name} has no value; give {words}")


def name_of(argument: Any) -> str:
    return str(argument.lowered.metavar if argument.is_positional() else argument.lowered.name_or_flags[-1])


def refuse_empty(argv: Sequence[str]) -> None:
    """A variable of the shell that is not set would be the folder one is in."""
    if "" in argv:
        raise UserError("one of the values is empty (''); give it, or leave its flag out")
    for flag, words in given(argv).items():
        if "" in words:
            raise UserError(f"{flag} is empty; give it a value, or leave it out")


def refuse_twice(argv: Sequence[str]) -> None:
    """One of these would be ignored."""
    first, second = (given(argv).get(flag) for flag in SAME)
    if first and second:
        raise UserError(
            f"{SAME[0]} {first[0]} and {SAME[1]} {second[0]} are one weight in two units; leave one of them out"
        )


def given(argv: Sequence[str]) -> dict[str, list[str]]:
    """The flags of a command line and the words behind each; of one that comes twice, the last counts."""
    found: dict[str, list[str]] = {}
    words: list[str] = []
    for argument in argv:
        if argument == "--":
            break
        if argument.startswith("--"):
            flag, equals, value = argument.partition("=")
            words = found[flag.replace("_", "-")] = [value] if equals else []
        else:
            words.append(argument)
    return found


def peek(argv: Sequence[str], flag: str, default: str) -> str:
    """A flag's value before parsing: other flags' defaults depend on it."""
    return next(iter(given(argv).get(flag, ())), default)


def say(text: str) -> None:
    """For the person at the terminal; standard output is for results, of which none comes after this."""
    sys.stdout.flush()
    print(text, file=sys.stderr)


def print_json(values: Any) -> None:
    print(json.dumps(values, indent=1))


def run_at(path: Path) -> RunFolder:
    """The run in a folder. That there is one is known before torch is loaded, which takes seconds."""
    run = RunFolder(path)
    run.config()
    return run


def existing(paths: Sequence[Path]) -> list[Path]:
    if not paths:
        raise UserError("no run was given; name at least one run folder ('muc runs' lists them)")
    return list(paths)
