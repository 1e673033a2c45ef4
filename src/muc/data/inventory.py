"""What a run's images were: one digest an image, so that those it has forgotten can be erased from the data.

A run names images by their place in the data set. Where some are gone, the places of all others are found again by
what they are; of those that are gone nothing is left but a blank in their place.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any, Self, TypeVar

import numpy as np

from muc.data.files import ImageFiles, Pixels, contents, join
from muc.data.images import ImageSet
from muc.errors import UserError

T = TypeVar("T")
ERASED = -1
NO_NAME, NO_CAPTION = "", "erased"
"""Of an image that is gone. No request can name it."""


@dataclass(frozen=True)
class Inventory:
    """SHA-256 of every image with its class and captions, in their order."""

    train: np.ndarray  # (n, 32) uint8
    test: np.ndarray
    class_names: Sequence[str]
    channels: int
    image_size: int

    def to_tensors(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """As a file of tensors and its metadata."""
        import torch

        tensors = {"train": torch.from_numpy(self.train), "test": torch.from_numpy(self.test)}
        return tensors, {
            "class_names": list(self.class_names),
            "channels": self.channels,
            "image_size": self.image_size,
        }

    @classmethod
    def from_tensors(cls, tensors: dict[str, Any], metadata: dict[str, Any]) -> Self:
        return cls(tensors["train"].numpy(), tensors["test"].numpy(), **metadata)


def take_inventory(images: ImageSet) -> Inventory:
    train = _digests(images.train_contents, images.train_labels, images.train_captions, images.class_names)
    test = _digests(contents(images.test), images.test_labels, images.test_captions, images.class_names)
    return Inventory(train, test, images.class_names, images.channels, images.image_size)


def _digests(
    contents: np.ndarray, labels: np.ndarray, captions: Sequence[Sequence[str]], class_names: Sequence[str]
) -> np.ndarray:
    """Of pixels or, where they are streamed, of their files. Classes count by name: numbers shift when one is gone."""
    texts = captions if len(captions) else [()] * len(contents)
    rows = (
        sha256(content.tobytes() + json.dumps([class_names[label], *some]).encode()).digest()
        for content, label, some in zip(contents, labels.tolist(), texts, strict=True)
    )
    return np.frombuffer(bytearray().join(rows), np.uint8).reshape(-1, 32)  # a bytearray, which tensors may share


def put_back(images: ImageSet, inventory: Inventory, needed: np.ndarray, whose: str) -> ImageSet:
    """The set in the inventory's order, blank where an image was erased. All test images must be there, and the
    `needed` training images of the run `whose`; what came later is left aside."""
    n, total = len(inventory.train), len(inventory.train) + len(inventory.test)
    wanted = np.zeros(total, bool)
    wanted[needed], wanted[n:] = True, True
    places: dict[bytes, list[int]] = defaultdict(list)
    known = [row.tobytes() for row in (*inventory.train, *inventory.test)]
    for place in np.argsort(~wanted, kind="stable").tolist():  # those that are needed first
        places[known[place]].append(place)
    # Training and test images together: which are held out for testing can depend on how many there are.
    here = take_inventory(images)
    found: dict[bytes, list[int]] = defaultdict(list)
    for row, digest in enumerate((*here.train, *here.test)):
        found[digest.tobytes()].append(row)
    rows = np.full(total, ERASED)
    for digest, equal in places.items():
        # Where some of equal images are gone, those that are needed are found; in order, so that names stay theirs.
        for place, row in zip(sorted(equal[: len(found[digest])]), found[digest], strict=False):
            rows[place] = row
    lost = np.flatnonzero(wanted & (rows == ERASED))
    if len(lost) == wanted.sum():
        raise UserError(f"the data '{images.name}' is not what {whose} was made with; restore the original images")
    if len(lost):
        first = f"training image {lost[0]}" if lost[0] < n else f"test image {lost[0] - n}"
        raise UserError(
            f"the data '{images.name}' is not what {whose} was made with: {len(lost):,} of the images that it needs "
            f"are gone or changed, {first} first; restore them (only what a run has forgotten can be erased)"
        )
    return _arranged(images, inventory.class_names, rows[:n], rows[n:])


def _arranged(images: ImageSet, class_names: Sequence[str], train: np.ndarray, test: np.ndarray) -> ImageSet:
    """Training and test images by their rows in both together."""
    number = {name: i for i, name in enumerate(class_names)}
    renumbered = np.array([number.get(name, 0) for name in images.class_names])  # 0: of images that came later
    labels = renumbered[np.concatenate([images.train_labels, images.test_labels])]
    names = [*images.train_names, *images.test_names]
    captions = [*images.train_captions, *images.test_captions]

    def of(rows: np.ndarray) -> tuple[Pixels, np.ndarray, Sequence[str], Sequence[Sequence[str]]]:
        there = rows != ERASED
        return (
            _chosen(images.train, images.test, rows),
            np.where(there, labels[rows], 0),
            _items(names, rows, NO_NAME),
            _items(captions, rows, [NO_CAPTION]),
        )

    first, second = of(train), of(test)
    return replace(
        images,
        class_names=class_names,
        train=first[0],
        train_labels=first[1],
        train_names=first[2],
        train_captions=first[3],
        test=second[0],
        test_labels=second[1],
        test_names=second[2],
        test_captions=second[3],
    )


def _chosen(train: Pixels, test: Pixels, rows: np.ndarray) -> Pixels:
    if isinstance(train, ImageFiles) and isinstance(test, ImageFiles):
        return join(train, test).select(np.maximum(rows, 0)).without(np.flatnonzero(rows == ERASED))
    chosen = np.zeros((len(rows), *train.shape[1:]), np.uint8)
    for part, first in ((train, 0), (test, len(train))):
        inside = (first <= rows) & (rows < first + len(part))
        chosen[inside] = part[rows[inside] - first]
    return chosen


def _items(values: Sequence[T], rows: Iterable[int], blank: T) -> Sequence[T]:
    return [values[row] if row != ERASED else blank for row in rows] if len(values) else ()
