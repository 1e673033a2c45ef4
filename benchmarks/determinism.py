"""What --deterministic gives and costs: the same training twice, with and without it.

python benchmarks/determinism.py [--out results/…/determinism.json]
"""

import os
import time
from hashlib import sha256

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # for all trainings of this process alike

import numpy as np
import torch
from measuring import begin, flags, publish, random_images

from muc import config
from muc.data import plan_batches
from muc.methods import Retrain
from muc.models import build_model
from muc.recipes import recipe
from muc.runtime import Runtime
from muc.train import Training


def train(algorithm: str, images: np.ndarray, batch: int, runtime: Runtime) -> tuple[str, float]:
    """-> digest of the weights, seconds of the last epoch."""
    settings = recipe("cifar10", algorithm)
    plan = plan_batches(np.arange(len(images)), np.arange(0), "retain", batch, 0)
    torch.manual_seed(0)
    model = build_model(settings.model, 3, 32)
    ends: list[float] = []
    optimisation = config.Optimisation(epochs=2, batch_size=batch)
    training = Training(model, Retrain(), images, plan, settings.views, optimisation, runtime, 0)
    training.run(lambda _line: ends.append(time.perf_counter()))
    digest = sha256()
    for value in model.state_dict().values():
        digest.update(value.cpu().numpy().tobytes())
    return digest.hexdigest()[:16], ends[1] - ends[0]


def main() -> None:
    args = flags(__doc__ or "").parse_args()
    rows = []
    for algorithm in ("simclr", "moco"):
        seconds = {}
        for deterministic in (False, True):
            runtime = Runtime(config.Runtime(device=args.device, deterministic=deterministic))
            images, batch = (random_images(45_000, 32), 512) if runtime.on_gpu else (random_images(32, 32), 8)
            results = [train(algorithm, images, batch, runtime) for _ in range(2)]
            seconds[deterministic] = min(time for _, time in results)
            rows.append(
                {
                    "algorithm": algorithm,
                    "deterministic": deterministic,
                    "same bits twice": results[0][0] == results[1][0],
                    "s/epoch": seconds[deterministic],
                    "cost": seconds[deterministic] / seconds[False],
                }
            )
    publish("determinism", rows, runtime, args.out)


if __name__ == "__main__":
    begin(main)
