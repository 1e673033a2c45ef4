"""Seconds for the whole white-box evaluation of one model, and for its parts.

    python benchmarks/evaluate_speed.py [--algorithm moco] [--out results/…/evaluate_speed.json]

On a GPU: CIFAR-10's sizes, 10 views of every image scored, a probe of 100 epochs with fresh shifts, the SVM on 20,000
points. On CPU: a few hundred images and a short probe, beside a plain version in the same run (PIL views from a
DataLoader, a probe that shifts PIL images, scikit-learn's SVC); only the ratio means anything there.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from measuring import begin, flags, publish, random_images
from PIL import Image
from plain import TwoViews
from torch.nn.functional import cross_entropy, normalize
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms

from muc import config
from muc.data import ImageSet
from muc.evaluation import membership
from muc.evaluation.features import alignment
from muc.evaluation.probe import train_probe
from muc.evaluation.white_box import evaluate
from muc.models import ContrastiveModel, build_model
from muc.recipes import recipe
from muc.runtime import Runtime
from muc.split import Split


def timed(name: str, work: Callable[[], Any], runtime: Runtime) -> dict[str, Any]:
    begun = time.perf_counter()
    work()
    runtime.wait()
    return {"part": name, "s": time.perf_counter() - begun}


def plain_scores(model: ContrastiveModel, images: np.ndarray, views: int) -> None:
    """Views by PIL, two at a time, features in eager float32."""
    loader = DataLoader(TwoViews(np.repeat(images, views // 2, 0)), 64, num_workers=2)
    with torch.no_grad():
        z = torch.cat([normalize(model.features(torch.cat(pair)), dim=1) for pair in loader])
    z.unflatten(0, (views, -1)).sum(0).square().sum(-1)


class Shifted(Dataset):
    def __init__(self, images: np.ndarray, labels: np.ndarray) -> None:
        self.images, self.labels = images.transpose(0, 2, 3, 1), labels
        self.shift = transforms.Compose(
            [transforms.RandomCrop(32, padding=4), transforms.RandomHorizontalFlip(), transforms.ToTensor()]
        )

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return self.shift(Image.fromarray(self.images[index])), int(self.labels[index])


def plain_probe(model: ContrastiveModel, images: np.ndarray, labels: np.ndarray, epochs: int) -> None:
    probe = torch.nn.LazyLinear(10)
    optimiser = None
    for _ in range(epochs):
        for x, y in DataLoader(Shifted(images, labels), 64, shuffle=True, num_workers=2):
            with torch.no_grad():
                features = model.features(x)
            loss = cross_entropy(probe(features), y)
            optimiser = optimiser or torch.optim.SGD(probe.parameters(), 1.0, 0.9)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()


def main() -> None:
    parser = flags(__doc__ or "")
    parser.add_argument("--algorithm", default="moco", choices=["simclr", "moco"])
    args = parser.parse_args()
    runtime = Runtime(config.Runtime(device=args.device))
    train, test = (50_000, 10_000) if runtime.on_gpu else (240, 80)
    settings = recipe("cifar10", args.algorithm)
    if not runtime.on_gpu:
        settings = replace(settings, probe=replace(settings.probe, epochs=2, batch_size=64))
    images = ImageSet(
        "noise", random_images(train, 32), np.arange(train) % 10, random_images(test, 32, 1), np.arange(test) % 10,
        [str(c) for c in range(10)],
    )  # fmt: skip
    rows = np.random.default_rng(0).permutation(train)
    held = train // 10
    split = Split(retain=rows[2 * held :], unlearn=rows[held : 2 * held], validation=rows[:held], seed=0)
    torch.manual_seed(0)
    model, before = (runtime.place(build_model(settings.model, 3, 32)).eval() for _ in range(2))
    scored = images.train[rows[: 2 * held + min(10_000, test) * 2]]
    pixels = torch.from_numpy(scored).to(runtime.device)
    retain = torch.from_numpy(images.train[split.retain]).to(runtime.device)
    labels = torch.from_numpy(images.train_labels[split.retain]).to(runtime.device)
    points = np.random.default_rng(0).beta(2, 1, (2, min(10_000, 2 * test)))
    timed("warm-up", lambda: alignment(model, pixels[:512], settings.views, runtime, 0), runtime)
    timed("warm-up", lambda: membership.cmia(*points[:, :20], *points[:, :20]), runtime)
    results = [
        timed(
            f"10 views of {len(scored):,} images",
            lambda: alignment(model, pixels, settings.views, runtime, 0),
            runtime,
        ),
        timed(
            f"probe, {settings.probe.epochs} epochs of {len(retain):,} images",
            lambda: train_probe(model, retain, labels, 10, settings.probe, runtime, 0),
            runtime,
        ),
        timed(
            f"SVM on {points.size:,} points",
            lambda: membership.cmia(points[0], points[1], points[0], points[1]),
            runtime,
        ),
        timed("whole evaluation", lambda: evaluate(model, before, images, split, settings, runtime), runtime),
    ]
    if not runtime.on_gpu:
        from sklearn.svm import SVC

        x, y = points.reshape(-1, 1), np.repeat([1, 0], points.shape[1])
        usual = build_model(settings.model, 3, 32).eval()
        plain = [
            timed("views", lambda: plain_scores(usual, scored, 10), runtime)["s"],
            timed(
                "probe",
                lambda: plain_probe(usual, images.train[split.retain], images.train_labels[split.retain], 2),
                runtime,
            )["s"],
            timed("svm", lambda: SVC(C=3.0, gamma="auto").fit(x, y).decision_function(x), runtime)["s"],
        ]
        for row, seconds in zip(results[:3], plain, strict=True):  # the whole has more parts than these
            row["plain s"], row["times faster"] = seconds, seconds / row["s"]
    publish("evaluate_speed", results, runtime, args.out)


if __name__ == "__main__":
    begin(main)
