"""LaTeX tables, typeset: whether they compile, and what LaTeX has to say about them."""

import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

from muc.report.build import LATEX_HEAD

AVAILABLE = shutil.which("pdflatex") is not None


def typeset(tables: Iterable[str], folder: Path) -> str:
    """One document of rendered tables -> the log; an error is the test's."""
    packages = LATEX_HEAD.removeprefix("% needs ")
    body = "\n\\clearpage\n".join(tables)
    text = f"\\documentclass{{article}}\n{packages}\\begin{{document}}\n{body}\n\\end{{document}}\n"
    (folder / "all.tex").write_text(text)
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "all.tex"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, errors="replace", timeout=120)
    assert done.returncode == 0, done.stdout[-2000:]
    return (folder / "all.log").read_text(errors="replace")
