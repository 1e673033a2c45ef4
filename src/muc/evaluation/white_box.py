"""All white-box metrics of one model: what its owner can know, with weights, data and labels at hand."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from muc import config
from muc.data import ImageSet
from muc.data.files import Pixels, select
from muc.evaluation import membership
from muc.evaluation.chunks import hold
from muc.evaluation.features import alignment, chunk_size, embed
from muc.evaluation.probe import confidences, train_probe
from muc.models import ContrastiveModel
from muc.runtime import Runtime
from muc.seeds import derive_seed
from muc.split import Split

NONE = np.arange(0)


@dataclass(frozen=True)
class Part:
    """One set of images (on the device, if they fit), and which train the attacks where it is too large or unequal."""

    pixels: Pixels | Tensor
    labels: Tensor
    attack: np.ndarray


def evaluate(
    model: ContrastiveModel,
    before: ContrastiveModel,
    images: ImageSet,
    split: Split,
    settings: config.Pretraining,
    runtime: Runtime,
    seed: int = 0,
) -> dict[str, Any]:
    """FS, EMIA, RA, TA, UA, CMIA and what stands behind them; `before` is the model before unlearning.

    "held_out" metrics are what FS, EMIA, UA and CMIA are for validation images, which no model and no attack ever saw
    (without such images for test images, with which the attacks were trained).
    """
    model, before = runtime.place(model).eval(), runtime.place(before).eval()
    parts = _parts(images, split, runtime)
    scores = _scores(model, parts, settings.views, runtime, seed)
    forgetting, drift = (
        _alignment(before, name, parts[name], settings.views, runtime, seed) - scores[name]
        for name in ("unlearn", "held_out")
    )
    return {
        "FS": float(forgetting.mean()),
        "held_out_FS": float(drift.mean()),
        **membership.emia(scores["retain"], scores["test"], scores["unlearn"], scores["held_out"]),
        "unlearn_AUC": membership.auc(scores["unlearn"], scores["test"]),
        **_classifier_metrics(model, parts, images.classes, settings.probe, runtime, seed),
        "per_sample": {"FS": to_millionths(forgetting), "alignment": to_millionths(scores["unlearn"])},
    }


def to_millionths(values: np.ndarray) -> list[float]:
    """Values of thousands of single images are kept no more exactly than that."""
    return values.astype(np.float64).round(6).tolist()


def membership_scores(
    model: ContrastiveModel,
    images: ImageSet,
    split: Split,
    settings: config.Pretraining,
    runtime: Runtime,
    seed: int = 0,
) -> dict[str, np.ndarray]:
    """{retain, test, unlearn, held_out}: the alignments from which `evaluate` finds EMIA."""
    return _scores(runtime.place(model).eval(), _parts(images, split, runtime), settings.views, runtime, seed)


def _scores(
    model: ContrastiveModel, parts: dict[str, Part], views: config.Views, runtime: Runtime, seed: int
) -> dict[str, np.ndarray]:
    return {name: _alignment(model, name, part, views, runtime, seed) for name, part in parts.items()}


def _alignment(
    model: ContrastiveModel, name: str, part: Part, views: config.Views, runtime: Runtime, seed: int
) -> np.ndarray:
    pixels = part.pixels
    if name in ("retain", "test"):
        pixels = pixels[part.attack] if isinstance(pixels, Tensor) else select(pixels, part.attack)
    stream = derive_seed(seed, name)  # one stream a set: all models see the same views of it
    return alignment(model, pixels, views, runtime, stream).cpu().numpy()


def _parts(images: ImageSet, split: Split, runtime: Runtime) -> dict[str, Part]:
    n = min(len(split.retain), len(images.test))  # members and non-members that train the attacks
    # R is in random order already, a test set may be sorted: its first n could be all of one kind.
    choice = {"retain": np.arange(n), "test": np.sort(np.random.default_rng(0).permutation(len(images.test))[:n])}

    def part(pixels: Pixels, labels: np.ndarray, attack: np.ndarray = NONE) -> Part:
        held = hold(pixels, chunk_size(pixels), runtime)
        return Part(held, torch.from_numpy(labels).to(runtime.device), attack)

    def trained(rows: np.ndarray, attack: np.ndarray = NONE) -> Part:
        return part(select(images.train, rows), images.train_labels[rows], attack)

    test = part(images.test, images.test_labels, choice["test"])
    return {
        "retain": trained(split.retain, choice["retain"]),
        "unlearn": trained(split.unlearn),
        "test": test,
        "held_out": trained(split.validation) if len(split.validation) else test,
    }


def _classifier_metrics(
    model: ContrastiveModel,
    parts: dict[str, Part],
    classes: int,
    settings: config.Probe,
    runtime: Runtime,
    seed: int,
) -> dict[str, float]:
    retain = parts["retain"]
    probe = train_probe(model, retain.pixels, retain.labels, classes, settings, runtime, seed)
    confidence, accuracy = {}, {}
    for name, part in parts.items():
        true_class, right = confidences(probe, embed(model, part.pixels, runtime), part.labels)
        confidence[name], accuracy[name] = true_class, 100 * float(right.float().mean())
    attack = [confidence[name][parts[name].attack].cpu() for name in ("retain", "test")]
    return {
        "RA": accuracy["retain"],
        "TA": accuracy["test"],
        "UA": accuracy["unlearn"],
        "held_out_accuracy": accuracy["held_out"],
        **membership.cmia(*attack, confidence["unlearn"].cpu(), confidence["held_out"].cpu()),
    }
