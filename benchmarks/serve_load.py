"""Many clients at once against `muc serve`: statuses, latency, and whether memory stays where it was.

    python benchmarks/serve_load.py [--clients 64] [--seconds 60] [--out results/…/serve_load.json]

Makes two small runs and starts a real server in a process of its own. Every client sends requests of 1 to 8 images as
fast as they are answered; one that is told to wait (429) waits a twentieth of a second instead of the second it was
told, so the server is always offered more than it can do.
"""

import argparse
import asyncio
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from PIL import Image

import muc
from muc.machine import core_count

MUC = [sys.executable, "-m", "muc"]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(muc.__file__).parents[1])}  # the server is of this very tree
KEYS = 16
WAIT = 0.05


def make_runs(folder: Path) -> tuple[Path, Path]:
    before, after = folder / "before", folder / "after"
    small = ["--epochs", "1", "--threads", "1", "--device", "cpu"]
    data = ["--data", "digits", "--train-limit", "40", "--batch-size", "20"]
    subprocess.run([*MUC, "pretrain", *data, *small, "--out", before], check=True, env=ENVIRONMENT)
    request = ["--method", "finetune", "--forget-fraction", "0.2"]
    subprocess.run([*MUC, "unlearn", before, *request, *small, "--out", after], check=True, env=ENVIRONMENT)
    return before, after


def add_keys(run: Path) -> list[str]:
    from muc.serve.keys import KeyFile

    return [KeyFile(run).add(f"client {i}", 10**8) for i in range(KEYS)]


@contextmanager
def serving(before: Path, after: Path) -> Generator[tuple[str, int]]:
    """-> (address, process)."""
    command = [*MUC, "serve", str(before), "--after", str(after), "--port", "0", "--device", "cpu", "--threads", "1"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT) as process:
        try:
            assert process.stderr is not None
            for line in process.stderr:
                if found := re.search(r"http://\S+", line):
                    break
            else:
                raise SystemExit("the server did not start")
            wait_for(found[0])
            yield found[0], process.pid
        finally:
            process.terminate()


def wait_for(url: str) -> None:
    """It is announced just before it listens."""
    for _ in range(100):
        try:
            httpx.get(url)
            return
        except httpx.ConnectError:
            time.sleep(0.05)
    raise SystemExit("the server does not listen")


def memory(pid: int) -> int:
    """Resident bytes of a process."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def picture(seed: int) -> bytes:
    pixels = np.random.default_rng(seed).integers(256, size=(32, 32, 3), dtype=np.uint8)
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "PNG")
    return out.getvalue()


async def ask(
    client: httpx.AsyncClient, token: str, seed: int, end: float, seen: list[tuple[int | str, float]]
) -> None:
    files = [("images", ("x.png", picture(seed), "image/png"))] * (1 + seed % 8)
    headers = {"Authorization": f"Bearer {token}"}
    while time.monotonic() < end:
        begun = time.monotonic()
        try:
            answer = await client.post("/v1/embed?model=after", files=files, headers=headers)
            seen.append((answer.status_code, time.monotonic() - begun))
        except httpx.HTTPError as error:
            seen.append((type(error).__name__, time.monotonic() - begun))
            continue
        if answer.status_code == 429:
            assert int(answer.headers["Retry-After"]) >= 1
            await asyncio.sleep(WAIT)


async def load(url: str, tokens: list[str], clients: int, seconds: float) -> list[tuple[int | str, float]]:
    seen: list[tuple[int | str, float]] = []
    every = httpx.Limits(max_connections=clients)  # one connection each
    async with httpx.AsyncClient(base_url=url, limits=every, timeout=60) as client:
        end = time.monotonic() + seconds
        await asyncio.gather(*(ask(client, tokens[i % len(tokens)], i, end, seen) for i in range(clients)))
    return seen


def measure(url: str, pid: int, tokens: list[str], clients: int, seconds: float) -> dict[str, Any]:
    asyncio.run(load(url, tokens, clients, 1.0))  # memory is compared with a server that has worked before
    before = memory(pid)
    seen = asyncio.run(load(url, tokens, clients, seconds))
    result: dict[str, Any] = {
        "clients": clients,
        "seconds": seconds,
        "statuses": {str(k): n for k, n in sorted(Counter(status for status, _ in seen).items(), key=str)},
    }
    for status in (200, 429):
        times = [elapsed for found, elapsed in seen if found == status]
        if times:
            p50, p99 = np.percentile(times, [50, 99])
            result[f"latency_{status}"] = {"p50": round(float(p50), 4), "p99": round(float(p99), 4)}
    return {**result, "memory_before": before, "memory_after": memory(pid), "cores": core_count()}


def record(result: dict[str, Any]) -> dict[str, Any]:
    """With what it was measured: the server computes as the runs were made."""
    from muc import config
    from muc.environment import environment
    from muc.runtime import Runtime

    return {"benchmark": "serve_load", **environment(Runtime(config.Runtime(device="cpu", threads=1))), **result}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--out", type=Path)
    flags = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="serve_load_") as folder:
        before, after = make_runs(Path(folder))
        tokens = add_keys(before)
        with serving(before, after) as (url, pid):
            result = measure(url, pid, tokens, flags.clients, flags.seconds)
    text = json.dumps(record(result), indent=1)
    print(text)
    if flags.out:
        flags.out.parent.mkdir(parents=True, exist_ok=True)
        flags.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
