"""Runs that recipes share, made once."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from latex import AVAILABLE, typeset
from muc.__main__ import main
from muc.report import render
from muc.report.cells import Table


@pytest.fixture(scope="session")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two seeds with a search of two settings; the smaller recipes find their runs here."""
    folder = tmp_path_factory.mktemp("reproduced")
    flags = ["--seeds", "0", "1", "--search", "2", "--algorithms", "simclr", "--methods", "finetune"]
    flags += ["alignment_calibration", "--smoke", "--device", "cpu", "--threads", "1"]
    assert main(["reproduce", "cifar10-10", "--out", str(folder), *flags]) == 0
    return folder


@pytest.fixture(scope="session", autouse=True)
def latex(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Every table that a recipe writes here is plain ASCII in LaTeX; in the end all of them are typeset."""
    made: dict[str, str] = {}
    plain = render.latex

    def checked(table: Table) -> str:
        text = plain(table)
        assert text.isascii(), table.title
        assert {len(row) for row in table.rows} == {len(table.columns)}, table.title
        made[table.title] = text
        return text

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(render, "latex", checked)
        yield
    if made and AVAILABLE:
        assert "Overfull" not in typeset(made.values(), tmp_path_factory.mktemp("latex"))
