"""The alignment gap matrix of many images, against a double loop over all pairs."""

import math
import statistics

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from muc import config
from muc.config import Views
from muc.evaluation import features
from muc.evaluation.alignment_gaps import gap_statistics
from muc.evaluation.features import two_views
from muc.models import Batch, Contrast, ContrastiveModel
from muc.runtime import Runtime

RUNTIME = Runtime(config.Runtime(device="cpu", threads=1))


def vectors(n: int, seed: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return tuple(normalize(torch.randn(n, 6, generator=generator) + 1, dim=1) for _ in range(2))


def cosine(a: Tensor, b: Tensor) -> float:
    dot, sizes = 0.0, [0.0, 0.0]
    for x, y in zip(a.tolist(), b.tolist(), strict=True):
        dot, sizes = dot + x * y, [sizes[0] + x * x, sizes[1] + y * y]
    return dot / math.sqrt(sizes[0] * sizes[1])


@pytest.mark.parametrize("chunk", [1, 4, 7, 100])
def test_means_and_deviations_are_those_of_a_double_loop(chunk: int) -> None:
    before, after = vectors(13, 0), vectors(13, 1)
    positive, negative = [], []
    for i in range(13):
        for j in range(13):
            gap = cosine(before[0][i], before[1][j]) - cosine(after[0][i], after[1][j])
            (positive if i == j else negative).append(gap)
    found = gap_statistics(before, after, chunk)
    for spread, values in ((found.positive, positive), (found.negative, negative)):
        assert spread.mean == pytest.approx(statistics.fmean(values), abs=1e-6)
        assert spread.sd == pytest.approx(statistics.stdev(values), abs=1e-6)
        assert spread.n == len(values)


def test_no_change_is_a_gap_of_zero() -> None:
    views = vectors(5, 0)
    found = gap_statistics(views, views)
    assert (found.positive.mean, found.positive.sd, found.negative.mean, found.negative.sd) == (0, 0, 0, 0)


class Pixels(ContrastiveModel):
    """Features are the image itself."""

    def __init__(self) -> None:
        super().__init__()
        self.backbone = nn.Flatten()

    def contrast(self, batch: Batch) -> Contrast:
        raise AssertionError("evaluation does not train")

    def projected(self, images: Tensor) -> Tensor:
        raise AssertionError("the backbone is looked at")


def test_two_views_are_unit_vectors_of_two_different_views_and_the_same_for_every_model(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(features, "BATCH", 4)  # two images at a time
    images = np.random.default_rng(0).integers(256, size=(5, 3, 8, 8), dtype=np.uint8)
    first, second = two_views(Pixels(), images, Views(), RUNTIME, seed=3)
    assert first.shape == second.shape == (5, 3 * 8 * 8)
    assert torch.linalg.vector_norm(first, dim=1).numpy() == pytest.approx(np.ones(5), abs=1e-5)
    assert not torch.allclose(first, second, atol=0.05)
    again, other = (
        two_views(Pixels(), images, Views(), RUNTIME, seed=3),
        two_views(Pixels(), images, Views(), RUNTIME, 4),
    )
    assert torch.equal(first, again[0])
    assert torch.equal(second, again[1])
    assert not torch.equal(first, other[0])


def test_both_views_are_of_the_same_image() -> None:
    """Images of one colour each: whatever the crop, a view is closest to the other view of its own image."""
    plain = Views(jitter=0.0, grayscale=0.0)
    colours = np.random.default_rng(0).integers(256, size=(6, 3, 1, 1), dtype=np.uint8)
    images = np.broadcast_to(colours, (6, 3, 8, 8)).copy()
    first, second = two_views(Pixels(), images, plain, RUNTIME, seed=0)
    assert (first @ second.T).argmax(dim=1).tolist() == list(range(6))
