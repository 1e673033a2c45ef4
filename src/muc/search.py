"""Hyper-parameters by trial: settings spread over a method's ranges, judged on validation images."""

import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from math import exp, log
from pathlib import Path
from typing import Any

import numpy as np

from muc import config, opening
from muc.errors import Diverged
from muc.evaluation.gaps import gaps, gaps_to_held_out
from muc.evaluation.records import judge, request_digest
from muc.methods import Method
from muc.methods.recipes import TIED, search_ranges
from muc.run_folder import RunFolder
from muc.runtime import Runtime
from muc.seeds import derive_seed
from muc.storage import write_json

CRITERIA = ("AG", "AG_classifier", "AG_auc")
"""The gaps that are kept of every trial; the first decides."""


def labelled(trials: list[Method], name: str) -> list[tuple[Method, str]]:
    return [(trial, name if i == 0 else f"{name}-trial{i}") for i, trial in enumerate(trials)]


def draw_trials(method: Method, count: int, original: RunFolder, fraction: float) -> list[Method]:
    """Settings drawn from the paper's ranges for such a share to forget; the same original and method always draw the
    same."""
    seed = derive_seed("search", opening.method_name(method), original.result()["model_sha256"])
    generator = np.random.default_rng(seed)
    settings = opening.pretraining_of(original)
    ranges = search_ranges(method, settings.data.name, settings.model.algorithm, fraction)
    trials = []
    for place in spread_out(count, generator.random(len(ranges))):
        drawn = {}
        for (name, (low, high, in_log)), u in zip(ranges.items(), place, strict=True):
            value = exp(log(low) + u * (log(high) - log(low))) if in_log else low + u * (high - low)
            drawn |= dict.fromkeys(name.split(TIED), value)
        trials.append(replace(method, **drawn))
    return trials


def spread_out(count: int, start: np.ndarray) -> np.ndarray:
    """(count, d) places in the unit cube from a random one on: few trials cover it better than independent draws do,
    and more trials begin with the same ones (the additive recurrence of the golden ratio in d dimensions)."""
    d, golden = len(start), 2.0
    for _ in range(40):
        golden = (1 + golden) ** (1 / (d + 1))
    return (start + np.arange(1, count + 1)[:, None] * golden ** -np.arange(1.0, d + 1)) % 1


def serve_all(trials: Iterable[tuple[Method, Path]], serve: Callable[[Method, Path], RunFolder]) -> list[RunFolder]:
    """Serve a request with all settings. The first are the defaults; one that was drawn may diverge, and is left
    unfinished."""
    runs: list[RunFolder] = []
    for method, place in trials:
        try:
            runs.append(serve(method, place))
        except Diverged as error:
            if not runs:
                raise
            print(f"muc: note: {place}: {error}; this trial of the search is passed over", file=sys.stderr)
            runs.append(RunFolder(place))
    return runs


def pick(
    trials: list[RunFolder], against: RunFolder | None, original: RunFolder, runtime: config.Runtime | None
) -> RunFolder:
    """The trial with the smallest gap, judged on validation images: the test set stays untouched by the search. What
    diverged has none."""
    resolved = Runtime(runtime)
    reference = _reference(against or original, trials[0], resolved)
    away = gaps if against else gaps_to_held_out
    found = {run: away(judge(run, trials[0], resolved, held_out="validation"), reference) for run in trials if run.done}
    known = [name for name in CRITERIA if name in found[trials[0]]]
    kept = [{"run": str(run), **{name: found.get(run, {}).get(name) for name in known}} for run in trials]
    write_json(trials[0].path / "search.json", kept)
    return min(found, key=lambda run: found[run]["AG"])


_judged: dict[Any, dict[str, Any]] = {}


def _reference(run: RunFolder, served: RunFolder, runtime: Runtime) -> dict[str, Any]:
    """What trials are compared with, on validation images: the same for every method, so it is judged once."""
    original = served.original_sha256()
    key = run.result()["model_sha256"], original, request_digest(served.split()), runtime.resolved_settings()
    if key not in _judged:
        _judged.clear()  # one request after another
        _judged[key] = judge(run, served, runtime, held_out="validation")
    return _judged[key]
