"""A folder of images is read whole, or what is in the way is named: nothing in it is taken for something else."""

import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from muc.config import Data
from muc.data import ImageSet, load_images
from muc.data.folders import find_parts, find_pictures, walk
from muc.data.sources import fingerprint, read_owner_images
from muc.errors import UserError
from muc.pictures.decode import FORMATS, IMAGE_SUFFIXES

RANDOM = np.random.default_rng(0)


def paint(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(RANDOM.integers(0, 256, (6, 6, 3), dtype=np.uint8)).save(path)
    return path


def animals(folder: Path, n: int = 3) -> Path:
    for name in (f"{kind}/{i}.png" for kind in ("cat", "dog") for i in range(n)):
        paint(folder / name)
    return folder


def load(folder: Path) -> ImageSet:
    return load_images(Data(name=str(folder), image_size=6))


def names(images: ImageSet) -> set[str]:
    return {*images.train_names, *images.test_names}


# --- parts ---


@pytest.mark.parametrize("part", ["test", "val", "valid", "validation"])
def test_what_lies_beside_train_is_the_test_part(tmp_path: Path, part: str) -> None:
    animals(tmp_path / "train")
    animals(tmp_path / part, 1)
    (tmp_path / "notes").mkdir()
    images = load(tmp_path)
    assert list(images.class_names) == ["cat", "dog"]
    assert (len(images.train), len(images.test)) == (6, 2)
    assert images.name == tmp_path.name


@pytest.mark.parametrize(
    ("beside", "found"),
    [((), "nothing to test on"), (("cat",), "nothing to test on"), (("val", "valid"), "val/, valid/")],
)
def test_what_to_test_on_is_not_guessed(tmp_path: Path, beside: tuple[str, ...], found: str) -> None:
    for name in ("train", *beside):
        animals(tmp_path / name)
    with pytest.raises(UserError, match=f"{tmp_path} holds train/ and {found}; leave exactly one of test/, val/, "):
        load(tmp_path)


def test_beside_test_a_validation_part_is_left_aside(tmp_path: Path) -> None:
    for part, each in (("train", 3), ("val", 2), ("test", 1)):
        animals(tmp_path / part, each)
    assert (len(load(tmp_path).train), len(load(tmp_path).test)) == (6, 2)


def test_without_train_there_are_no_parts(tmp_path: Path) -> None:
    animals(tmp_path / "val")
    animals(tmp_path / "test")
    assert find_parts(tmp_path) == []
    assert list(load(tmp_path).class_names) == ["test", "val"]


# --- what is data ---


@pytest.mark.parametrize("name", [".ipynb_checkpoints", "__MACOSX", "_old"])
def test_a_folder_of_some_tool_is_no_class(tmp_path: Path, name: str) -> None:
    whole = load(animals(tmp_path)).digest
    paint(tmp_path / name / "0.png")
    paint(tmp_path / "cat" / name / "0.png")
    images = load(tmp_path)
    assert list(images.class_names) == ["cat", "dog"]
    assert images.digest == whole


def test_pictures_of_the_users_own_are_not_passed_over_in_silence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    animals(tmp_path)
    paint(tmp_path / "_unknown" / "0.png")
    paint(tmp_path / "__MACOSX" / "._0.png")
    paint(tmp_path / ".cache" / "0.png")
    load(tmp_path)
    said = capsys.readouterr().err
    assert f"{tmp_path / '_unknown'} is passed over; rename it, without the _" in said
    assert said.count("is passed over") == 1


def test_a_hidden_folder_may_hold_all_data(tmp_path: Path) -> None:
    assert len(names(load(animals(tmp_path / ".cache" / "_pets")))) == 6


def test_what_can_be_decoded_is_found_by_its_name(tmp_path: Path) -> None:
    opened = {suffix for suffix, kind in Image.registered_extensions().items() if kind in FORMATS}
    assert {*IMAGE_SUFFIXES} <= opened
    animals(tmp_path)
    others = [paint(tmp_path / "cat" / f"other{suffix}") for suffix in IMAGE_SUFFIXES if suffix != ".pbm"]
    paint(tmp_path / "dog" / "LOUD.TIFF")
    assert names(load(tmp_path)) >= {"dog/LOUD.TIFF", *(f"cat/{path.name}" for path in others)}
    assert len(read_owner_images([tmp_path / "cat"], 3, 6)[1]) == 3 + len(others)


def test_a_class_folder_without_images_is_named(tmp_path: Path) -> None:
    animals(tmp_path / "train")
    animals(tmp_path / "val")
    for part in ("train", "val"):
        empty = tmp_path / part / "owl"
        empty.mkdir()
        (empty / "0.heic").touch()
        with pytest.raises(UserError, match=f"the class folder {empty} holds no images .*; fill it or remove it"):
            load(tmp_path)
        (empty / "0.heic").unlink()
        empty.rmdir()
    load(tmp_path)


# --- links ---


def test_a_class_folder_may_be_a_link(tmp_path: Path) -> None:
    plain, linked = animals(tmp_path / "plain" / "pets"), tmp_path / "linked" / "pets"
    linked.mkdir(parents=True)
    (linked / "cat").symlink_to(plain / "cat")
    (linked / "dog").mkdir()
    for i in range(3):
        (linked / "dog" / f"{i}.png").symlink_to(plain / "dog" / f"{i}.png")
    assert load(linked).digest == load(plain).digest
    assert names(load(linked)) == names(load(plain))


def test_a_change_behind_a_link_is_seen(tmp_path: Path) -> None:
    animals(tmp_path / "store")
    (tmp_path / "pets").mkdir()
    for kind in ("cat", "dog"):
        (tmp_path / "pets" / kind).symlink_to(tmp_path / "store" / kind)
    first = load(tmp_path / "pets")
    assert load(tmp_path / "pets") is first
    os.utime(paint(tmp_path / "store" / "cat" / "1.png"), ns=(0, 0))
    assert load(tmp_path / "pets").digest != first.digest


def test_links_in_circles_come_to_an_end(tmp_path: Path) -> None:
    animals(tmp_path / "pets")
    whole = find_pictures(tmp_path / "pets")
    (tmp_path / "pets" / "cat" / "up").symlink_to(tmp_path / "pets")
    (tmp_path / "pets" / "dog" / "itself").symlink_to("itself")
    assert find_pictures(tmp_path / "pets") == whole
    fingerprint(tmp_path / "pets")
    for one, other in (("one", "other"), ("other", "one")):  # neither is above itself but through the other
        (tmp_path / one).mkdir()
        (tmp_path / one / "link").symlink_to(tmp_path / other)
    assert [path.relative_to(tmp_path).as_posix() for path in walk(tmp_path / "one")] == [
        f"one/{'/'.join(['link'] * depth)}" for depth in (1, 2)
    ]


def test_files_come_in_the_order_of_their_names(tmp_path: Path) -> None:
    for name in ("b/1.png", "b.png/1.png", "b-/1.png", "B/2.png", "b/a/1.png", "a/é.png", "a/10.png", "a/9.png"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert list(walk(tmp_path)) == sorted(tmp_path.rglob("*"))


def test_a_folder_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    with pytest.raises(UserError, match=f"{gone} cannot be read .*; make it readable or remove it"):
        list(walk(gone))
