"""muc pretrain, unlearn, resume."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Generic, TypeVar

import tyro
from tyro.conf import OmitArgPrefixes

from muc import config
from muc.cli.flags import PretrainingFlags, RequestFlags, Run, RuntimeFlags, parse, peek, run_at, say
from muc.errors import UserError, check_name
from muc.methods import METHODS, Method
from muc.methods.recipes import default_method
from muc.run_folder import RunFolder

M = TypeVar("M", bound=Method)
DEFAULT_METHOD = "alignment_calibration"


@dataclass(frozen=True, kw_only=True)
class Pretrain(PretrainingFlags):
    runtime: RuntimeFlags = field(default_factory=config.Runtime)
    out: Path | None = None
    """The run folder to make (default: runs/DATA-ALGORITHM-ARCHITECTURE-seedN)."""
    force: bool = False
    """Replace a run that is there."""


def pretrain(argv: Sequence[str]) -> None:
    about = "Train an encoder from scratch. Defaults are the paper's; for glyphs and digits, small ones for CPU."
    example = "muc pretrain --algorithm moco --data cifar10 --out runs/moco"
    flags = parse(Pretrain, argv, "pretrain", about, example, Pretrain.recipe(argv))
    from muc.runs import pretrain_run

    s = flags.settings()
    name = f"{Path(s.data.name).stem}-{s.model.algorithm}-{s.model.architecture.replace('/', '-')}-seed{s.seed}"
    report_done(pretrain_run(s, flags.out or Path("runs") / name, flags.runtime, flags.force))


@dataclass(frozen=True)
class Unlearn(Generic[M]):
    run: Run
    """The run to unlearn from."""
    hyper: OmitArgPrefixes[M]
    request: RequestFlags = field(default_factory=config.Request)
    runtime: RuntimeFlags = field(default_factory=config.Runtime)
    method: Annotated[str, tyro.conf.arg(help=f"{', '.join(METHODS)}. Each has flags of its own.")] = DEFAULT_METHOD
    out: Path | None = None
    """The run folder to make (default: RUN-METHOD beside RUN)."""
    seed: int | None = None
    """Seed of rows and views (default: the original's)."""
    force: bool = False
    """Replace a run that is there."""


def unlearn(argv: Sequence[str]) -> None:
    name = check_name("method", peek(argv, "--method", DEFAULT_METHOD), METHODS)
    how = f"here: {name}; flags of others: muc unlearn --method NAME --help"
    about = f"Serve a deletion request with one method ({how}). The result is a new run; the original stays."
    example = "muc unlearn runs/moco --method alignment_calibration --forget-fraction 0.1 --beta 0.8"
    default = Unlearn(run=tyro.MISSING, hyper=default_method(name, *recipe_of(argv)))
    kind: Any = METHODS[name]
    flags = parse(Unlearn[kind], argv, "unlearn", about, example, default)
    parent = run_at(flags.run)
    from muc.runs import unlearn_run

    out = flags.out or flags.run.with_name(f"{flags.run.name}-{name}")
    run = unlearn_run(parent, flags.hyper, flags.request, out, flags.runtime, flags.seed, flags.force)
    report_done(run)


def recipe_of(argv: Sequence[str]) -> tuple[str, str]:
    """Data set and algorithm of the run named on the command line, if it can be read yet; they give the defaults."""
    made = peek(argv, "--out", "")  # with --force it may be a run, too
    for argument in argv:
        if not argument.startswith("-") and argument != made and (Path(argument) / "config.json").is_file():
            try:
                settings = RunFolder(argument).config()["pretraining"]
                return settings["data"]["name"], settings["model"]["algorithm"]
            except (UserError, KeyError, TypeError):
                break  # the command itself will say what is wrong with the run
    return "cifar10", "simclr"


@dataclass(frozen=True)
class Resume:
    run: Run
    """The interrupted run."""


def resume(argv: Sequence[str]) -> None:
    about = "Continue an interrupted run; it ends with the same weights as if nothing had happened."
    flags = parse(Resume, argv, "resume", about, "muc resume runs/moco")
    run = run_at(flags.run)
    from muc.runs import resume_run

    report_done(resume_run(run))


def report_done(run: RunFolder) -> None:
    result = run.result()
    say(f"done in {result['seconds']:.1f} s: {run}  (weights sha256 {result['model_sha256'][:12]})")
    if "bound_by" in result:
        say(f"{result['waiting']:.0%} of the time went into waiting for data; bound by: {result['bound_by']}")
