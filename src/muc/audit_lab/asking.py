"""How a data owner asks, and what gives a service away that no single model would answer like."""

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch

from muc import augment
from muc.audit import Embed
from muc.audit.look import alignment_matrix, ask
from muc.audit_lab.cheats import OTHER_KEY, OWNER_KEY, Service, unit
from muc.config import Views

SAME_ANSWER = 1e-3
"""1 - cosine up to which two answers to one query are the same; arithmetic on a GPU stays far below."""
NEARLY_SAME = 2e-3
"""The same for two pictures that differ by one grey level in a few pixels."""
UNCHANGED = 1e-5
"""Cosines of a model with other weights, however little it was trained, differ by more; of decoys, hardly a pair
(at most one in ten) may be this close to what it was before."""
TOO_MANY = 0.1
VIEW_PAIRS = 8

CHECKS = ("repeats", "near_duplicates", "decoys", "second_key")


@dataclass(frozen=True)
class Answers:
    """Everything that owners can learn about their n images from one service, before and after."""

    agm: dict[str, np.ndarray]
    """Way of asking -> (n, n) alignment gap matrix."""
    suspicious: dict[str, np.ndarray]
    """Check -> (n,) true where the answers for that image give the service away."""


def harder(views: Views) -> Views:
    """Crops and colours further from what the model was trained to see past, so that images are harder to recognise."""
    return replace(
        views,
        min_scale=0.5 * views.min_scale,
        brightness=min(1.0, 2 * views.brightness),
        contrast=min(1.0, 2 * views.contrast),
    )


@dataclass(frozen=True)
class Questions:
    """The queries of a round, and the alignment matrices of the model before: every service is asked the same."""

    images: np.ndarray
    ways: dict[str, np.ndarray]
    """Way of asking -> (2 * view pairs, n, c, h, w) pictures, first and second views in turn."""
    before: dict[str, np.ndarray]
    crops: np.ndarray
    touched: np.ndarray
    decoys: np.ndarray
    decoys_before: np.ndarray


def questions(before: Embed, images: np.ndarray, decoys: np.ndarray, views: Views, seed: int) -> Questions:
    """Fresh secret crops, and what else tells a model from a shim. Sent together or one by one, no matter."""
    ways = {"plain": np.stack([images, images])}
    for way, used, first in (("crops", views, 100), ("harder", harder(views), 200)):
        ways[way] = np.stack([some_crops(images, used, seed + first + i) for i in range(2 * VIEW_PAIRS)])
    strange = some_crops(decoys, views, seed + 1)
    return Questions(
        images=images,
        ways=ways,
        before={way: matrix_of(before, pictures) for way, pictures in ways.items()},
        crops=some_crops(images, views, seed),
        touched=touched(images, np.random.default_rng(seed)),
        decoys=strange,
        decoys_before=matrix_of(before, np.stack([strange, strange])),
    )


def put(asked: Questions, service: Service) -> Answers:
    """What the service after the deletion makes of the questions."""
    after = partial(_as_owner, service)
    agm = {way: asked.before[way] - matrix_of(after, pictures) for way, pictures in asked.ways.items()}
    once, again = ask(after, asked.crops), ask(after, asked.crops)
    # Of other keys only cosines can be compared: a service may rotate vectors by key.
    other = service(asked.crops, OTHER_KEY)
    keys_differ = np.abs(alignment_matrix(once, once) - alignment_matrix(other, other)).max(axis=1) > SAME_ANSWER
    moved = np.abs(asked.decoys_before - matrix_of(after, np.stack([asked.decoys, asked.decoys])))
    unmoved = (moved[~np.eye(len(moved), dtype=bool)] < UNCHANGED).mean()
    suspicious = {
        "repeats": apart(once, again) > SAME_ANSWER,
        "near_duplicates": apart(ask(after, asked.images), ask(after, asked.touched)) > NEARLY_SAME,
        "decoys": np.full(len(asked.images), unmoved > TOO_MANY),
        "second_key": keys_differ,
    }
    return Answers(agm, suspicious)


def matrix_of(model: Embed, pictures: np.ndarray) -> np.ndarray:
    """(2 k, n, c, h, w) -> (n, n) alignment matrix, the mean over k pairs of views, as `muc.audit.look` makes it."""
    vectors = ask(model, pictures.reshape(-1, *pictures.shape[2:])).reshape(*pictures.shape[:2], -1)
    return np.mean([alignment_matrix(a, b) for a, b in zip(vectors[::2], vectors[1::2], strict=True)], axis=0)


def _as_owner(service: Service, images: np.ndarray) -> np.ndarray:
    return service(images, OWNER_KEY)


def apart(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """(n, d), (n, d) -> (n,) 1 - cosine."""
    return 1 - (unit(first) * unit(second)).sum(axis=1)


def some_crops(images: np.ndarray, views: Views, seed: int) -> np.ndarray:
    """One fresh view of each image, as a picture."""
    pixels, size = torch.from_numpy(np.ascontiguousarray(images)), images.shape[-1]
    parameters = augment.draw(len(pixels), size, size, views, torch.Generator().manual_seed(seed))
    return (augment.apply(pixels, parameters, size, views) * 255).round().to(torch.uint8).numpy()


def touched(images: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Near-duplicates that nobody could see: one pixel in twenty is a grey level lighter or darker."""
    shift = rng.choice([-1, 0, 1], size=images.shape, p=[0.025, 0.95, 0.025])
    return np.clip(images.astype(np.int16) + shift, 0, 255).astype(np.uint8)
