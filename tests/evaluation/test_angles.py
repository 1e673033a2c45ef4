"""Spread on the circle: against naive versions, and where the answer is known."""

import numpy as np
import pytest
import torch

from muc import config
from muc.augment import plain
from muc.evaluation.angles import EVEN, kuiper, projected_angles, resultant, spread, uniformity
from muc.models import build_model
from muc.runtime import Runtime

EVENLY = np.linspace(-np.pi, np.pi, 2000, endpoint=False)


def test_uniformity_is_that_of_all_pairs() -> None:
    angles = np.random.default_rng(0).vonmises(0.4, 1.5, 60)
    points = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    pairs = [np.exp(-2 * ((points[i] - points[j]) ** 2).sum()) for i in range(60) for j in range(60) if i != j]
    assert uniformity(angles) == pytest.approx(np.log(np.mean(pairs)), abs=1e-9)


def test_kuiper_is_the_largest_misfit_of_any_arc() -> None:
    angles = np.random.default_rng(1).vonmises(2.0, 1.0, 25)
    at = np.sort(angles % (2 * np.pi)) / (2 * np.pi)
    found = 0.0
    for i in range(25):
        for j in range(25):
            # All arcs that begin and end at an angle, with both ends and without.
            length = (at[j] - at[i]) % 1
            inside = sum((a - at[i]) % 1 <= length for a in at)
            between = 24 if i == j else inside - 2  # from an angle to itself: once around
            found = max(found, inside / 25 - length, (length or 1) - between / 25)
    assert kuiper(angles) == pytest.approx(found, abs=1e-9)
    assert kuiper(angles + 1.7) == pytest.approx(kuiper(angles))


def test_an_even_spread_and_a_point_are_the_ends() -> None:
    assert spread(EVENLY) == pytest.approx({"uniformity": EVEN, "kuiper": 0.0, "resultant": 0.0}, abs=2e-3)
    assert spread(np.full(50, 2.0)) == pytest.approx({"uniformity": 0.0, "kuiper": 1.0, "resultant": 1.0}, abs=1e-6)
    assert pytest.approx(-1.575, abs=1e-3) == EVEN
    # Two opposite points balance, and are as far from even as can be seen by arcs.
    opposite = np.repeat([0.0, np.pi], 50)
    assert resultant(opposite) == pytest.approx(0.0, abs=1e-9)
    assert kuiper(opposite) == pytest.approx(0.5)


def test_angles_are_those_of_the_projected_output() -> None:
    model = build_model(config.Model("simclr", architecture="mlp", projection_dim=2), 1, 8).eval()
    pixels = np.random.default_rng(2).integers(256, size=(5, 1, 8, 8), dtype=np.uint8)
    runtime = Runtime(config.Runtime(device="cpu", threads=1))
    found = projected_angles(model, pixels, runtime)
    normalised = runtime.as_input(plain(torch.from_numpy(pixels)))
    x, y = model.projected(normalised).detach().numpy().T
    assert found == pytest.approx([np.angle(complex(a, b)) for a, b in zip(x, y, strict=True)], abs=1e-5)
