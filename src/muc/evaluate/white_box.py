"""All white-box metrics of one model: what its owner can know, with weights, data and labels at hand."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from muc import config
from muc.data import ImageSet
from muc.evaluate import membership
from muc.evaluate.features import alignment, embed
from muc.evaluate.probe import confidences, train_probe
from muc.models import ContrastiveModel
from muc.runtime import Runtime
from muc.storage import Split

MEMBERS = 10_000  # at most so many members and as many non-members make up an attack's training data


def evaluate(
    model: ContrastiveModel,
    before: ContrastiveModel,
    images: ImageSet,
    split: Split,
    settings: config.Pretraining,
    runtime: Runtime,
    seed: int = 0,
) -> dict[str, Any]:
    """FS, EMIA, RA, TA, UA, CMIA and what stands behind them; `before` is the model before unlearning."""
    model, before = model.to(runtime.device).eval(), before.to(runtime.device).eval()

    def pixels(array: np.ndarray) -> Tensor:
        return torch.from_numpy(array).to(runtime.device)

    n = min(MEMBERS, len(split.retain), len(images.test))
    unlearn, retain, test = pixels(images.train[split.unlearn]), pixels(images.train[split.retain]), pixels(images.test)

    def scores(of: ContrastiveModel, what: Tensor, label: str) -> np.ndarray:
        # The label keeps the streams of different sets apart; both models see the same views.
        return alignment(of, what, settings.views, runtime, seed=_stream(seed, label)).cpu().numpy()

    u_after, u_before = scores(model, unlearn, "unlearn"), scores(before, unlearn, "unlearn")
    members, others = scores(model, retain[:n], "members"), scores(model, test[:n], "others")
    forgetting = u_before - u_after
    return {
        "FS": float(forgetting.mean()),
        **membership.emia(members, others, u_after),
        "unlearn_AUC": membership.auc(u_after, others),
        **_classifier_metrics(model, images, split, (retain, unlearn, test), n, settings.probe, runtime, seed),
        "per_sample": {"FS": forgetting.tolist(), "alignment": u_after.tolist()},
    }


def _classifier_metrics(
    model: ContrastiveModel,
    images: ImageSet,
    split: Split,
    sets: tuple[Tensor, Tensor, Tensor],
    n: int,
    settings: config.Probe,
    runtime: Runtime,
    seed: int,
) -> dict[str, float]:
    retain, unlearn, test = sets
    labels = [images.train_labels[split.retain], images.train_labels[split.unlearn], images.test_labels]
    y_retain, y_unlearn, y_test = (torch.from_numpy(y).to(runtime.device) for y in labels)
    probe = train_probe(model, retain, y_retain, images.classes, settings, runtime, seed)
    (c_retain, ra), (c_unlearn, ua), (c_test, ta) = (
        confidences(probe, embed(model, x, runtime), y)
        for x, y in ((retain, y_retain), (unlearn, y_unlearn), (test, y_test))
    )
    return {
        "RA": 100 * float(ra.float().mean()),
        "TA": 100 * float(ta.float().mean()),
        "UA": 100 * float(ua.float().mean()),
        "CMIA": membership.cmia(c_retain[:n].cpu(), c_test[:n].cpu(), c_unlearn.cpu()),
    }


def _stream(seed: int, label: str) -> int:
    from muc.runtime import derive_seed

    return derive_seed(seed, label)
