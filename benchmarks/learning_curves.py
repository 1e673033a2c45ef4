"""Does the fast path learn what the plain one learns? Short trainings by both, test accuracy of a linear probe.

    python benchmarks/learning_curves.py --data cifar10 [--paths fast plain] [--out results/…/learning_curves.json]

fast: the default on this device; plain: eager float32 without muc's kernels. The spread of seeds is the yardstick.
Results already in --out are kept, so that the runs can be made one at a time.
"""

import json
import time
from dataclasses import replace

import numpy as np
import torch
from measuring import begin, flags, publish, random_images

from muc import config
from muc.data import ImageSet, load_images, make_split, plan_batches
from muc.evaluation.features import embed
from muc.evaluation.probe import confidences, train_probe
from muc.methods import Retrain
from muc.models import build_model
from muc.recipes import recipe
from muc.runtime import Runtime
from muc.seeds import derive_seed
from muc.train import Training


def train(algorithm: str, path: str, seed: int, images: ImageSet, epochs: int, device: str) -> dict:
    plain = config.Runtime(device=device, precision="float32", compile="off")
    runtime = Runtime(plain if path == "plain" else config.Runtime(device=device))
    torch.backends.cudnn.allow_tf32 = path == "plain"  # torch's default, three times as fast
    settings = recipe("cifar10", algorithm)
    small = len(images.train) < 1000
    optimisation = replace(settings.optimisation, epochs=epochs, batch_size=16 if small else 512)
    probe_settings = replace(settings.probe, epochs=20, batch_size=16 if small else 512)
    split = make_split(images, settings.data, seed)
    plan = plan_batches(split.retain, split.unlearn, "retain", optimisation.batch_size, seed)
    torch.manual_seed(derive_seed("init", seed))
    model = build_model(settings.model, images.channels, images.image_size)
    losses: list[float] = []
    begun = time.perf_counter()
    training = Training(model, Retrain(), images.train, plan, settings.views, optimisation, runtime, seed)
    training.run(lambda line: losses.append(line["loss"]))
    seconds = time.perf_counter() - begun
    model.eval()
    pixels, labels = images.train[split.retain], torch.from_numpy(images.train_labels[split.retain])
    probe = train_probe(model, pixels, labels.to(runtime.device), images.classes, probe_settings, runtime, seed)
    _, right = confidences(
        probe, embed(model, images.test, runtime), torch.from_numpy(images.test_labels).to(runtime.device)
    )
    return {
        "algorithm": algorithm,
        "path": path,
        "seed": seed,
        "epochs": epochs,
        "test accuracy": 100 * float(right.float().mean()),
        "last loss": losses[-1],
        "seconds": seconds,
        "losses": losses,
    }


def main() -> None:
    parser = flags(__doc__ or "")
    parser.add_argument("--data", help="a data set instead of noise")
    parser.add_argument("--paths", nargs="*", default=["fast", "plain"])
    parser.add_argument("--algorithms", nargs="*", default=["simclr", "moco"])
    parser.add_argument("--seeds", type=int, nargs="*", default=[0, 1, 2])
    parser.add_argument("--epochs", type=int, default=30)
    args = parser.parse_args()
    noise = random_images(48, 32)
    images = (
        load_images(config.Data(name=args.data))
        if args.data
        else ImageSet("noise", noise, np.arange(48) % 4, noise, np.arange(48) % 4, ["a", "b", "c", "d"])
    )
    runtime = Runtime(config.Runtime(device=args.device))
    rows = json.loads(args.out.read_text())["rows"] if args.out and args.out.exists() else []
    for path in args.paths:
        for algorithm in args.algorithms:
            for seed in args.seeds:
                if (algorithm, path, seed) in {(row["algorithm"], row["path"], row["seed"]) for row in rows}:
                    continue
                rows.append(train(algorithm, path, seed, images, args.epochs, args.device))
                publish("learning_curves", rows, runtime, args.out)


if __name__ == "__main__":
    begin(main)
