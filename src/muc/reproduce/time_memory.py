"""Table 15: what each method costs in time and device memory, from ResNet-18 to ResNet-152.

Nothing is trained to the end: a cell is timed for one epoch, after one that warms up, and multiplied by the method's
number of epochs. Pixels are noise, which costs the same as pictures.
"""

import gc
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from muc import config, paper
from muc.config import recipe
from muc.data import plan_batches
from muc.errors import check_name
from muc.methods import METHODS
from muc.models import build_model
from muc.progress import meter
from muc.report.render import latex, markdown
from muc.report.tables import Cell, Table
from muc.report.words import architecture_name, method_name
from muc.runs import environment, optimisation_of
from muc.runtime import Runtime
from muc.storage import write_json
from muc.train import Training

ARCHITECTURES = ("resnet18", "resnet34", "resnet50", "resnet101", "resnet152")
TRAINING_IMAGES, FORGET_FRACTION, IMAGE_SIZE = 45_000, 0.1, 32


def reproduce(
    out: Path,
    methods: Sequence[str] = (),
    runtime: config.Runtime | None = None,
    smoke: bool = False,
    algorithm: str = "moco",
) -> Table:
    """Time every cell, write time-memory.{json,md,tex} into `out`. The paper does not say which algorithm it timed."""
    chosen = [check_name("method", name, METHODS) for name in methods] or list(METHODS)
    resolved = Runtime(runtime)
    shape = (24, 3, 16, 16) if smoke else (TRAINING_IMAGES, 3, IMAGE_SIZE, IMAGE_SIZE)
    images = np.random.default_rng(0).integers(256, size=shape, dtype=np.uint8)
    architectures = ARCHITECTURES[:1] if smoke else ARCHITECTURES
    cells = [(architecture, method) for architecture in architectures for method in chosen]
    measured = []
    with meter("time-memory", len(cells), "cells") as progress:
        for architecture, method in cells:
            measured.append(measure(algorithm, architecture, method, images, 8 if smoke else 512, resolved))
            progress.advance(note=f"{architecture} {method}")
    record = {"algorithm": algorithm, "environment": environment(resolved), "cells": measured}
    write_json(out / "time-memory.json", record)
    table = tabulate(measured, resolved.describe(), algorithm, smoke)
    (out / "time-memory.md").write_text(markdown(table), encoding="utf-8")
    (out / "time-memory.tex").write_text(latex(table), encoding="utf-8")
    return table


def measure(
    algorithm: str, architecture: str, name: str, images: np.ndarray, batch: int, runtime: Runtime
) -> dict[str, Any]:
    """One cell of the table."""
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
    }


def tabulate(cells: list[dict[str, Any]], device: str, algorithm: str, smoke: bool = False) -> Table:
    """Minutes and GB by architecture, the paper's below."""
    printed = {(r["architecture"], r["method"]): r for r in paper.load()["tables"]["time_memory"]["rows"]}
    architectures = list(dict.fromkeys(cell["architecture"] for cell in cells))
    rows = []
    for method in dict.fromkeys(cell["method"] for cell in cells):
        row = [Cell(method_name(method))]
        for architecture in architectures:
            cell = next(c for c in cells if (c["architecture"], c["method"]) == (architecture, method))
            theirs, memory = printed[architecture, method], cell["gpu_memory_gb"]
            row += [
                Cell(f"{cell['time_minutes']:.2f}", paper=f"{theirs['time_minutes']:.2f}"),
                Cell("n/a" if memory is None else f"{memory:.2f}", paper=f"{theirs['gpu_memory_gb']:.2f}"),
            ]
        rows.append(tuple(row))
    names = [architecture_name(name) for name in architectures]
    return Table(
        title=f"Time and memory: {algorithm}, {device}{' (smoke test: the numbers mean nothing)' if smoke else ''}",
        caption="Minutes for all epochs, extrapolated from one timed epoch after one that warms up (start-up not "
        "counted), and peak device memory. The paper's (four A100; data and algorithm not stated) below.",
        columns=("Method", *(f"{name} {unit}" for name in names for unit in ("min", "GB"))),
        rows=tuple(rows),
    )
