"""Seconds an epoch of pretraining, by muc and by a plain PyTorch loop in the same run.

    python benchmarks/train_speed.py [--data cifar10] [--out results/…/train_speed.json]

On a GPU: ResNet-18 and the paper's recipe (batch 512, 45,000 images an epoch). On CPU: the same with smaller batches
and few steps; only the ratio means anything there.
"""

import statistics
import time

import numpy as np
import torch
from measuring import begin, flags, publish, random_images
from plain import seconds_per_step

from muc import config
from muc.config import in_range
from muc.data import load_images, plan_batches
from muc.flops import matmul_rate, step_flops
from muc.methods import Retrain
from muc.models import build_model
from muc.recipes import recipe
from muc.runtime import Runtime
from muc.train import Training


def measure(algorithm: str, images: np.ndarray, rows: int, batch: int, epochs: int, runtime: Runtime) -> dict:
    """Time real epochs; the first one pays for warming up."""
    settings = recipe("cifar10", algorithm)
    optimisation = config.Optimisation(epochs=epochs, batch_size=batch)
    plan = plan_batches(np.arange(rows), np.arange(0), "retain", batch, 0)
    runtime.reset_peak_memory()
    begun = time.perf_counter()
    model = build_model(settings.model, 3, images.shape[-1])
    flops = step_flops(model, Retrain(), plan, images.shape[1:])
    training = Training(model, Retrain(), images, plan, settings.views, optimisation, runtime, 0)
    ends: list[float] = []
    training.run(report=lambda _line: ends.append(time.perf_counter()))
    peak = runtime.peak_memory()
    seconds = statistics.median(np.diff(ends))
    return {
        "algorithm": algorithm,
        "s/epoch": seconds,
        "warm-up s": max(0.0, ends[0] - begun - seconds),
        "images/s": plan.steps * batch / seconds,
        "minutes for 800 epochs": 800 * seconds / 60,
        "TFLOP/s": flops * plan.steps / seconds / 1e12,
        "MFU": flops * plan.steps / seconds / matmul_rate(runtime, 8192 if runtime.on_gpu else 512),
        "peak GB": peak / 1e9 if peak else None,
        "steps": plan.steps,
        "batch": batch,
    }


def main() -> None:
    parser = flags(__doc__ or "")
    parser.add_argument("--data", help="a data set instead of noise")
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--plain-steps", type=int)
    parser.add_argument("--workers", type=int)
    args = parser.parse_args()
    runtime = Runtime(config.Runtime(device=args.device))
    batch, rows = (512, 45_000) if runtime.on_gpu else (16, 64)
    images = (
        load_images(config.Data(name=args.data)).train
        if args.data
        else random_images(max(rows, 50_000) if runtime.on_gpu else rows, 32)
    )
    epochs = args.epochs or 6
    in_range("epochs", epochs, 2, 1000)  # the first one warms up
    plain_steps = args.plain_steps or (120 if runtime.on_gpu else 8)  # workers read some 24 batches ahead
    cores = torch.get_num_threads()
    workers = args.workers or max(1, min(12, cores))
    results = []
    device = "cuda" if runtime.on_gpu else "cpu"
    for algorithm in ("simclr", "moco"):

        def plain(algorithm: str = algorithm) -> float:
            return seconds_per_step(algorithm, "resnet18", images, batch, plain_steps, workers, device)

        earlier = plain()  # before and after: what else the machine does hits both loops
        row = measure(algorithm, images, rows, batch, epochs, runtime)
        row["plain loop s/epoch"] = (earlier + plain()) / 2 * row["steps"]
        row["times faster"] = row["plain loop s/epoch"] / row["s/epoch"]
        results.append(row | {"data": args.data or "noise", "plain loop's workers": workers})
    publish("train_speed", results, runtime, args.out)


if __name__ == "__main__":
    begin(main)
