"""Chosen hyper-parameters with their evidence: what a search leaves behind, to be committed and given back."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, get_args

from muc import config, opening
from muc.errors import UserError, check_name
from muc.methods import METHODS, Method
from muc.methods.alignment_calibration import Reading
from muc.recipes import recipe
from muc.restoring import restore
from muc.run_folder import RunFolder
from muc.search import CRITERIA
from muc.storage import FORMAT_VERSION, read_object, write_json

if TYPE_CHECKING:
    from muc.reproduce.trial import Trial

CHOICES = "recipe.json"
WHERE = ("data", "algorithm", "architecture", "forget_fraction")


@dataclass(frozen=True)
class Choice:
    """A method's settings, and for which encoders and requests they were chosen."""

    data: str
    algorithm: str
    architecture: str
    forget_fraction: float
    method: Method
    epochs: int | None = None
    """Of those encoders. Settings may be taken for others, but not in silence."""
    reading: Reading = "equations"
    """Of the paper, in which those encoders and AC were made."""
    seed: int | None = field(default=None, compare=False)
    """Of the encoder that the trials were judged on, whose gaps are somewhat too small."""
    criterion: str = field(default=CRITERIA[0], compare=False)
    """By which gap."""


def write_choices(trials: Iterable["Trial"], names: Iterable[str], out: Path) -> None:
    """All trials of every search, what each was worth on validation data, and the winner; nothing without a search."""
    trials = list(trials)
    searched = [(t, n) for t in trials for n in names if t.tried(n)]
    if not searched:
        if not any(t.options.chosen for t in trials):  # else it may be what was given
            (out / CHOICES).unlink(missing_ok=True)  # an earlier search's is not of this table
        return
    values = {"format_version": FORMAT_VERSION, "choices": [evidence(trial, name) for trial, name in searched]}
    write_json(out / CHOICES, values)


def evidence(trial: "Trial", name: str) -> dict[str, Any]:
    """One search: where it took place, all that was tried, in the order in which it was drawn, and what won."""
    s, chosen = trial.settings, trial.chosen(name)
    tried = [
        {
            "method": settings_of(trial.folder / Path(t["run"]).name),
            **{f"validation_{kind}": t[kind] for kind in CRITERIA if kind in t},
        }
        for t in trial.tried(name)
    ]
    values = (Path(s.data.name).name, s.model.algorithm, s.model.architecture, trial.fraction)
    return {
        **dict(zip(WHERE, values, strict=True)),
        "epochs": s.optimisation.epochs,
        "reading": trial.options.reading,
        "seed": s.seed,
        "criterion": trial.criterion,
        "encoder_sha256": trial.encoder.result()["model_sha256"],
        "method": settings_of(chosen.path),
        "trials": tried,
    }


def settings_of(run: Path) -> dict[str, Any]:
    return RunFolder(run).config()["method"]


def read_choices(paths: Iterable[Path]) -> tuple[Choice, ...]:
    """What such files hold, their evidence aside."""
    found: list[Choice] = []
    for path in paths:
        if not path.is_file():
            raise UserError(f"there is no file {path}; give a {CHOICES} that muc reproduce NAME --search N wrote")
        choices = read_object(path, "choices")["choices"]
        if not isinstance(choices, list):
            raise UserError(f"the choices in {path} are {json.dumps(choices)}, not a list; restore the file")
        if not choices:
            raise UserError(f"{path} holds no choices, so that nothing would be taken from it; leave it out")
        for number, entry in enumerate(choices, 1):
            try:
                found.append(_read(entry))
            except (TypeError, KeyError, ValueError, UserError) as error:
                missing = f"it has no {error}" if isinstance(error, KeyError) else repr(error)
                why = str(error) if isinstance(error, UserError) else missing
                raise UserError(f"choice {number} in {path} cannot be used: {why}") from None
    _refuse_contradictions(found)
    return tuple(found)


def _read(entry: Any) -> Choice:
    """One choice, with everything in it checked: a wrong value should not be found after hours of training."""
    method = dict(entry["method"])
    kind = METHODS[check_name("method", str(method.pop("name")), METHODS)]
    where = {key: str(entry[key]) for key in WHERE[:-1]}
    fraction = float(entry["forget_fraction"])
    config.in_range("forget_fraction", fraction, 0, 1)
    epochs, seed = entry.get("epochs"), entry.get("seed")
    return Choice(
        **where,
        forget_fraction=fraction,
        method=restore(kind, method, "its method", defaults=True),
        epochs=None if epochs is None else int(epochs),
        seed=None if seed is None else int(seed),
        criterion=check_name("criterion", str(entry.get("criterion", CRITERIA[0])), CRITERIA),
        reading=cast(Reading, check_name("reading", str(entry.get("reading", "equations")), get_args(Reading))),
    )


def of_other_epochs(chosen: Iterable[Choice], asked: int | None) -> list[str]:
    """A note where settings were chosen for encoders trained longer or shorter than those that get them."""
    for choice in chosen:
        epochs = asked or recipe(choice.data, choice.algorithm).optimisation.epochs
        if choice.epochs not in (None, epochs):
            return [
                f"note: --recipe holds settings chosen for encoders of {choice.epochs} epochs; they serve {epochs} here"
            ]
    return []


def _refuse_contradictions(found: list[Choice]) -> None:
    """Two values for the same thing: one of them would not be run."""
    if len({choice.reading for choice in found}) > 1:
        raise UserError("--recipe has settings of both readings, equations and compat; give those of one at a time")
    kept: dict[Any, Choice] = {}
    for choice in found:
        key = (*(getattr(choice, name) for name in WHERE), type(choice.method))
        if kept.setdefault(key, choice) != choice:
            name = opening.method_name(choice.method)
            raise UserError(
                f"--recipe has two different choices of {name} for {choice.data}, {choice.algorithm}, "
                f"{choice.architecture}, {choice.forget_fraction:.0%} to forget; leave one of them out"
            )


def find_choice(chosen: Iterable[Choice], name: str, settings: config.Pretraining, fraction: float) -> Method | None:
    """What was chosen for such an encoder and request."""
    ways = (c.method for c in chosen if fits(c, settings, fraction) and opening.method_name(c.method) == name)
    return next(ways, None)


def fits(choice: Choice, settings: config.Pretraining, fraction: float) -> bool:
    """Whether it is for such an encoder and request."""
    place = Path(settings.data.name).name, settings.model.algorithm, settings.model.architecture
    same = (choice.data, choice.algorithm, choice.architecture) == place
    return same and abs(choice.forget_fraction - fraction) < 0.001


def given_method(chosen: Iterable[Choice], name: str, settings: config.Pretraining, fraction: float) -> Method:
    """The same; a method that has no choice is refused, not guessed."""
    if (method := find_choice(chosen, name, settings, fraction)) is not None:
        return method
    data, model = Path(settings.data.name).name, settings.model
    raise UserError(
        f"--recipe has no {name} for {data}, {model.algorithm}, {model.architecture}, {fraction:.0%} to forget; "
        "add a file that has, or leave out what is missing (--methods, --algorithms)"
    )
