"""A reproduction as steps that can be planned, skipped and resumed: encoders, requests, evaluations.

Runs lie in one folder for all tables and are named by what they are, so that tables share their encoders and a
reproduction that was cut off goes on where it was.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from muc import config, runs
from muc.compare import draw_trials, labelled, pick, serve
from muc.errors import UserError
from muc.evaluation.records import evaluate_runs
from muc.methods import METHODS, Method
from muc.methods.recipes import default_method
from muc.progress import clock
from muc.storage import RECORD, RunFolder, read_json

SECONDS_PER_EPOCH = {"simclr": 0.95, "moco": 0.66}
"""Of 45,000 images by a ResNet-18 on one H200 (results/engine/train_speed.json)."""
RELATIVE_COST = {"resnet18": 1.0, "resnet34": 1.74, "resnet50": 3.49, "resnet101": 5.6, "resnet152": 7.97}
"""Measured likewise (results/engine/time-memory.json)."""
EVALUATION_SECONDS = 15.0


@dataclass(frozen=True)
class Options:
    """What a reproduction may be asked for."""

    out: Path = Path("reproduced")
    seeds: tuple[int, ...] = (0,)
    epochs: int | None = None
    """Of pretraining and Retrain, instead of the paper's 800."""
    methods: tuple[str, ...] = tuple(METHODS)
    search: int = 1
    """Settings tried for each method, on the first seed alone; the winner serves the others."""
    smoke: bool = False
    runtime: config.Runtime | None = None


@dataclass(frozen=True)
class Step:
    """Something to do, unless it is done."""

    name: str
    seconds: float
    """On one H200."""
    done: Callable[[], bool]
    work: Callable[[], Any]


def encoder_settings(data: str, algorithm: str, architecture: str, seed: int, options: Options) -> config.Pretraining:
    """The paper's recipe; a smoke test has the same path on embedded images."""
    settings = config.recipe("glyphs" if options.smoke else data, algorithm)
    epochs = options.epochs or (3 if options.smoke else settings.optimisation.epochs)
    settings = replace(settings, seed=seed, optimisation=replace(settings.optimisation, epochs=epochs))
    if options.smoke:
        probe = replace(settings.probe, epochs=2)
        return replace(settings, data=replace(settings.data, train_limit=60), probe=probe)
    return replace(settings, model=replace(settings.model, architecture=architecture))


def encoder_run(settings: config.Pretraining, options: Options) -> RunFolder:
    s = settings
    name = f"{s.data.name}-{s.model.algorithm}-{s.model.architecture}-{s.optimisation.epochs}epochs-seed{s.seed}"
    return RunFolder(options.out / "runs" / name)


def request_folder(settings: config.Pretraining, fraction: float, options: Options) -> Path:
    return options.out / "runs" / f"{encoder_run(settings, options).path.name}-forget{round(100 * fraction)}"


def pretrain_step(settings: config.Pretraining, options: Options) -> Step:
    run = encoder_run(settings, options)

    def work() -> None:
        if run.started:
            runs.resume_run(run)
        else:
            runs.pretrain_run(settings, run.path, options.runtime)

    seconds = settings.optimisation.epochs * epoch_seconds(settings)
    return Step(f"pretrain {run.path.name}", seconds, lambda: run.done, work)


def method_step(
    settings: config.Pretraining, fraction: float, name: str, options: Options, like: Path | None = None
) -> Step:
    """Serve the request with one method: as many trials as asked for, or what the search in `like` has chosen."""
    folder = request_folder(settings, fraction, options)
    original, request = encoder_run(settings, options), config.Request(forget_fraction=fraction)
    trials = 1 if name == "retrain" or like is not None else options.search

    def work() -> None:
        method = smoke_method(default_method(name, settings.data.name), options)
        if like is not None and name != "retrain":
            method = chosen(like, name)
        drawn = draw_trials(method, trials - 1, original) if trials > 1 else []
        served = [
            serve(original, m, request, folder / label, options.runtime)
            for m, label in labelled([method, *drawn], name)
        ]
        if len(served) > 1:
            pick(served, RunFolder(folder / "retrain"), original, options.runtime)

    def done() -> bool:
        labels = [label for _, label in labelled([METHODS[name]()] * trials, name)]
        searched = trials == 1 or (folder / name / "search.json").exists()
        return searched and all(RunFolder(folder / label).done for label in labels)

    epochs = METHODS[name]().epochs or settings.optimisation.epochs
    seconds = trials * (epochs * epoch_seconds(settings) + (10 + EVALUATION_SECONDS if trials > 1 else 10))
    return Step(f"{name} ×{trials} for {folder.name}", seconds, done, work)


def smoke_method(method: Method, options: Options) -> Method:
    return replace(method, epochs=1) if options.smoke and method.epochs else method


def chosen_run(folder: Path, name: str) -> RunFolder:
    """The best of a method's trials, or its only one."""
    found = folder / name / "search.json"
    if not found.exists():
        return RunFolder(folder / name)
    best = min(read_json(found), key=lambda trial: trial["AG"])
    return RunFolder(folder / Path(best["run"]).name)


def chosen(folder: Path, name: str) -> Method:
    method = runs.method_of(chosen_run(folder, name))
    assert method is not None, "a run that serves a request has a method"
    return method


def evaluate_step(settings: config.Pretraining, fraction: float, options: Options) -> Step:
    folder = request_folder(settings, fraction, options)

    def work() -> None:
        others = [chosen_run(folder, name) for name in options.methods if name != "retrain"]
        evaluate_runs([encoder_run(settings, options), *others], RunFolder(folder / "retrain"), options.runtime)

    seconds = EVALUATION_SECONDS * (1 + len(options.methods))
    return Step(f"evaluate {folder.name}", seconds, lambda: bool(records(settings, fraction, options)), work)


def records(settings: config.Pretraining, fraction: float, options: Options) -> list[dict[str, Any]]:
    """All records of a request, the original's among them; none unless every method's is there."""
    folder = request_folder(settings, fraction, options)
    served = [RunFolder(folder / "retrain"), *(chosen_run(folder, m) for m in options.methods if m != "retrain")]
    if not all((run.path / RECORD).exists() for run in served):
        return []
    return [record for run in served for record in run.records()]


def epoch_seconds(settings: config.Pretraining) -> float:
    return SECONDS_PER_EPOCH[settings.model.algorithm] * RELATIVE_COST.get(settings.model.architecture, 1.0)


def describe(steps: list[Step]) -> str:
    """The plan, and what it costs."""
    lines = [f"{'done' if s.done() else clock(s.seconds):>8}  {s.name}" for s in steps]
    left = sum(s.seconds for s in steps if not s.done())
    return "\n".join([*lines, f"{clock(left):>8}  in all, on one H200; this machine may take longer"])


def carry_out(steps: list[Step]) -> None:
    for step in steps:
        if not step.done():
            step.work()
        if not step.done():
            raise UserError(f"'{step.name}' ended without its result; run the same command again to continue")
