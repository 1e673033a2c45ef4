"""How a data owner asks, and what gives a service away that no single model would answer like."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise

import numpy as np
import torch

from muc import augment
from muc.audit import Embed
from muc.audit.look import alignment_matrix, ask
from muc.audit.protocol.checks import SAME as SAME_ANSWER
from muc.audit.protocol.checks import TOO_MANY, allowed
from muc.audit.protocol.pictures import touched
from muc.audit.verdict import UNCHANGED
from muc.audit_lab.cheats import OTHER_KEY, OWNER_KEY, Service, unit
from muc.config import Views

VIEW_PAIRS = 8

COARSE, HALVINGS = 16, 4
"""Steps of a first walk between two images, and halvings of the largest: 1/256 of the way is a grey level or less."""


@dataclass(frozen=True)
class Answers:
    """Everything that owners can learn about their n images from one service, before and after."""

    agm: dict[str, np.ndarray]
    """Way of asking -> (n / together, together, together) alignment gap matrices."""
    suspicious: dict[str, np.ndarray]
    """Check -> (n,) true where the answers for that image give the service away."""

    def gaps(self, way: str, mine: np.ndarray) -> np.ndarray:
        """(m, m) alignment gap matrix of an owner's images, by where they are among those asked about."""
        together = self.agm[way].shape[1]
        return self.agm[way][mine[0] // together][np.ix_(mine % together, mine % together)]


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
    together: int
    """So many images, one after the other, are compared with each other: those of an audit, and nobody's else."""
    ways: dict[str, np.ndarray]
    """Way of asking -> (2 * view pairs, n, c, h, w) pictures, first and second views in turn."""
    before: dict[str, np.ndarray]
    alike_before: np.ndarray
    """(n,) positive alignment of each image by the model before, over the crops."""
    withheld_before: np.ndarray
    """The same of the withheld images, in the order of their owners."""
    crops: np.ndarray
    touched: np.ndarray
    touched_before: np.ndarray
    """(n,) 1 - cosine of the model before's answers to each image and to the touched one."""
    strangers: np.ndarray
    """An image for each that nobody trained on or listed: decoys as they are."""
    jumps_before: np.ndarray
    """(n,) of the model before, on the way from each image to its stranger."""
    decoys: np.ndarray
    decoys_before: np.ndarray


def questions(
    before: Embed,
    images: np.ndarray,
    withheld: np.ndarray,
    decoys: np.ndarray,
    views: Views,
    seed: int,
    together: int | None = None,
) -> Questions:
    """Fresh secret crops, and what else tells a model from a shim. Sent together or one by one, no matter.

    Without `together`, all images are one owner's.
    """
    together = together or len(images)
    ways = {"plain": np.stack([images, images])}
    for way, used, first in (("crops", views, 100), ("harder", harder(views), 200)):
        ways[way] = np.stack([some_crops(images, used, seed + first + i) for i in range(2 * VIEW_PAIRS)])
    strange, strangers = some_crops(decoys, views, seed + 1), np.resize(decoys, images.shape)
    near = touched(images, np.random.default_rng(seed))
    asked_before = {way: matrices_of(before, pictures, together) for way, pictures in ways.items()}
    withheld_crops = np.stack([some_crops(withheld, views, seed + 300 + i) for i in range(2 * VIEW_PAIRS)])
    return Questions(
        images=images,
        together=together,
        ways=ways,
        before=asked_before,
        alike_before=np.diagonal(asked_before["crops"], axis1=1, axis2=2).reshape(-1),
        withheld_before=np.diagonal(matrices_of(before, withheld_crops, len(withheld)), axis1=1, axis2=2).reshape(-1),
        crops=some_crops(images, views, seed),
        touched=near,
        touched_before=apart(ask(before, images), ask(before, near)),
        strangers=strangers,
        jumps_before=largest_jump(before, images, strangers),
        decoys=strange,
        decoys_before=matrices_of(before, np.stack([strange, strange]), len(strange)),
    )


def put(asked: Questions, service: Service, checks: Sequence[str] = ()) -> Answers:
    """What the service after the deletion makes of the questions, and of the checks that are switched on (all)."""
    after = partial(_as_owner, service)
    agm = {
        way: asked.before[way] - matrices_of(after, pictures, asked.together) for way, pictures in asked.ways.items()
    }
    return Answers(agm, {name: CHECKS[name](asked, service) for name in checks or CHECKS})


def repeats(asked: Questions, service: Service) -> np.ndarray:
    """Asked twice, a model answers the same."""
    return apart(service(asked.crops, OWNER_KEY), service(asked.crops, OWNER_KEY)) > SAME_ANSWER


def near_duplicates(asked: Questions, service: Service) -> np.ndarray:
    """Asked about pictures that nobody can tell apart, it answers almost the same, over the images of an audit."""
    found = apart(service(asked.images, OWNER_KEY), service(asked.touched, OWNER_KEY))
    mean, usual = (each.reshape(-1, asked.together).mean(axis=1) for each in (found, asked.touched_before))
    return (mean > allowed(usual)).repeat(asked.together)


def decoys(asked: Questions, service: Service) -> np.ndarray:
    """A model that changed has changed for images that nobody listed, too, if only a little."""
    pictures = np.stack([asked.decoys, asked.decoys])
    moved = np.abs(asked.decoys_before - matrices_of(partial(_as_owner, service), pictures, len(asked.decoys)))
    unmoved = (moved[:, ~np.eye(len(asked.decoys), dtype=bool)] < UNCHANGED).mean()
    return np.full(len(asked.images), unmoved > TOO_MANY)


def second_key(asked: Questions, service: Service) -> np.ndarray:
    """Everybody gets the same answers. Only cosines can be compared: a service may rotate vectors by key."""
    mine, other = service(asked.crops, OWNER_KEY), service(asked.crops, OTHER_KEY)
    difference = alignment_matrices(mine, mine, asked.together) - alignment_matrices(other, other, asked.together)
    return np.abs(difference).max(axis=2).reshape(-1) > SAME_ANSWER


def borders(asked: Questions, service: Service) -> np.ndarray:
    """Nowhere on the way to a stranger does the answer jump as it never did before, for any image of the audit."""
    usual = asked.jumps_before.reshape(-1, asked.together).max(axis=1)
    jumps = largest_jump(partial(_as_owner, service), asked.images, asked.strangers)
    return jumps > allowed(usual).repeat(asked.together)


Check = Callable[[Questions, Service], np.ndarray]
CHECKS: dict[str, Check] = {
    "repeats": repeats,
    "near_duplicates": near_duplicates,
    "decoys": decoys,
    "second_key": second_key,
    "borders": borders,
}
"""Counter-measures that can be switched on and off: (n,) true where the answers for an image give the service away."""


def largest_jump(model: Embed, images: np.ndarray, others: np.ndarray) -> np.ndarray:
    """(n,) 1 - cosine across the smallest step found on the way from each image to another one.

    A network answers two pictures that hardly differ almost alike, everywhere. Who treats recognised images specially
    does so up to some border, and on the way from a listed image to a stranger it has to be crossed: walk in coarse
    steps, take the one over which the answer changes most, and halve it until the pictures at its ends hardly differ.
    """
    start = np.linspace(0, 1, COARSE + 1)[:, None].repeat(len(images), axis=1)  # (steps, n): how far along
    answers = np.stack([ask(model, blends(images, others, at)) for at in start])
    every = np.arange(len(images))
    change = np.stack([apart(a, b) for a, b in pairwise(answers)])
    largest = change.argmax(axis=0)
    low, high = start[largest, every], start[largest + 1, every]
    at_low, at_high = answers[largest, every], answers[largest + 1, every]
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        at_middle = ask(model, blends(images, others, middle))
        first = apart(at_low, at_middle) > apart(at_middle, at_high)
        low, high = np.where(first, low, middle), np.where(first, middle, high)
        at_low = np.where(first[:, None], at_low, at_middle)
        at_high = np.where(first[:, None], at_middle, at_high)
    return apart(at_low, at_high)


def blends(images: np.ndarray, others: np.ndarray, share: np.ndarray) -> np.ndarray:
    """(n, c, h, w) pictures, each so far on the way from one image to another."""
    far = share.reshape(-1, 1, 1, 1)
    return np.rint((1 - far) * images + far * others).astype(np.uint8)


def matrices_of(model: Embed, pictures: np.ndarray, together: int) -> np.ndarray:
    """(2 k, n, c, h, w) -> (n / together, together, together) alignment matrices, the mean over k pairs of views, as
    `muc.audit.look` makes it."""
    vectors = ask(model, pictures.reshape(-1, *pictures.shape[2:])).reshape(*pictures.shape[:2], -1)
    pairs = zip(vectors[::2], vectors[1::2], strict=True)
    return np.mean([alignment_matrices(a, b, together) for a, b in pairs], axis=0)


def alignment_matrices(first: np.ndarray, second: np.ndarray, together: int) -> np.ndarray:
    """(n, d), (n, d) -> (n / together, together, together). All pairs of hundreds of owners' images would be millions,
    and hardly any of them within an audit."""
    groups = (vectors.reshape(-1, together, vectors.shape[1]) for vectors in (first, second))
    return np.stack([alignment_matrix(a, b) for a, b in zip(*groups, strict=True)])


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
