"""A recipe: steps that can be planned, skipped and resumed, and what is written when all are done."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from muc import config
from muc.data import load_images
from muc.errors import UserError
from muc.methods import PAPER_METHODS
from muc.methods.alignment_calibration import Reading
from muc.progress import clock
from muc.report.cells import Table
from muc.report.words import listing
from muc.reproduce.choices import Choice
from muc.storage import write_json

SMOKE = "Smoke test on embedded images, the numbers mean nothing. Recipe: "
FIVE = (0, 1, 2, 3, 4)
"""The paper's random trials."""
READ = ("seeds", "epochs", "methods", "algorithms", "search", "recipe", "criterion", "reading")
"""The options that not every recipe reads."""


@dataclass(frozen=True)
class Options:
    """What a reproduction may be asked for."""

    out: Path = Path("reproduced")
    seeds: tuple[int, ...] = (0,)
    epochs: int | None = None
    """Of pretraining and Retrain, instead of the paper's 800."""
    methods: tuple[str, ...] = PAPER_METHODS
    """Retrain is always among them."""
    algorithms: tuple[str, ...] = ()
    """Only these; none: all that the paper has."""
    search: int = 1
    """Settings tried for each method, on the first seed alone; the winner serves the others."""
    criterion: str = "AG"
    """The gap by which the best of a search's trials is chosen."""
    reading: Reading = "equations"
    """compat: encoders and AC as in the paper's released code."""
    smoke: bool = False
    runtime: config.Runtime | None = None
    chosen: tuple[Choice, ...] = ()
    """Hyper-parameters of all methods, instead of defaults and searches."""


@dataclass(frozen=True)
class Step:
    """Something to do, unless it is done."""

    name: str
    seconds: float
    """On one H200."""
    done: Callable[[], bool]
    work: Callable[[], Any]
    needs: config.Data | None = None
    """Images that must be there."""


def check_data(plans: Iterable[list[Step]]) -> None:
    """What cannot be had is found out before anything is trained, also for the last table. Each set is opened once."""
    needed = [s.needs for steps in plans if not all(s.done() for s in steps) for s in steps if s.needs]
    for data in dict.fromkeys(needed):
        load_images(data)


def computed(name: str, seconds: float, path: Path, compute: Callable[[], Any]) -> Step:
    """A step whose result is a JSON file."""
    return Step(name, seconds, path.exists, lambda: write_json(path, compute()))


@dataclass(frozen=True)
class Recipe(ABC):
    """One table or figure. Its raw results and everything it shows go into one folder, its runs are shared."""

    seeds: ClassVar[tuple[int, ...]] = (0,)
    """Unless others are asked for."""
    search: ClassVar[int] = 1
    """Likewise."""
    default_methods: ClassVar[tuple[str, ...]] = PAPER_METHODS
    """Likewise."""
    reads: ClassVar[tuple[str, ...]] = READ
    """Options that change what is made; others are refused."""
    one_algorithm: ClassVar[bool] = False
    """Whether it is made for one algorithm at a time."""

    title: str

    @abstractmethod
    def steps(self, options: Options, out: Path) -> list[Step]:
        """What has to be done, in order; `out` is this recipe's folder."""

    def plan(self, options: Options, out: Path) -> list[Step]:
        """The steps, each once: an encoder may serve several requests."""
        return list({step.name: step for step in self.steps(options, out)}.values())

    @abstractmethod
    def write(self, options: Options, out: Path) -> tuple[Path, list[Table]]:
        """All formats, once every step is done. -> the page's path, and the tables to show on a terminal."""

    def heading(self, options: Options) -> str:
        title = SMOKE + self.title if options.smoke else self.title
        if options.reading != Options.reading:
            title += ", encoders and AC as in the released code"
        if options.criterion != Options.criterion:
            title += f", settings chosen by {options.criterion.replace('_', ' ')}"
        return title


UNIMODAL = ("moco", "simclr")


def algorithms_for(options: Options, of_paper: tuple[str, ...] = UNIMODAL) -> tuple[str, ...]:
    """Those that were asked for, also where the paper does not have them; else the paper's."""
    return tuple(name for name in UNIMODAL if name in options.algorithms) or of_paper


def check_read(recipes: Mapping[str, Recipe], given: object) -> list[str]:
    """What was asked for and would change nothing is not passed over in silence: refused, or noted where it changes
    some of several recipes."""
    notes = []
    for option in (option for option in READ if getattr(given, option)):
        without = [name for name, recipe in recipes.items() if option not in recipe.reads]
        verb = "does" if len(without) == 1 else "do"
        if len(without) == len(recipes):
            raise UserError(
                f"{listing(without)} {verb} not read --{option}, so that it would change nothing; leave it out"
            )
        if without:
            notes.append(f"note: {listing(without)} {verb} not read --{option}")
    algorithms: tuple[str, ...] = getattr(given, "algorithms", ())
    for name, recipe in recipes.items():
        if recipe.one_algorithm and len(algorithms) > 1:
            raise UserError(f"{name} is made for one algorithm at a time; give one of {', '.join(algorithms)}")
    return notes


def describe(steps: Iterable[Step], smoke: bool = False) -> str:
    """The plan, each step once, and what it costs; nobody knows what a smoke test does."""
    steps = {(step.name, step.seconds): step for step in steps}.values()  # other models of a request are judged anew
    state = [(step, step.done()) for step in steps]
    if smoke:
        return "\n".join(f"{'done' if done else 'to do':>8}  {s.name}" for s, done in state)
    lines = [f"{'done' if done else clock(s.seconds):>8}  {s.name}" for s, done in state]
    left = sum(s.seconds for s, done in state if not done)
    return "\n".join([*lines, f"{clock(left):>8}  in all, on one H200; this machine may take longer"])


def carry_out(steps: list[Step], announce: Callable[[str], None] = lambda line: None) -> None:
    for i, step in enumerate(steps, 1):
        if not step.done():
            announce(f"step {i} of {len(steps)}: {step.name}")
            step.work()
        if not step.done():
            raise UserError(f"'{step.name}' ended without its result; run the same command again to continue")
