"""Runs that recipes share, made once."""

from pathlib import Path

import pytest

from muc.__main__ import main


@pytest.fixture(scope="session")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two seeds with a search of two settings; the smaller recipes find their runs here."""
    folder = tmp_path_factory.mktemp("reproduced")
    flags = ["--seeds", "0", "1", "--search", "2", "--algorithms", "simclr", "--methods", "finetune"]
    flags += ["alignment_calibration", "--smoke", "--device", "cpu", "--threads", "1"]
    assert main(["reproduce", "cifar10-10", "--out", str(folder), *flags]) == 0
    return folder
