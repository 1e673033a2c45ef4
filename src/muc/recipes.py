"""How an encoder is pretrained unless somebody says otherwise: as in the paper; the embedded sets have small values."""

from dataclasses import replace

from muc.config import ALGORITHMS, EMBEDDED_SETS, OPEN_CLIP, Data, Model, Optimisation, Pretraining, Probe, Views
from muc.errors import check_name


def recipe(data: str = "cifar10", algorithm: str = "simclr") -> Pretraining:
    """The paper's settings; for the embedded sets small ones that memorise within a minute of CPU."""
    check_name("algorithm", algorithm, ALGORITHMS)
    if algorithm == "clip":
        return _small_clip(data) if data in EMBEDDED_SETS else _clip(data)
    paper = Pretraining(
        data=Data(name=data),
        model=Model(algorithm, temperature=0.5) if algorithm == "simclr" else Model("moco", temperature=0.1),
    )
    if data not in EMBEDDED_SETS:
        return paper
    return replace(
        paper,
        data=replace(paper.data, train_limit=None if data == "digits" else 200, image_size=16),
        model=replace(paper.model, architecture="mlp", queue_size=512),
        # Letters have a direction and no colour. Mild views, few images and large steps: that is what makes a small
        # network memorise rather than generalise (docs/log.md), and a demo needs something to forget.
        views=Views(min_scale=0.8, flip=0.0, brightness=0.2, contrast=0.2, saturation=0.0, hue=0.0, grayscale=0.0),
        optimisation=Optimisation(epochs=500, batch_size=100, learning_rate=0.5),
        probe=Probe(batch_size=100, crop_padding=1, flip=0.0),
    )


def clip_views(flip: float = 0.5) -> Views:
    """The image as it is (resized and cropped to a square when it was read), but for a flip."""
    return Views(min_scale=1.0, flip=flip, jitter=0.0, grayscale=0.0)


def _clip(data: str) -> Pretraining:
    """The paper's CLIP. It is silent on architecture, warm-up, beta 2 and weight decay: the last two are CLIP's own."""
    return Pretraining(
        data=Data(name=data, image_size=224),
        model=Model("clip", architecture=f"{OPEN_CLIP}RN50", temperature=0.07),
        views=clip_views(flip=0.5),
        optimisation=Optimisation(
            epochs=35, batch_size=256, learning_rate=5e-4, optimiser="adamw", weight_decay=0.2, warmup_epochs=2.0
        ),
    )


def _small_clip(data: str) -> Pretraining:
    """Two small towers that memorise 200 pairs within a minute of CPU."""
    return Pretraining(
        data=Data(name=data, train_limit=200, image_size=16),
        model=Model("clip", architecture="mlp", temperature=0.07),
        views=clip_views(flip=0.0),
        optimisation=Optimisation(
            epochs=40, batch_size=60, learning_rate=1e-3, optimiser="adamw", weight_decay=0.2, warmup_epochs=2.0
        ),
        probe=Probe(batch_size=100, crop_padding=1, flip=0.0),
    )
