"""The linear probe: a linear classifier on frozen features, trained with shifted images drawn anew each epoch."""

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from muc import augment, config
from muc.data.files import Pixels
from muc.evaluation.chunks import chunks
from muc.evaluation.features import chunk_size, embed
from muc.models import ContrastiveModel
from muc.optimiser import Sgd
from muc.runtime import Runtime


def train_probe(
    model: ContrastiveModel,
    pixels: Pixels | Tensor,
    labels: Tensor,
    classes: int,
    settings: config.Probe,
    runtime: Runtime,
    seed: int,
) -> nn.Linear:
    """Train on the retained images: SGD, cosine learning rate, no weight decay."""
    generator = runtime.generator("probe", seed)
    probe = _fresh_probe(model, pixels, classes, runtime, seed)
    # Tensors that stay, so that a recorded step sees them change.
    features = torch.zeros(len(pixels), probe.in_features, device=runtime.device)
    rows = torch.zeros(min(settings.batch_size, len(pixels)), dtype=torch.long, device=runtime.device)
    rate = torch.tensor(settings.learning_rate, device=runtime.device)
    optimiser = Sgd(list(probe.parameters()), rate, settings.momentum)

    def step() -> None:
        loss = cross_entropy(probe(features[rows]), labels[rows])
        optimiser.forget_gradients()
        loss.backward()
        optimiser.step()

    repeat = runtime.repeater(generator)
    for epoch in range(settings.epochs):
        rate.fill_(settings.learning_rate * 0.5 * (1 + math.cos(math.pi * epoch / settings.epochs)))
        shifts = augment.draw_shifts(len(pixels), settings.crop_padding, settings.flip, generator)
        _embed_shifted(model, pixels, shifts, runtime, features)
        order = torch.randperm(len(pixels), generator=generator, device=runtime.device)
        for drawn in order[: len(order) // len(rows) * len(rows)].view(-1, len(rows)):
            rows.copy_(drawn)
            repeat(step)
    return probe


def _embed_shifted(
    model: ContrastiveModel, pixels: Pixels | Tensor, shifts: augment.Shifts, runtime: Runtime, out: Tensor
) -> None:
    """Fill `out` with the shifted images' features; no more images than a chunk are on the device for that."""
    size = chunk_size(pixels)
    for i, part in enumerate(chunks(pixels, size, runtime)):
        start, stop = i * size, i * size + len(part)
        out[start:stop] = embed(model, augment.shift(part, shifts.part(start, stop)), runtime)


def _fresh_probe(
    model: ContrastiveModel, pixels: Pixels | Tensor, classes: int, runtime: Runtime, seed: int
) -> nn.Linear:
    features = embed(model, pixels[:1], runtime).shape[1]
    probe = nn.Linear(features, classes, device=runtime.device)
    bound = features**-0.5
    generator = runtime.generator("probe init", seed)
    with torch.no_grad():
        for parameter in probe.parameters():
            parameter.uniform_(-bound, bound, generator=generator)
    return probe


@torch.inference_mode()
def confidences(probe: nn.Linear, features: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """-> (probability of the true class, whether the classifier is right), each (n,)."""
    scores = probe(features).softmax(dim=1)
    return scores.gather(1, labels[:, None])[:, 0], scores.argmax(dim=1) == labels
