"""An image set: uint8 pixels (in memory, or in files), labels, names; the form every source is brought to."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from operator import index
from typing import Any

import numpy as np

from muc.data.captions import check_captions
from muc.data.files import ImageFiles, Pixels, contents, select
from muc.errors import UserError
from muc.pictures.decode import as_mode

OF_FILES = "files:"  # how the digest of an image set begins whose pixels are decoded as they are needed
MAX_CLASSES = 100_000


@dataclass(frozen=True)
class ImageSet:
    """Training and test images, (n, c, h, w) uint8 with c = 1 or 3, and their labels."""

    name: str
    train: Pixels
    train_labels: np.ndarray
    test: Pixels
    test_labels: np.ndarray
    class_names: Sequence[str]
    train_names: Sequence[str] = ()  # file names or captions, where the source has them
    test_names: Sequence[str] = ()
    train_captions: Sequence[Sequence[str]] = ()  # of image-text pairs: one or more captions an image
    test_captions: Sequence[Sequence[str]] = ()
    prompt: str = "a photo of a {}"  # a class name as a caption, for zero-shot classification

    def __post_init__(self) -> None:
        for part, images, labels in (
            ("training", self.train, self.train_labels),
            ("test", self.test, self.test_labels),
        ):
            if images.ndim != 4 or images.dtype != np.uint8 or images.shape[1] not in (1, 3):
                raise UserError(
                    f"{self.name}: {part} images have shape {images.shape} and type {images.dtype}; "
                    "expected (n, channels, height, width) uint8 with 1 or 3 channels"
                )
            if not images.size:
                raise UserError(f"{self.name}: there are no {part} images, or they have no pixels")
            if labels.shape != (len(images),):
                raise UserError(
                    f"{self.name}: {len(images)} {part} images but labels of shape {labels.shape}; "
                    "give one label an image"
                )
            if labels.min() < 0 or labels.max() >= self.classes:
                raise UserError(
                    f"{self.name}: {part} images have labels from {labels.min()} to {labels.max()}; "
                    f"expected 0 to {self.classes - 1}"
                )
        check_captions(self.name, self.train_captions, self.test_captions, len(self.train), len(self.test))
        if self.train.shape[1:] != self.test.shape[1:]:
            raise UserError(
                f"{self.name}: training images are {self.train.shape[1:]} but test images {self.test.shape[1:]} "
                "(channels, height, width); bring them to one size"
            )
        if self.train.shape[2] != self.train.shape[3]:
            raise UserError(
                f"{self.name}: images are {self.train.shape[2]}x{self.train.shape[3]} pixels; "
                "crop or resize them to squares"
            )

    @property
    def channels(self) -> int:
        return self.train.shape[1]

    @property
    def image_size(self) -> int:
        return self.train.shape[2]

    @property
    def classes(self) -> int:
        return len(self.class_names)

    @property
    def paired(self) -> bool:
        """Whether the images have captions."""
        return len(self.train_captions) > 0

    @property
    def nbytes(self) -> int:
        """Of all pixels, once decoded."""
        return self.train.nbytes + self.test.nbytes

    @cached_property
    def train_contents(self) -> np.ndarray:
        """(n, 32) uint8 SHA-256 of what each training image shows, or of its file. Every request asks for them."""
        return contents(self.train)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of pixels, labels and captions: a run refuses to go on with other data than it began with.

        Of files it is that of names and bytes, and says so: who reads it must look at the files, not at their pixels.
        """
        state = sha256()
        arrays = (self.train, self.train_labels, self.test, self.test_labels)
        for array in arrays:
            state.update(f"{array.shape} {array.dtype}".encode())
            state.update(array.digest() if isinstance(array, ImageFiles) else np.ascontiguousarray(array).data)
        for captions in (self.train_captions, self.test_captions) if self.paired else ():
            state.update(json.dumps([list(some) for some in captions]).encode())
        of_files = any(isinstance(array, ImageFiles) for array in arrays)
        return (OF_FILES if of_files else "") + state.hexdigest()


def from_labels(
    name: str,
    images: Pixels,
    labels: np.ndarray,
    names: Sequence[str] = (),
    class_names: Sequence[str] | None = None,
    test_fraction: float = 0.2,
) -> ImageSet:
    """An image set from one labelled array: a fixed random part becomes the test set."""
    if len(images) < 4:
        raise UserError(f"{name} has {len(images)} images; at least 4 are needed to train and test on")
    order = np.random.default_rng(0).permutation(len(images))
    n_test = max(1, round(test_fraction * len(images)))
    test, train = np.sort(order[:n_test]), np.sort(order[n_test:])
    return ImageSet(
        name=name,
        train=select(images, train),
        train_labels=labels[train],
        test=select(images, test),
        test_labels=labels[test],
        class_names=class_names or [str(c) for c in range(int(labels.max()) + 1)],
        train_names=[names[i] for i in train] if len(names) else (),
        test_names=[names[i] for i in test] if len(names) else (),
    )


def from_dataset(train: Iterable[Any], test: Iterable[Any], name: str = "dataset") -> ImageSet:
    """An image set from two PyTorch-style datasets of (image, label); images are PIL, arrays or tensors of one size."""
    arrays: list[np.ndarray] = []
    for part in (train, test):
        items = [_pair(item, f"{name}[{i}]", "label") for i, item in enumerate(_items(part))]
        pairs = [(to_pixels(x, f"{name}[{i}]"), _whole(label, f"{name}[{i}]")) for i, (x, label) in enumerate(items)]
        if len({image.shape for image, _ in pairs}) != 1:
            raise UserError(f"{name}: images differ in shape (or there are none); resize them to one size")
        arrays += [np.stack([image for image, _ in pairs]), np.array([label for _, label in pairs], dtype=np.int64)]
    labels = np.concatenate([arrays[1], arrays[3]])
    return ImageSet(name, *arrays, class_names=[str(c) for c in range(int(labels.max()) + 1)])


def from_pairs(train: Iterable[Any], test: Iterable[Any], name: str = "pairs") -> ImageSet:
    """An image set from two datasets of (image, caption) or (image, [captions]); images as in `from_dataset`."""
    parts = [[_pair(item, f"{name}[{i}]", "caption") for i, item in enumerate(_items(part))] for part in (train, test)]
    images = from_dataset(*([(image, 0) for image, _ in part] for part in parts), name=name)
    train_captions, test_captions = (
        [list(c) if isinstance(c, list | tuple) else [c] for _, c in part] for part in parts
    )
    return replace(images, train_captions=train_captions, test_captions=test_captions)


def _items(part: Iterable[Any]) -> Iterator[Any]:
    """As many as a dataset says it has. Python would ask one that has no iterator until it raises an IndexError: for
    ever, or up to a mistake inside of it."""
    if hasattr(part, "__len__") and not hasattr(part, "__iter__"):
        return (part[i] for i in range(len(part)))
    return iter(part)


def _pair(item: Any, name: str, second: str) -> tuple[Any, Any]:
    if not isinstance(item, tuple | list) or len(item) != 2:
        found = f"has {len(item)} parts" if isinstance(item, tuple | list) else f"is of type {type(item).__name__}"
        raise UserError(f"{name} {found}; give pairs of an image and its {second}")
    image, other = item
    return image, other


def _whole(label: Any, name: str) -> int:
    try:
        number = index(label.item() if hasattr(label, "item") else label)
    except (TypeError, ValueError, RuntimeError):
        raise UserError(f"{name} has the label {label!r}; give classes as whole numbers from 0") from None
    return check_label(number, name)


def check_label(label: int, name: str) -> int:
    """Refuse one that is no class, or up to which there would be more classes than anyone has."""
    if not 0 <= label < MAX_CLASSES:
        raise UserError(f"{name} has the label {label}; number the classes from 0 (at most {MAX_CLASSES:,})")
    return label


def to_pixels(image: Any, name: str) -> np.ndarray:
    """A PIL image of any mode, or an array or tensor (c, h, w) or (h, w), as (c, h, w) uint8."""
    is_pil = hasattr(image, "getbands")
    array = np.asarray(_plain(image, name) if is_pil else image)
    if array.ndim == 2:
        array = array[None]
    elif is_pil:
        array = array.transpose(2, 0, 1)
    if array.ndim != 3 or array.shape[0] not in (1, 3):
        raise UserError(f"{name} has shape {array.shape}; expected (1 or 3, height, width)")
    return as_uint8(array, name)


def _plain(image: Any, name: str) -> Any:
    """As L or RGB: a palette's numbers, for one, are no brightness."""
    from PIL.ImageMode import getmode

    try:
        return as_mode(image, "L" if getmode(image.mode).basemode == "L" else "RGB")
    except ValueError as error:
        raise UserError(f"{name} cannot be brought to grey or colours ({error}); convert it to L or RGB") from None


def as_uint8(array: np.ndarray, name: str) -> np.ndarray:
    """uint8 as it is, floats in [0, 1] scaled; anything else is refused rather than guessed at."""
    if array.dtype == np.uint8:
        return array
    if not np.issubdtype(array.dtype, np.floating):
        raise UserError(f"{name} has type {array.dtype}; expected uint8, or floats from 0 to 1")
    if not np.isfinite(array).all():
        raise UserError(f"{name} holds NaN or infinite values; clean the data first")
    if array.size and (array.min() < 0 or array.max() > 1):
        raise UserError(
            f"{name} has values from {array.min():g} to {array.max():g}; expected uint8, or floats from 0 to 1"
        )
    return np.rint(array * 255).astype(np.uint8)
