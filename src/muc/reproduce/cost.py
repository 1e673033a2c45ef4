"""How long a step takes on one H200, for the plan."""

from muc import config, paper
from muc.methods import Method
from muc.run_folder import RunFolder

SECONDS_PER_EPOCH = {"simclr": 0.98, "moco": 0.7, "clip": 1.55}
"""Of 45,000 images by a ResNet-18 in whole trainings on one H200 (docs/speed.md); clip's of 20,000 pairs of 64 px."""
RELATIVE_COST = {"resnet18": 1.0, "resnet34": 1.74, "resnet50": 3.49, "resnet101": 5.6, "resnet152": 7.97}
"""Measured likewise (results/engine/time-memory.json)."""
TIMED_IMAGES = 45_000
EVALUATION_SECONDS, JUDGING_SECONDS, START_SECONDS = 15.0, 5.0, 4.0


def epoch_seconds(settings: config.Pretraining) -> float:
    model, data = settings.model, settings.data.name
    images = paper.TRAINING_IMAGES.get(data, TIMED_IMAGES)
    return SECONDS_PER_EPOCH[model.algorithm] * RELATIVE_COST.get(model.architecture, 1.0) * images / TIMED_IMAGES


def share_left(run: RunFolder, epochs: int) -> float:
    """Of a training that may have been cut off. What it had not saved, a minute at most, is not counted."""
    return 0.0 if run.done else 1 - min(len(run.metrics()), epochs) / epochs


def share_passed(method: Method | type[Method], fraction: float) -> float:
    """Of all training images, how many a method's epoch passes over."""
    return {"retain": 1 - fraction, "forget": fraction, "mixed": 1.0}[method.rows]
