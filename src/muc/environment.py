"""With what a result was made: commit, versions, machine, date."""

import os
import platform
import subprocess
import time
from functools import cache
from pathlib import Path
from typing import Any

import torch

from muc import __version__, processes
from muc.runtime import Runtime

SOURCE = Path(__file__).parent


def environment(runtime: Runtime) -> dict[str, Any]:
    return {
        "muc": __version__,
        # A copy of the source that came without its history can be told which commit it is.
        "commit": os.environ.get("MUC_COMMIT") or commit_of(SOURCE),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "platform": platform.platform(),
        "device": runtime.describe(),
        "processes": processes.world(),
        "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


@cache
def commit_of(source: Path) -> str | None:
    """The commit that the package in `source` was checked out from, with a + where tracked files have changed since.

    None for an installed one, also where it is installed somewhere inside the checkout of another project.
    """
    top = _git(source, "rev-parse", "--show-toplevel")
    if not top or Path(top) != source.parents[1].resolve():
        return None
    return _git(source, "describe", "--always", "--abbrev=40", "--exclude=*", "--dirty=+")


def _git(folder: Path, *arguments: str) -> str | None:
    """Its answer; None where there is no git, or it has none."""
    try:
        done = subprocess.run(["git", "-C", folder, *arguments], capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
