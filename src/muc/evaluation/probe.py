"""The linear probe: a linear classifier on frozen features, trained with shifted images drawn anew each epoch."""

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from muc import augment, config
from muc.evaluation.features import embed
from muc.models import ContrastiveModel
from muc.runtime import Runtime


def train_probe(
    model: ContrastiveModel,
    pixels: Tensor,
    labels: Tensor,
    classes: int,
    settings: config.Probe,
    runtime: Runtime,
    seed: int,
) -> nn.Linear:
    """Train on the retained images: SGD, cosine learning rate, no weight decay."""
    generator = runtime.generator("probe", seed)
    probe = _fresh_probe(model, pixels, classes, runtime, seed)
    optimiser = torch.optim.SGD(probe.parameters(), lr=settings.learning_rate, momentum=settings.momentum)
    batch = min(settings.batch_size, len(pixels))
    for epoch in range(settings.epochs):
        optimiser.param_groups[0]["lr"] = (
            settings.learning_rate * 0.5 * (1 + math.cos(math.pi * epoch / settings.epochs))
        )
        shifted = augment.random_shifts(pixels, settings.crop_padding, settings.flip, generator)
        features = embed(model, shifted, runtime).clone()  # out of inference mode: the probe's gradient needs them
        order = torch.randperm(len(pixels), generator=generator, device=pixels.device)
        for rows in order[: len(order) // batch * batch].view(-1, batch):
            loss = cross_entropy(probe(features[rows]), labels[rows])
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            optimiser.step()
    return probe


def _fresh_probe(model: ContrastiveModel, pixels: Tensor, classes: int, runtime: Runtime, seed: int) -> nn.Linear:
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
