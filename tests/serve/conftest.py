"""Two small runs, keys, and a server over them."""

from collections.abc import Generator
from pathlib import Path

import pytest
from live_server import CPU, Live, running

from muc.__main__ import main
from muc.run_folder import RunFolder
from muc.serve.keys import KeyFile
from muc.serve.pair import Pair, open_pair

TINY = ("--data", "digits", "--train-limit", "40", "--batch-size", "20", "--epochs", "1", "--threads", "1")


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[RunFolder, RunFolder]:
    """Before and after."""
    root = tmp_path_factory.mktemp("served")
    before, after = root / "before", root / "after"
    assert main(["pretrain", *TINY, "--out", str(before)]) == 0
    request = ["--forget-fraction", "0.2", "--epochs", "1", "--threads", "1", "--learning-rate", "0.1"]
    assert main(["unlearn", str(before), "--method", "gradient_ascent", *request, "--out", str(after)]) == 0
    return RunFolder(before), RunFolder(after)


@pytest.fixture(scope="session")
def pair(runs: tuple[RunFolder, RunFolder]) -> Pair:
    return open_pair(*runs, CPU)


@pytest.fixture
def keys(tmp_path: Path) -> KeyFile:
    """An empty key file, of its own for each test."""
    return KeyFile(tmp_path)


@pytest.fixture
def alice(keys: KeyFile) -> str:
    return keys.add("alice", 100_000)


@pytest.fixture
def live(pair: Pair, keys: KeyFile, alice: str) -> Generator[Live]:
    with running(pair, keys) as server:
        yield server
