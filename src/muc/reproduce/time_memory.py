"""Table 15: what each method costs in time and device memory, from ResNet-18 to ResNet-152.

Nothing is trained to the end: a cell is timed for one epoch, after one that warms up, and multiplied by the method's
number of epochs. Pixels are noise, which costs the same as pictures.
"""

import gc
import re
import time
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from muc import paper
from muc.data import plan_batches
from muc.environment import environment
from muc.errors import UserError
from muc.methods import METHODS
from muc.models import build_model
from muc.opening import optimisation_of
from muc.recipes import recipe
from muc.report.cells import MISSING, Cell, Table
from muc.report.sheet import Sheet, write_sheet
from muc.report.words import architecture_name, method_name
from muc.reproduce.cost import RELATIVE_COST, SECONDS_PER_EPOCH, START_SECONDS, share_passed
from muc.reproduce.recipe import Options, Recipe, Step, algorithms_for, computed
from muc.runtime import Runtime
from muc.storage import read_json
from muc.train import Training

ARCHITECTURES = ("resnet18", "resnet34", "resnet50", "resnet101", "resnet152")
CAPTION = (
    "Minutes for all epochs, extrapolated from one timed epoch after one that warms up (start-up not counted), and "
    "peak device memory. The paper's (four A100; data and algorithm not stated) below; its AC has a third view, which "
    "AC by the equations, timed here, does not need."
)
TRAINING_IMAGES, FORGET_FRACTION, IMAGE_SIZE = 45_000, 0.1, 32


@dataclass(frozen=True)
class TimeMemory(Recipe):
    """A cell for each architecture and method. The paper does not say which algorithm it timed."""

    reads: ClassVar = ("methods", "algorithms")
    one_algorithm: ClassVar = True

    def cells(self, options: Options, out: Path) -> dict[tuple[str, str], Path]:
        """{(architecture, method): where it is kept}: what was measured otherwise is kept elsewhere."""
        architectures = ARCHITECTURES[:1] if options.smoke else ARCHITECTURES
        algorithm, folder = algorithms_for(options)[0], out / "cells" / measured_with(options)
        return {
            (architecture, method): folder / f"{algorithm}-{architecture}-{method}.json"
            for architecture in architectures
            for method in options.methods
        }

    def steps(self, options: Options, out: Path) -> list[Step]:
        algorithm = algorithms_for(options)[0]
        return [
            computed(
                f"time {method} of {algorithm}, {architecture}",
                START_SECONDS + 2 * seconds_per_epoch(algorithm, architecture, method),
                path,
                partial(measure, algorithm, architecture, method, options),
            )
            for (architecture, method), path in self.cells(options, out).items()
        ]

    def write(self, options: Options, out: Path) -> tuple[Path, list[Table]]:
        measured = [read_cell(path) for path in self.cells(options, out).values()]
        environments = [cell.pop("environment") for cell in measured]
        algorithm = algorithms_for(options)[0]
        table = tabulate(measured, " / ".join(dict.fromkeys(e["device"] for e in environments)), algorithm)
        results = {"algorithm": algorithm, "environment": environments[0], "cells": measured}
        sheet = Sheet(self.heading(options), [], results, environments, [table])
        return write_sheet(sheet, out), [table]


RECIPES = {"time-memory": TimeMemory("Time and memory (the paper's table 15)")}


def measured_with(options: Options) -> str:
    """All that decides over time and memory besides the cell itself, as the name of a folder."""
    try:
        runtime = Runtime(options.runtime)
    except UserError:
        return "elsewhere"  # a plan for a device that this machine has not: nothing measured by it is here
    parts = [runtime.describe(), runtime.precision, f"compile {runtime.settings.compile}"]
    parts += ["deterministic"] * runtime.settings.deterministic
    name = re.sub(r"[^a-z0-9]+", "-", " ".join(parts).lower())
    return f"smoke-{name}" if options.smoke else name


def seconds_per_epoch(algorithm: str, architecture: str, method: str) -> float:
    return SECONDS_PER_EPOCH[algorithm] * RELATIVE_COST[architecture] * share_passed(METHODS[method], FORGET_FRACTION)


def measure(algorithm: str, architecture: str, name: str, options: Options) -> dict[str, Any]:
    """One cell of the table."""
    runtime, batch = Runtime(options.runtime), 8 if options.smoke else 512
    shape = (24, 3, 16, 16) if options.smoke else (TRAINING_IMAGES, 3, IMAGE_SIZE, IMAGE_SIZE)
    images = np.random.default_rng(0).integers(256, size=shape, dtype=np.uint8)
    settings = recipe("cifar10", algorithm)
    settings = replace(settings, optimisation=replace(settings.optimisation, batch_size=batch))
    method = METHODS[name]()
    whole = optimisation_of(settings, method)
    rows, forget = np.arange(len(images)), round(FORGET_FRACTION * len(images))
    plan = plan_batches(rows[forget:], rows[:forget], method.rows, batch, 0)
    gc.collect()  # the cell before held its memory in cycles
    runtime.reset_peak_memory()
    model = build_model(replace(settings.model, architecture=architecture), *images.shape[1:3])
    training = Training(model, method, images, plan, settings.views, replace(whole, epochs=2), runtime, 0)
    ends: list[float] = []
    training.run(lambda _line: ends.append(time.monotonic()))
    seconds, memory = ends[1] - ends[0], runtime.peak_memory()
    return {
        "architecture": architecture,
        "method": name,
        "seconds_per_epoch": seconds,
        "epochs": whole.epochs,
        "time_minutes": seconds * whole.epochs / 60,
        "gpu_memory_gb": None if memory is None else memory / 1e9,
        "environment": environment(runtime),
    }


def read_cell(path: Path) -> dict[str, Any]:
    cell, needed = read_json(path), {"architecture", "method", "time_minutes", "gpu_memory_gb", "environment"}
    if not isinstance(cell, dict) or not needed <= cell.keys():
        raise UserError(f"{path} is not a cell that was timed; delete it and run the same command again")
    return cell


def shown(value: float | None) -> str:
    return MISSING if value is None else f"{value:.2f}"


def tabulate(cells: list[dict[str, Any]], device: str, algorithm: str) -> Table:
    """Minutes and GB by architecture, the paper's below."""
    printed = {(r["architecture"], r["method"]): r for r in paper.load()["tables"]["time_memory"]["rows"]}
    architectures = list(dict.fromkeys(cell["architecture"] for cell in cells))
    rows = []
    for method in dict.fromkeys(cell["method"] for cell in cells):
        row = [Cell(method_name(method))]
        for architecture in architectures:
            cell = next(c for c in cells if (c["architecture"], c["method"]) == (architecture, method))
            theirs = printed.get((architecture, method), {})  # the paper has its own methods only
            row += [
                Cell(shown(cell[key]), paper=shown(theirs[key]) if theirs else None)
                for key in ("time_minutes", "gpu_memory_gb")
            ]
        rows.append(tuple(row))
    names = [architecture_name(name) for name in architectures]
    return Table(
        title=f"Time and memory: {algorithm}, {device}",
        caption=CAPTION,
        columns=("Method", *(f"{name} {unit}" for name in names for unit in ("min", "GB"))),
        rows=tuple(rows),
    )
