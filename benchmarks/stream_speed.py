"""Pictures streamed from disk, in class folders and in tar shards: what the loader costs beside decoding, and what
bounds a training.

    python benchmarks/stream_speed.py [--pictures 20000] [--side 224] [--out results/engine/stream_speed.json]

Makes its own pictures in a temporary folder: smooth noise, which as JPEG has about the bytes of a photograph. Each rate
is of whole batches in random order: `decode` by all threads; `feed`, the same through what a training reads from, with
nobody training; `DataLoader`, the plain one, with a worker a core; `train`. On a GPU folders train the paper's MoCo
(ResNet-18), and shards its CLIP (open_clip's RN50; left out without it); on CPU both train a small network, which says
little.
"""

import io
import json
import statistics
import tarfile
import tempfile
import time
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from measuring import begin, flags, publish
from PIL import Image
from torch.utils.data import DataLoader
from torchvision import datasets, transforms

from muc import config
from muc.data import ImageSet, load_images, plan_batches
from muc.data.feed import bound_by, make_feed
from muc.data.files import ImageFiles, thread_count
from muc.data.loader import BatchPlan
from muc.machine import core_count
from muc.methods import Retrain
from muc.models import build_model
from muc.recipes import recipe
from muc.runtime import Runtime
from muc.train import Training

A_SHARD = 1000
CLASSES = 10


def picture(side: int, random: np.random.Generator) -> bytes:
    coarse = random.integers(0, 256, (side // 8, side // 8, 3), dtype=np.uint8)
    jpeg = io.BytesIO()
    Image.fromarray(coarse).resize((side, side), Image.Resampling.BICUBIC).save(jpeg, "JPEG", quality=90)
    return jpeg.getvalue()


def write_folder(folder: Path, pictures: int, side: int) -> None:
    random = np.random.default_rng(0)
    for part, count in (("train", pictures), ("test", CLASSES)):
        for i in range(count):
            path = folder / part / f"class{i % CLASSES}" / f"{i:09}.jpg"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(picture(side, random))


def write_shards(folder: Path, pictures: int, side: int) -> None:
    random = np.random.default_rng(0)
    for number in range(-(-pictures // A_SHARD)):
        with tarfile.open(folder / f"shard-{number:06}.tar", "w") as tar:
            for i in range(number * A_SHARD, min((number + 1) * A_SHARD, pictures)):
                captions = {"captions": [f"picture {i}", f"number {i}"]}
                for suffix, data in ((".jpg", picture(side, random)), (".json", json.dumps(captions).encode())):
                    info = tarfile.TarInfo(f"{i:09}{suffix}")
                    info.size = len(data)
                    tar.addfile(info, io.BytesIO(data))


def decode(images: ImageFiles, plan: BatchPlan) -> float:
    """Pictures a second, read and decoded by all threads."""
    begun = time.perf_counter()
    for rows in plan.epoch(0).numpy():
        images[rows]
    return pictures_in(plan) / (time.perf_counter() - begun)


def drain(images: ImageFiles, plan: BatchPlan, runtime: Runtime) -> float:
    """Pictures a second that reach the device where nothing is done with them."""
    feed = make_feed(images, plan, 1, runtime)
    begun = time.perf_counter()
    for step in range(plan.steps):
        feed.load(0, step)
    if runtime.on_gpu:
        torch.cuda.synchronize()
    seconds = time.perf_counter() - begun
    feed.close()
    return pictures_in(plan) / seconds


def plain_loader(folder: Path, side: int, plan: BatchPlan) -> float:
    """Pictures a second from what most people would write, resized as ours are; the workers' start is not counted."""
    view = transforms.Compose([transforms.Resize(side), transforms.CenterCrop(side), transforms.PILToTensor()])
    batch, workers = plan.n_retain, core_count()
    loader = DataLoader(
        datasets.ImageFolder(folder / "train", view), batch, True, num_workers=workers, drop_last=True,
        persistent_workers=True,
    )  # fmt: skip
    for _ in loader:
        pass
    begun = time.perf_counter()
    for _ in loader:
        pass
    return pictures_in(plan) / (time.perf_counter() - begun)


def pictures_in(plan: BatchPlan) -> int:
    return plan.steps * plan.n_retain


def train(
    images: ImageSet, plan: BatchPlan, settings: config.Pretraining, epochs: int, runtime: Runtime
) -> tuple[float, float]:
    """-> seconds an epoch (the first one pays for warming up), and the share of all time that was spent waiting."""
    model = build_model(settings.model, images.channels, images.image_size)
    optimisation = replace(settings.optimisation, epochs=epochs, batch_size=plan.n_retain)
    training = Training(
        model, Retrain(), images.train, plan, settings.views, optimisation, runtime, 0, images.train_captions
    )
    ends = [time.perf_counter()]
    training.run(report=lambda _line: ends.append(time.perf_counter()))
    return statistics.median(np.diff(ends)[-max(1, epochs - 1) :]), training.waiting() or 0.0


def measure(folder: Path, algorithm: str, side: int, batch: int, epochs: int, runtime: Runtime) -> dict[str, Any]:
    begun = time.perf_counter()
    images = load_images(config.Data(name=str(folder), image_size=side, stream="on"))
    opened = time.perf_counter() - begun
    assert isinstance(images.train, ImageFiles)
    plan = plan_batches(np.arange(len(images.train)), np.arange(0), "retain", batch, 0)
    settings = recipe("pictures", algorithm)
    if not runtime.on_gpu:
        settings = replace(settings, model=replace(settings.model, architecture="convnet"))
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    row = {
        "from": "tar shards" if images.train.slices else "class folders",
        "network": f"{algorithm} {settings.model.architecture}",
        "pictures": len(images.train),
        "side": side,
        "KB a picture": size / len(images.train) / 1000,
        "open (index, hash, check) s": opened,
        "threads": thread_count(),
        "decode images/s": decode(images.train, plan),
        "feed images/s": drain(images.train, plan, runtime),
        "DataLoader images/s": None if images.train.slices else plain_loader(folder, side, plan),
    }
    seconds, waiting = train(images, plan, settings, epochs, runtime)
    return {
        **row,
        "train images/s": pictures_in(plan) / seconds,
        "waiting for data": waiting,
        "bound by": bound_by(waiting),
    }


def main() -> None:
    parser = flags(__doc__ or "")
    parser.add_argument("--pictures", type=int)
    parser.add_argument("--side", type=int, default=224)
    args = parser.parse_args()
    runtime = Runtime(config.Runtime(device=args.device))
    pictures, batch, epochs = (args.pictures or 20_000, 256, 3) if runtime.on_gpu else (args.pictures or 2000, 32, 1)
    rows = []
    kinds = [("moco", write_folder), ("clip", write_shards)]
    if runtime.on_gpu and not find_spec("open_clip"):
        print("tar shards are left out: they train open_clip's RN50, and open_clip_torch is not installed")
        kinds.pop()
    for algorithm, write in kinds:
        with tempfile.TemporaryDirectory() as name:
            write(Path(name), pictures, args.side)
            rows.append(measure(Path(name), algorithm, args.side, batch, epochs, runtime))
    publish("stream_speed", rows, runtime, args.out)


if __name__ == "__main__":
    begin(main)
