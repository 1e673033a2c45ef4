"""Seconds from the command's start to the saved model, for every approximate method, as a user types it.

    python benchmarks/unlearn_speed.py [--run RUN] [--out results/…/unlearn_speed.json]

On a GPU: 10 % of CIFAR-10 (or of noise of that size), ResNet-18, batch 512, MoCo, the methods' own numbers of epochs.
The first command finds Triton's cache empty, as on a new machine; all others find their kernels there. On CPU: a small
request, and a plain loop (PIL views, DataLoader, eager) over as many steps in the same run; only the ratio means
anything there.
"""

import json
import subprocess
import sys
import tempfile
import time
from os import environ
from pathlib import Path

import numpy as np
from measuring import begin, flags, publish, random_images
from plain import seconds_per_step

from muc import config
from muc.runtime import Runtime

METHODS = ("alignment_calibration", "finetune", "neggrad", "l1_sparsity", "gradient_ascent")


def muc(*arguments: str) -> float:
    """-> seconds the command took."""
    begun = time.perf_counter()
    done = subprocess.run([sys.executable, "-m", "muc", *arguments], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    return time.perf_counter() - begun


def noise_run(folder: Path, images: int, batch: int, algorithm: str, device: str) -> Path:
    """A model to unlearn from; what it has learnt changes no timing."""
    x, y = random_images(images, 32), np.arange(images) % 10
    np.savez(folder / "noise.npz", x_train=x, y_train=y, x_test=x[: images // 5], y_test=y[: images // 5])
    run = folder / "original"
    size = ("--batch-size", str(batch), "--epochs", "1", "--architecture", "resnet18")
    muc(
        "pretrain",
        "--data",
        str(folder / "noise.npz"),
        "--algorithm",
        algorithm,
        *size,
        "--out",
        str(run),
        "--device",
        device,
    )
    return run


def main() -> None:
    parser = flags(__doc__ or "")
    parser.add_argument("--run", type=Path, help="a finished run to unlearn from (default: noise)")
    parser.add_argument("--algorithm", default="moco", choices=["simclr", "moco"])
    parser.add_argument("--methods", nargs="+", default=METHODS, choices=METHODS)
    args = parser.parse_args()
    runtime = Runtime(config.Runtime(device=args.device))
    device = "cuda" if runtime.on_gpu else "cpu"
    results = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run = args.run or noise_run(
            folder, 50_000 if runtime.on_gpu else 80, 512 if runtime.on_gpu else 16, args.algorithm, device
        )
        environ["TRITON_CACHE_DIR"] = str(folder / "cache")
        epochs = () if runtime.on_gpu else ("--epochs", "1")
        trials = [("empty", args.methods[0])] * runtime.on_gpu + [("filled", method) for method in args.methods]
        for i, (cache, method) in enumerate(trials):
            where = ("--out", str(folder / f"{i}"), "--device", device)
            seconds = muc("unlearn", str(run), "--method", method, "--forget-fraction", "0.1", *epochs, *where)
            trained = json.loads((folder / f"{i}" / "result.json").read_text())["seconds"]
            row = {"method": method, "kernel cache": cache, "s": seconds, "of which training s": trained}
            results.append(row | {"from": args.run.name if args.run else "a run on noise"})
    if not runtime.on_gpu:  # start-up included on both sides
        begun = time.perf_counter()
        subprocess.run([sys.executable, "-c", "import torch, torchvision"], check=True)
        start = time.perf_counter() - begun
        step = seconds_per_step(args.algorithm, "resnet18", random_images(64, 32), 16, 3, 2, "cpu")
        for row in results:
            steps = 4 if row["method"] != "gradient_ascent" else 1
            row["plain loop s"] = start + step * steps
            row["times faster"] = row["plain loop s"] / row["s"]
    publish("unlearn_speed", results, runtime, args.out)


if __name__ == "__main__":
    begin(main)
