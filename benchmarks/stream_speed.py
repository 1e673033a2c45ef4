"""Image-text pairs streamed from tar shards: how fast they are indexed, read and decoded, and what bounds training.

    python benchmarks/shards_speed.py [--pairs 20000] [--side 224] [--out results/…/shards_speed.json]

Makes its own pairs in a temporary folder: smooth noise, which as JPEG has about the bytes of a photograph. On a GPU the
model is the paper's CLIP (open_clip's RN50, batch 256); on CPU a small one, where only the reading means anything.
"""

import io
import json
import statistics
import tarfile
import tempfile
import time
from pathlib import Path

import numpy as np
from common import begin, flags, publish
from PIL import Image

from muc import config
from muc.data import ImageSet, load_images, plan_batches
from muc.data.feed import bound_by
from muc.data.files import ImageFiles, thread_count
from muc.data.shards import find_shards, read_shards
from muc.methods import Retrain
from muc.models import build_model
from muc.recipes import recipe
from muc.runtime import Runtime
from muc.train import Training

A_SHARD = 1000


def add(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    tar.addfile(info, io.BytesIO(data))


def write_shards(folder: Path, pairs: int, side: int) -> None:
    random = np.random.default_rng(0)
    for number in range(-(-pairs // A_SHARD)):
        with tarfile.open(folder / f"shard-{number:06}.tar", "w") as tar:
            for i in range(number * A_SHARD, min((number + 1) * A_SHARD, pairs)):
                coarse = random.integers(0, 256, (side // 8, side // 8, 3), dtype=np.uint8)
                jpeg = io.BytesIO()
                Image.fromarray(coarse).resize((side, side), Image.Resampling.BICUBIC).save(jpeg, "JPEG", quality=90)
                add(tar, f"{i:09}.jpg", jpeg.getvalue())
                add(tar, f"{i:09}.json", json.dumps({"captions": [f"picture {i}", f"number {i}"]}).encode())


def read(images: ImageSet, batch: int) -> float:
    """Pictures a second, read and decoded by all threads, a batch of random rows at a time."""
    rows = np.random.default_rng(1).permutation(len(images.train))
    begun = time.perf_counter()
    for start in range(0, len(rows), batch):
        images.train[rows[start : start + batch]]
    return len(rows) / (time.perf_counter() - begun)


def train(images: ImageSet, batch: int, epochs: int, architecture: str, runtime: Runtime) -> tuple[float, float]:
    """-> seconds an epoch (the first one pays for warming up), and the share of all time that was spent waiting."""
    settings = recipe("pairs", "clip")
    model = build_model(config.Model("clip", architecture, temperature=0.07), images.channels, images.image_size)
    plan = plan_batches(np.arange(len(images.train)), np.arange(0), "retain", batch, 0)
    optimisation = config.Optimisation(epochs=epochs, batch_size=batch, learning_rate=5e-4, optimiser="adamw")
    training = Training(
        model, Retrain(), images.train, plan, settings.views, optimisation, runtime, 0, images.train_captions
    )
    ends = [time.perf_counter()]
    training.run(report=lambda _line: ends.append(time.perf_counter()))
    return statistics.median(np.diff(ends)[-max(1, epochs - 1) :]), training.waiting() or 0.0


def main() -> None:
    parser = flags(__doc__ or "")
    parser.add_argument("--pairs", type=int)
    parser.add_argument("--side", type=int, default=224)
    parser.add_argument("--architecture")
    args = parser.parse_args()
    runtime = Runtime(config.Runtime(device=args.device))
    pairs, batch, epochs = (args.pairs or 20_000, 256, 3) if runtime.on_gpu else (args.pairs or 400, 32, 2)
    architecture = args.architecture or ("open_clip/RN50" if runtime.on_gpu else "convnet")
    with tempfile.TemporaryDirectory() as name:
        write_shards(Path(name), pairs, args.side)
        begun = time.perf_counter()
        read_shards(find_shards(Path(name)), args.side)
        index = time.perf_counter() - begun
        begun = time.perf_counter()
        images = load_images(config.Data(name=name, image_size=args.side, stream="on"))
        opened = time.perf_counter() - begun
        assert isinstance(images.train, ImageFiles)
        rate = read(images, batch)
        seconds, waiting = train(images, batch, epochs, architecture, runtime)
        row = {
            "architecture": architecture,
            "pairs": pairs,
            "side": args.side,
            "KB a picture": sum(path.stat().st_size for path in Path(name).iterdir()) / pairs / 1000,
            "index pairs/s": pairs / index,
            "open (index, hash, check) s": opened,
            "threads": thread_count(),
            "read and decode images/s": rate,
            "train images/s": len(images.train) // batch * batch / seconds,
            "waiting for data": waiting,
            "bound by": bound_by(waiting),
        }
    publish("shards_speed", [row], runtime, args.out)


if __name__ == "__main__":
    begin(main)
