"""What the benchmarks share: flags, random images, a table, a record of machine and versions."""

import argparse
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from muc.environment import environment
from muc.errors import UserError
from muc.machine import core_count
from muc.runtime import Runtime


def flags(description: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--out", type=Path, help="write the figures here as JSON (default: runs/benchmarks/NAME.json)")
    return parser


def random_images(n: int, size: int, seed: int = 0) -> np.ndarray:
    """Noise: what an image shows changes no timing."""
    return np.random.default_rng(seed).integers(256, size=(n, 3, size, size), dtype=np.uint8)


def table(rows: list[dict[str, Any]]) -> str:
    """Markdown, columns in the order of the first row."""
    columns = list(rows[0])
    cells = [
        [str(row.get(c, "")) if not isinstance(row.get(c), float) else f"{row[c]:.4g}" for c in columns] for row in rows
    ]
    lines = [columns, ["---"] * len(columns), *cells]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def publish(name: str, rows: list[dict[str, Any]], runtime: Runtime, out: Path | None) -> None:
    print(table(rows))
    record = {
        "benchmark": name,
        **environment(runtime),
        "cores": core_count(),
        "precision": runtime.precision,
        "rows": rows,
    }
    out = out or Path("runs/benchmarks") / f"{name}.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(record, indent=1) + "\n")
    print(f"\nwritten to {out}")


def begin(main: Callable[[], None]) -> None:
    """Bad input gets one sentence and exit code 2, as from muc itself; idle threads wait as muc's own commands have it,
    for both sides of a comparison."""
    if "OMP_WAIT_POLICY" not in os.environ:  # read when torch is loaded, which it is: once more from the beginning
        os.environ["OMP_WAIT_POLICY"] = "PASSIVE"
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
    try:
        main()
    except UserError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
