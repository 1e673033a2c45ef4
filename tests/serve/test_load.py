"""benchmarks/serve_load.py, for three seconds: a server in a process of its own, under more than it can do."""

import json
import re
import signal
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

from muc.run_folder import RunFolder
from muc.serve.keys import KeyFile

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def benchmark() -> ModuleType:
    spec = spec_from_file_location("serve_load", ROOT / "benchmarks" / "serve_load.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_under_load_there_are_answers_and_429_and_nothing_else(
    benchmark: ModuleType, runs: tuple[RunFolder, RunFolder]
) -> None:
    before, after = runs
    tokens = benchmark.add_keys(before.path)
    with benchmark.serving(before.path, after.path) as (url, pid):
        found = benchmark.measure(url, pid, tokens, clients=64, seconds=3.0)
    assert found["statuses"].keys() == {"200", "429"}
    assert found["statuses"]["200"] > 20
    assert found["memory_after"] - found["memory_before"] < 100_000_000
    kept = json.loads(json.dumps(benchmark.record(found)))
    assert kept["statuses"] == found["statuses"]
    assert {"muc", "commit", "python", "torch", "platform", "date"} <= kept.keys()
    assert kept["device"].lower().startswith("cpu")


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_stops_it_at_once_and_cleanly(
    benchmark: ModuleType, runs: tuple[RunFolder, RunFolder], stop: signal.Signals
) -> None:
    before, after = (run.path for run in runs)
    if not KeyFile(before).all():
        KeyFile(before).add("somebody", 1)
    command = [sys.executable, "-m", "muc", "serve", str(before), "--after", str(after), "--port", "0"]
    with subprocess.Popen(
        [*command, "--threads", "1"],
        stderr=subprocess.PIPE,
        text=True,
        env=benchmark.ENVIRONMENT,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # tests that run in the background ignore it
    ) as process:
        assert process.stderr is not None
        line = process.stderr.readline()
        found = re.search(r"http://127\.0\.0\.1:\d+", line)
        assert found, line
        try:
            benchmark.wait_for(found[0])
            process.send_signal(stop)
            rest = process.communicate(timeout=10)[1]
        finally:
            process.kill()
    assert "Traceback" not in rest
    assert process.returncode in (130, -signal.SIGTERM)
