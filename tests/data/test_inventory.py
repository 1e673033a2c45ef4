"""Images find their places again by what they are, whatever was erased, moved or added around them."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muc.data.files import ImageFiles
from muc.data.images import ImageSet, from_labels
from muc.data.inventory import NO_CAPTION, NO_NAME, Inventory, put_back, take_inventory
from muc.data.sources import load_folder
from muc.errors import UserError

CLASSES = ["cat", "dog", "owl"]


def made(n: int = 12, copies: int = 1) -> ImageSet:
    """A fifth is held out, and which that is changes with the number of images. Every image is there `copies` times."""
    source = np.random.default_rng(0)
    different = source.integers(0, 256, (n // copies, 3, 2, 2), dtype=np.uint8)
    images = np.repeat(different, copies, axis=0)
    labels = np.repeat(np.arange(n // copies) % 3, copies)
    return from_labels("mine", images, labels, [f"{i}.png" for i in range(n)], CLASSES)


def erased_from(images: ImageSet, gone: set[str], later: int = 0) -> ImageSet:
    """The same source without some of its files, and with images that came later: split anew, as a folder would be."""
    names = [*images.train_names, *images.test_names]
    pixels = np.concatenate([images.train[:], images.test[:]])
    labels = np.concatenate([images.train_labels, images.test_labels])
    rows = sorted((i for i in range(len(names)) if names[i] not in gone), key=lambda i: int(names[i].split(".")[0]))
    pixels = np.concatenate([pixels[rows], np.full((later, *pixels.shape[1:]), 7, np.uint8)])
    labels = np.concatenate([labels[rows], np.zeros(later, np.int64)])
    kept = [names[i] for i in rows] + [f"later{i}" for i in range(later)]
    return from_labels("mine", pixels, labels, kept, CLASSES)


@given(st.data())
def test_what_is_needed_is_where_it_was_and_what_was_erased_is_blank(data: st.DataObject) -> None:
    images = made()
    gone = data.draw(st.sets(st.integers(0, len(images.train) - 1), max_size=len(images.train)))
    here = erased_from(images, {images.train_names[i] for i in gone}, data.draw(st.integers(2, 9)))
    needed = np.setdiff1d(np.arange(len(images.train)), list(gone))
    found = put_back(here, take_inventory(images), needed, "a run")
    for i in range(len(images.train)):
        expected = np.zeros_like(images.train[i]) if i in gone else images.train[i]
        assert np.array_equal(found.train[i], expected)
        assert found.train_labels[i] == (0 if i in gone else images.train_labels[i])
        assert found.train_names[i] == (NO_NAME if i in gone else images.train_names[i])
    assert np.array_equal(found.test, images.test)
    assert np.array_equal(found.test_labels, images.test_labels)
    assert list(found.test_names) == list(images.test_names)


def test_of_equal_images_the_needed_one_is_found() -> None:
    images = made(copies=2)
    pairs = [
        (i, j)
        for i in range(len(images.train))
        for j in range(i + 1, len(images.train))
        if np.array_equal(images.train[i], images.train[j])
    ]
    for forgotten, kept in [*pairs, *((j, i) for i, j in pairs)]:
        here = erased_from(images, {images.train_names[forgotten]})
        needed = np.setdiff1d(np.arange(len(images.train)), [forgotten])
        found = put_back(here, take_inventory(images), needed, "a run")
        assert np.array_equal(found.train[kept], images.train[kept])
        assert not found.train[forgotten].any()


@pytest.mark.parametrize("needed", [[0, 1, 2, 3, 4, 5], [1, 4, 5], [5]])
def test_equal_images_keep_their_names(needed: list[int]) -> None:
    """Also where one is needed and the other is not: both are there."""
    pixels = np.random.default_rng(0).integers(0, 256, (8, 3, 2, 2), dtype=np.uint8)
    pixels[5] = pixels[2] = pixels[0]
    labels = np.zeros(8, np.int64)
    names = [f"{i}.png" for i in range(8)]

    def made(rows: list[int]) -> ImageSet:
        own = [names[i] for i in rows]
        return ImageSet("mine", pixels[rows], labels[rows], pixels[6:], labels[6:], ["a"], own, names[6:])

    inventory = take_inventory(made([0, 1, 2, 3, 4, 5]))
    found = put_back(made([0, 1, 2, 3, 4, 5]), inventory, np.array(needed), "a run")
    assert list(found.train_names) == names[:6]
    without_four = put_back(made([0, 1, 2, 3, 5]), inventory, np.setdiff1d(needed, [4]), "a run")
    assert list(without_four.train_names) == [*names[:4], NO_NAME, "5.png"]


@pytest.mark.parametrize("part", ["train", "test"])
def test_a_needed_image_that_is_gone_is_named(part: str) -> None:
    images = made()
    names = images.train_names if part == "train" else images.test_names
    here = erased_from(images, {names[1]})
    where = "training image 1" if part == "train" else "test image 1"
    with pytest.raises(UserError, match=f"1 of the images that it needs are gone or changed, {where} first; restore"):
        put_back(here, take_inventory(images), np.arange(len(images.train)), "a run")


def test_one_changed_pixel_label_or_caption_is_another_image() -> None:
    images = made()
    pairs = ImageSet(
        "pairs", images.train, images.train_labels, images.test, images.test_labels, CLASSES,
        train_captions=[["a", "b"]] * len(images.train), test_captions=[["c"]] * len(images.test),
    )  # fmt: skip
    pixels, labels, captions = pairs.train.copy(), pairs.train_labels.copy(), [list(c) for c in pairs.train_captions]
    pixels[4, 0, 0, 0] ^= 1
    labels[4] = (labels[4] + 1) % 3
    captions[4] = ["a b"]
    for change in ({"train": pixels}, {"train_labels": labels}, {"train_captions": captions}):
        changed = replace(pairs, **change)
        with pytest.raises(UserError, match="training image 4 first"):
            put_back(changed, take_inventory(pairs), np.arange(len(pairs.train)), "a run")
        assert put_back(changed, take_inventory(pairs), np.array([0, 1]), "a run").train_captions[4] == [NO_CAPTION]


def test_other_data_altogether_are_refused_as_such() -> None:
    images = made()
    other = from_labels("other", 255 - images.train[:], images.train_labels)
    with pytest.raises(UserError, match="'other' is not what a run was made with; restore the original images"):
        put_back(other, take_inventory(images), np.arange(3), "a run")


def test_a_class_that_is_gone_leaves_the_others_their_numbers(tmp_path: Path) -> None:
    from PIL import Image

    from muc.config import Data

    for i in range(12):
        path = tmp_path / CLASSES[i % 3] / f"{i}.png"
        path.parent.mkdir(exist_ok=True)
        Image.new("RGB", (4, 4), (20 * i, 0, 0)).save(path)
    for stream in ("off", "on"):
        data = Data(name=str(tmp_path), image_size=4, stream=stream)
        images = load_folder(tmp_path, data)
        inventory = take_inventory(images)
        hidden = tmp_path.with_name(f"hidden-{stream}")
        (tmp_path / "cat").rename(hidden)
        kept = np.flatnonzero(images.train_labels != 0)
        inventory = replace(inventory, test=inventory.test[images.test_labels != 0])
        found = put_back(load_folder(tmp_path, data), inventory, kept, "a run")
        assert isinstance(found.train, ImageFiles) == (stream == "on")
        assert list(found.class_names) == CLASSES
        assert np.array_equal(found.train_labels[kept], images.train_labels[kept])
        hidden.rename(tmp_path / "cat")
        assert np.array_equal(found.train[kept], images.train[kept])
        if stream == "on":
            with pytest.raises(UserError, match="was erased"):
                found.train[int(np.flatnonzero(images.train_labels == 0)[0])]


def test_an_inventory_outlives_its_file(tmp_path: Path) -> None:
    from muc.storage import load_tensors, save_tensors

    taken = take_inventory(made())
    save_tensors(tmp_path / "images.safetensors", *taken.to_tensors())
    read = Inventory.from_tensors(*load_tensors(tmp_path / "images.safetensors"))
    assert np.array_equal(read.train, taken.train)
    assert np.array_equal(read.test, taken.test)
    assert (list(read.class_names), read.channels, read.image_size) == (CLASSES, 3, 2)
