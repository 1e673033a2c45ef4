"""Every source gives the same form, or one sentence that names what is wrong."""

import io
import os
import struct
import tracemalloc
import warnings
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from muc.config import Data
from muc.data import ImageSet, from_dataset, from_pairs, load_images, npz
from muc.data.folders import find_pictures
from muc.data.glyphs import SCRIPTS
from muc.data.images import to_pixels
from muc.data.sources import read_owner_images
from muc.errors import UserError
from muc.pictures.decode import read_image
from muc.storage import tell_once

RANDOM = np.random.default_rng(0)
GREY = RANDOM.integers(0, 256, (20, 6, 6), dtype=np.uint8)
COLOUR = RANDOM.integers(0, 256, (20, 3, 6, 6), dtype=np.uint8)
LABELS = np.arange(20) % 4


def load(name: str | Path, **settings: Any) -> ImageSet:
    return load_images(Data(name=str(name), **settings))


# --- embedded sets ---


@pytest.fixture(scope="module")
def glyphs() -> ImageSet:
    return load("glyphs")


def test_glyphs_are_letters_of_ten_scripts(glyphs: ImageSet) -> None:
    assert glyphs.train.shape[1:] == (1, 16, 16)
    assert len(glyphs.train) + len(glyphs.test) > 2000
    assert tuple(glyphs.class_names) == SCRIPTS
    for labels in (glyphs.train_labels, glyphs.test_labels):
        assert set(labels) == set(range(10))


def test_no_two_glyphs_look_the_same_and_none_is_blank(glyphs: ImageSet) -> None:
    everything = np.concatenate([glyphs.train, glyphs.test])
    assert len({image.tobytes() for image in everything}) == len(everything)
    assert everything.reshape(len(everything), -1).max(axis=1).min() > 64


def test_glyphs_carry_their_unicode_names(glyphs: ImageSet) -> None:
    for names, labels in ((glyphs.train_names, glyphs.train_labels), (glyphs.test_names, glyphs.test_labels)):
        assert len(names) == len(labels)
        assert all(name.split()[0] == SCRIPTS[label] for name, label in zip(names, labels, strict=True))
    assert "greek small letter alpha" in {*glyphs.train_names, *glyphs.test_names}


def test_glyphs_are_the_same_every_time(glyphs: ImageSet) -> None:
    again = load("glyphs")
    assert again.digest == glyphs.digest
    assert list(again.train_names) == list(glyphs.train_names)


def test_digits_are_all_there_and_the_same_every_time() -> None:
    digits = load("digits")
    assert len(digits.train) + len(digits.test) == 1797
    assert digits.train.shape[1:] == (1, 8, 8)
    assert digits.classes == 10
    assert digits.train.max() == 255
    assert digits.digest == load("digits").digest


def test_the_digest_sees_every_pixel_and_label(glyphs: ImageSet) -> None:
    from dataclasses import replace

    pixels, labels = glyphs.test.copy(), glyphs.test_labels.copy()
    pixels[-1, 0, -1, -1] ^= 1
    labels[-1] = (labels[-1] + 1) % 10
    digests = {glyphs.digest, replace(glyphs, test=pixels).digest, replace(glyphs, test_labels=labels).digest}
    assert len(digests) == 3


# --- .npz ---


def save(folder: Path, **arrays: Any) -> Path:
    np.savez(folder / "mine.npz", **arrays)
    return folder / "mine.npz"


@pytest.mark.parametrize(
    ("stored", "expected"),
    [
        (GREY, GREY[:, None]),
        (GREY[..., None], GREY[:, None]),
        (GREY[:, None], GREY[:, None]),
        (COLOUR, COLOUR),
        (COLOUR.transpose(0, 2, 3, 1), COLOUR),
        (np.asfortranarray(COLOUR), COLOUR),
        (COLOUR / 255, COLOUR),
        ((COLOUR / 255).astype(np.float32), COLOUR),
    ],
    ids=["nhw", "nhw1", "n1hw", "nchw", "nhwc", "fortran", "float64", "float32"],
)
def test_npz_layouts_come_to_one_form(tmp_path: Path, stored: np.ndarray, expected: np.ndarray) -> None:
    parts = {"x_train": stored[:12], "y_train": LABELS[:12], "x_test": stored[12:], "y_test": LABELS[12:]}
    images = load(save(tmp_path, **parts))
    assert images.train.dtype == np.uint8
    assert np.array_equal(images.train, expected[:12])
    assert np.array_equal(images.test, expected[12:])
    assert np.array_equal(images.train_labels, LABELS[:12])
    assert images.name == "mine"
    assert list(images.class_names) == ["0", "1", "2", "3"]


def test_an_npz_without_test_images_holds_out_a_fifth(tmp_path: Path) -> None:
    images = load(save(tmp_path, images=GREY, labels=LABELS.astype(np.uint8)))
    assert (len(images.train), len(images.test)) == (16, 4)
    pairs = {(image.tobytes(), label) for image, label in zip(GREY, LABELS, strict=True)}
    found = [*zip(images.train, images.train_labels, strict=True), *zip(images.test, images.test_labels, strict=True)]
    assert {(image.tobytes(), label) for image, label in found} == pairs
    assert images.digest == load(tmp_path / "mine.npz").digest


def test_compressed_npz_are_read_too(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "mine.npz", images=GREY, labels=LABELS)
    assert len(load(tmp_path / "mine.npz").train) == 16


@pytest.mark.parametrize(
    ("arrays", "complaint"),
    [
        ({"images": GREY}, "expected images and labels, or x_train"),
        ({}, "holds nothing; expected images and labels"),
        ({"images": GREY[:, :, :5], "labels": LABELS}, "6x5 pixels; crop or resize"),
        ({"images": GREY[0], "labels": LABELS}, r"shape \(6, 6\); expected"),
        ({"images": COLOUR[:, :2], "labels": LABELS}, "expected .*1 or 3"),
        ({"images": GREY[:, :0, :0], "labels": LABELS}, "no pixels"),
        ({"images": GREY, "labels": LABELS[:-1]}, "20 images but labels of shape"),
        ({"images": GREY, "labels": LABELS[:, None]}, "expected one whole number"),
        ({"images": GREY, "labels": LABELS / 2}, "type float64; expected one whole number"),
        ({"images": GREY, "labels": LABELS - 1}, "has the label -1; number the classes from 0"),
        ({"images": GREY, "labels": LABELS * 10**12}, "number the classes from 0"),
        ({"images": GREY, "labels": LABELS.astype(np.uint64) + np.uint64(2**63)}, "number the classes from 0"),
        ({"images": GREY.astype(np.int64), "labels": LABELS}, "type int64; expected uint8, or floats"),
        ({"images": GREY.astype(float), "labels": LABELS}, "values from 0 to 255; expected uint8, or floats"),
        ({"images": np.full((9, 4, 4), np.nan), "labels": LABELS[:9]}, "NaN or infinite"),
        ({"images": np.full((9, 4, 4), np.inf), "labels": LABELS[:9]}, "NaN or infinite"),
        ({"images": GREY[:3], "labels": LABELS[:3]}, "3 images; at least 4"),
        (
            {"x_train": GREY, "y_train": LABELS, "x_test": GREY[:, :5, :5], "y_test": LABELS},
            r"training images are \(1, 6, 6\) but test images \(1, 5, 5\)",
        ),
        ({"x_train": GREY, "y_train": LABELS, "x_test": GREY[:0], "y_test": LABELS[:0]}, "there are no test images"),
        ({"x_train": GREY, "y_train": LABELS[:9], "x_test": GREY, "y_test": LABELS}, "20 training images but labels"),
    ],
)
def test_an_npz_of_the_wrong_kind_is_refused(tmp_path: Path, arrays: dict[str, Any], complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        load(save(tmp_path, **arrays))


def test_pickled_objects_are_refused_and_never_run(tmp_path: Path) -> None:
    class Bomb:
        def __reduce__(self) -> tuple[Callable[..., Any], tuple[str]]:
            return (os.mkdir, (str(tmp_path / "exploded"),))

    path = save(tmp_path, images=np.array([Bomb()], dtype=object), labels=LABELS)
    with pytest.raises(UserError, match=r"images\.npy holds Python objects"):
        load(path)
    assert not (tmp_path / "exploded").exists()


def lying_npz(path: Path, shape: tuple[int, ...], also_in_the_directory: bool) -> None:
    """A tiny file whose header promises far more; if asked, the zip's own table of contents tells the same lie."""
    member = io.BytesIO()
    np.lib.format.write_array_header_1_0(member, {"descr": "|u1", "fortran_order": False, "shape": shape})
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("images.npy", member.getvalue())
    if also_in_the_directory:
        raw = bytearray(path.read_bytes())
        at = raw.index(b"PK\x01\x02") + 24
        raw[at : at + 4] = struct.pack("<I", len(member.getvalue()) + int(np.prod(shape)))
        path.write_bytes(raw)


@pytest.mark.parametrize(
    ("shape", "also_in_the_directory"), [((8 * 2**40,), False), ((2**31, 2**31, 2**31), False), ((3 * 2**30,), True)]
)
def test_a_header_that_promises_terabytes_is_refused_without_allocating(
    tmp_path: Path, shape: tuple[int, ...], also_in_the_directory: bool
) -> None:
    path = tmp_path / "mine.npz"
    lying_npz(path, shape, also_in_the_directory)
    assert path.stat().st_size < 300
    tracemalloc.start()
    try:
        with pytest.raises(UserError, match=r"mine\.npz"):
            load(path)
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()


def digest_or_complaint(path: Path) -> str:
    try:
        with warnings.catch_warnings(action="ignore"):  # numpy's, about headers that look like Python 2's
            return load(path).digest
    except UserError as error:
        return str(error)


@pytest.mark.parametrize("write", [np.savez, np.savez_compressed])
def test_an_npz_that_was_cut_or_damaged_anywhere_is_refused_or_unharmed(
    tmp_path: Path, write: Callable[..., None]
) -> None:
    path = tmp_path / "mine.npz"
    write(path, images=GREY[:4, :3, :3], labels=LABELS[:4])
    whole, digest = path.read_bytes(), load(path).digest
    damages = [whole[:length] for length in range(0, len(whole), 7)]
    damages += [bytes([*whole[:i], whole[i] ^ mask, *whole[i + 1 :]]) for i in range(len(whole)) for mask in (1, 0x80)]
    for damaged in damages:
        path.write_bytes(damaged)
        found = digest_or_complaint(path)
        assert found == digest or str(path) in found


def test_an_encrypted_or_foreign_archive_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mine.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("readme.txt", "no arrays here")
    with pytest.raises(UserError, match=r"not a readable \.npz"):
        load(path)
    raw = bytearray(path.read_bytes())
    raw[raw.index(b"PK\x01\x02") + 8] |= 1  # "encrypted"
    raw[6] |= 1
    path.write_bytes(raw)
    with pytest.raises(UserError, match=r"not a readable \.npz"):
        load(path)


# --- folders ---


def draw(path: Path, colour: tuple[int, int, int] = (200, 30, 30), size: tuple[int, int] = (9, 7)) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, colour).save(path)
    return path


def animals(folder: Path, n: int = 4) -> Path:
    for i in range(n):
        draw(folder / "cat" / f"{i}.png", (250, 10 * i, 0))
        draw(folder / "dog" / f"{i}.jpg", (0, 10 * i, 250))
    return folder


def test_a_folder_has_its_classes_from_sub_folders_and_its_images_resized(tmp_path: Path) -> None:
    images = load(animals(tmp_path / "pets"), image_size=5)
    assert images.name == "pets"
    assert list(images.class_names) == ["cat", "dog"]
    assert images.train.shape[1:] == (3, 5, 5)
    assert len(images.train) + len(images.test) == 8
    for name, label, image in zip(images.train_names, images.train_labels, images.train, strict=True):
        assert name.split("/")[0] == images.class_names[label]
        assert image[0 if label == 0 else 2].mean() > 240
    assert not {*images.train_names} & {*images.test_names}


def test_a_folder_may_bring_its_own_test_images(tmp_path: Path) -> None:
    animals(tmp_path / "train", 3)
    draw(tmp_path / "test" / "dog" / "new.png")
    images = load(tmp_path)
    assert (len(images.train), len(images.test)) == (6, 1)
    assert list(images.test_labels) == [1]
    assert list(images.test_names) == ["dog/new.png"]


def test_a_folder_without_classes_is_one_class(tmp_path: Path) -> None:
    for i in range(6):
        draw(tmp_path / "flat" / f"{i}.png", (i, i, i))
    images = load(tmp_path / "flat")
    assert list(images.class_names) == ["all"]
    assert set(images.train_labels) == {0}


def test_an_image_outside_the_class_folders_is_named(tmp_path: Path) -> None:
    stray = draw(animals(tmp_path) / "stray.png")
    with pytest.raises(UserError, match=f"{stray} is in no class"):
        load(tmp_path)


def test_a_test_image_of_an_unknown_class_is_named(tmp_path: Path) -> None:
    animals(tmp_path / "train")
    strange = draw(tmp_path / "test" / "axolotl" / "0.png")
    with pytest.raises(UserError, match=f"{strange} is of a class that has no training images"):
        load(tmp_path)


def test_a_folder_without_images_says_so(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("no pictures")
    with pytest.raises(UserError, match="holds no images"):
        load(tmp_path)


def not_an_image(path: Path) -> None:
    path.write_bytes(b"these are no pixels")


def empty_file(path: Path) -> None:
    path.write_bytes(b"")


def truncated(path: Path) -> None:
    buffer = io.BytesIO()
    Image.fromarray(RANDOM.integers(0, 256, (64, 64, 3), dtype=np.uint8)).save(buffer, "PNG")
    path.write_bytes(buffer.getvalue()[:4000])


def corrupt_pixels(path: Path) -> None:
    buffer = io.BytesIO()
    Image.fromarray(RANDOM.integers(0, 256, (64, 64, 3), dtype=np.uint8)).save(buffer, "PNG")
    raw = bytearray(buffer.getvalue())
    raw[2000:2100] = bytes(100)
    path.write_bytes(raw)


def png_header(width: int, height: int) -> bytes:
    """A PNG of a hundred bytes that unpacks to width x height pixels, if it is let."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    pixels = zlib.compress(bytes(1000))
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


@pytest.mark.parametrize("damage", [not_an_image, empty_file, truncated, corrupt_pixels])
def test_a_broken_image_is_named(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    broken = animals(tmp_path) / "cat" / "broken.png"
    damage(broken)
    with pytest.raises(UserError, match=f"{broken} is not a readable image .*; repair or remove it"):
        load(tmp_path)
    with pytest.raises(UserError, match=f"{broken} is not a readable image"):
        read_owner_images([broken], 3, 8)


@pytest.mark.parametrize(
    ("side", "words"), [(8_001, "at most 64,000,000"), (10_000, "exceeds limit"), (100_000, "exceeds limit")]
)
def test_a_decompression_bomb_is_refused_unopened(tmp_path: Path, side: int, words: str) -> None:
    bomb = animals(tmp_path) / "cat" / "bomb.png"
    bomb.write_bytes(png_header(side, side))
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        for look in (lambda: load(tmp_path), lambda: read_owner_images([bomb], 1, 8)):
            with pytest.raises(UserError, match=f"{bomb} .*{words}"):
                look()
    assert not warned, "what Pillow has to say is in the error already"


def test_owner_images_are_brought_to_what_the_model_takes(tmp_path: Path) -> None:
    animals(tmp_path, 2)
    pixels, names = read_owner_images([tmp_path / "cat", tmp_path / "dog" / "1.jpg"], channels=1, size=6)
    assert pixels.shape == (3, 1, 6, 6)
    assert names == ["0.png", "1.png", "1.jpg"]
    with pytest.raises(UserError, match=r"there is no image .*missing\.png"):
        read_owner_images([tmp_path / "missing.png"], 1, 6)


# --- names ---


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("glyph", "did you mean 'glyphs'"),
        ("cifar-10", "did you mean 'cifar10'"),
        ("SVHN", "did you mean 'svhn'|valid: .*svhn"),
        ("imagenet", "valid: cifar10, cifar100, digits, glyph-pairs, glyphs, svhn"),
        ("nowhere/mine.npz", "there is no file or folder 'nowhere/mine.npz'"),
        ("mine.npz", "there is no file or folder 'mine.npz'"),
        ("", "unknown data set"),
    ],
)
def test_an_unknown_name_gets_the_nearest_valid_one(name: str, complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        load(name)


def test_downloaded_sets_are_taken_from_muc_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUC_DATA", str(tmp_path))
    save(tmp_path, x_train=COLOUR[:12], y_train=LABELS[:12], x_test=COLOUR[12:], y_test=LABELS[12:])
    (tmp_path / "mine.npz").rename(tmp_path / "cifar10.npz")
    images = load("cifar10")
    assert images.name == "cifar10"
    assert np.array_equal(images.train, COLOUR[:12])
    assert load("cifar10", root=tmp_path).digest == images.digest


def test_a_download_that_fails_says_what_to_do_instead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from torchvision import datasets

    def offline(*_: Any, **__: Any) -> None:
        raise OSError("no network")

    monkeypatch.setattr(datasets, "CIFAR100", offline)
    with pytest.raises(UserError, match=r"could not get cifar100 \(no network\); put cifar100\.npz"):
        load("cifar100", root=tmp_path)


def prepared_cifar10() -> Path | None:
    """The real CIFAR-10, where this machine has it."""
    places = (os.environ.get("MUC_DATA", ""), Path(__file__).parents[3] / "shared" / "data-prepared")
    found = (Path(place) / "cifar10.npz" for place in places if place)
    return next((path for path in found if path.is_file()), None)


@pytest.mark.skipif(prepared_cifar10() is None, reason="no cifar10.npz in $MUC_DATA")
def test_the_real_cifar10_is_what_everyone_knows() -> None:
    path = prepared_cifar10()
    assert path is not None
    images = load("cifar10", root=path.parent)
    assert images.train.shape == (50_000, 3, 32, 32)
    assert images.test.shape == (10_000, 3, 32, 32)
    assert np.array_equal(np.bincount(images.train_labels), [5000] * 10)
    assert np.allclose(images.train.mean(axis=(0, 2, 3)) / 255, [0.4914, 0.4822, 0.4465], atol=1e-3)


# --- a user's own Dataset ---


class Tensors(torch.utils.data.Dataset):
    def __init__(self, images: torch.Tensor) -> None:
        self.images = images

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        if index >= len(self.images):
            raise IndexError(index)
        return self.images[index], index % 3

    def __len__(self) -> int:
        return len(self.images)


def test_a_dataset_of_tensors_becomes_an_image_set() -> None:
    train: Any = Tensors(torch.from_numpy(COLOUR / 255))
    test: Any = Tensors(torch.from_numpy(COLOUR[:5]))
    images = from_dataset(train, test, "mine")
    assert np.array_equal(images.train, COLOUR)
    assert np.array_equal(images.test, COLOUR[:5])
    assert list(images.train_labels[:4]) == [0, 1, 2, 0]
    assert images.classes == 3


def test_a_dataset_of_pictures_becomes_an_image_set() -> None:
    pairs = [(Image.fromarray(image.transpose(1, 2, 0)), i % 2) for i, image in enumerate(COLOUR)]
    images = from_dataset(pairs, [(Image.fromarray(GREY[0]).convert("RGB"), 4)])
    assert np.array_equal(images.train, COLOUR)
    assert images.classes == 5


@pytest.mark.parametrize(
    ("pairs", "complaint"),
    [
        ([], "or there are none"),
        ([(GREY[0], 0), (GREY[1, :5, :5], 1)], "differ in shape"),
        ([(COLOUR[0, :2], 0)], r"dataset\[0\] has shape \(2, 6, 6\)"),
        ([(np.full((4, 4), np.nan), 0)], r"dataset\[0\] holds NaN"),
        ([(GREY[0], -1)], r"dataset\[0\] has the label -1; number the classes from 0"),
        ([(GREY[0], 1), (GREY[0], 10**5)], r"dataset\[1\] has the label 100000; number the classes from 0"),
        ([(GREY[0], 2**70)], r"has the label 1180591620717411303424; number the classes from 0 \(at most 100,000\)"),
        ([(GREY[0], torch.tensor(-(2**63)))], "number the classes from 0"),
        ([(Image.new("F", (6, 6)), 0)], r"dataset\[0\] cannot be .*mode F does not say .*; convert it to L or RGB"),
        ([(Image.new("I", (6, 6)), 0)], r"dataset\[0\] cannot be .*mode I does not say"),
    ],
)
def test_a_dataset_of_the_wrong_kind_is_refused(pairs: list[Any], complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        from_dataset(pairs, [(GREY[0], 0)])


class Endless:
    """What comes after the last is no IndexError, as where samples are computed, or indices wrap around."""

    def __init__(self, second: Any) -> None:
        self.second = second

    def __len__(self) -> int:
        return 5

    def __getitem__(self, index: int) -> tuple[np.ndarray, Any]:
        assert index < 5, "asked for more than there are"
        return COLOUR[index], self.second


def test_a_dataset_has_as_many_images_as_it_says() -> None:
    images: Any = Endless(1)
    assert np.array_equal(from_dataset(images, images).train, COLOUR[:5])
    pairs: Any = Endless("a caption")
    assert np.array_equal(from_pairs(pairs, pairs).test, COLOUR[:5])
    generated = ((image, 0) for image in COLOUR)
    assert np.array_equal(from_dataset(generated, images).train, COLOUR)


def test_a_mistake_inside_of_a_dataset_is_not_its_end() -> None:
    class Short(Endless):
        def __len__(self) -> int:
            return 7

        def __getitem__(self, index: int) -> tuple[np.ndarray, Any]:
            return COLOUR[index], [0, 1, 0, 1, 0][index]

    short: Any = Short(None)
    with pytest.raises(IndexError):
        from_dataset(short, short)


def of_palette(numbers: np.ndarray, palette: np.ndarray) -> Image.Image:
    image = Image.fromarray(numbers)
    image.putpalette(palette.tobytes())
    return image


def on_white(picture: np.ndarray) -> np.ndarray:
    """(c, h, w) as it looks through ALPHA on white paper."""
    share = GREY[1] / 255
    return np.rint(picture * share + 255 * (1 - share)).astype(np.uint8)


INK, PALETTE = COLOUR[0].transpose(1, 2, 0), RANDOM.integers(0, 256, (256, 3), dtype=np.uint8)
ALPHA = Image.fromarray(GREY[1])
MODES = {  # a picture, and what it shows
    "L": (Image.fromarray(GREY[0]), GREY[:1]),
    "LA": (Image.merge("LA", [Image.fromarray(GREY[0]), ALPHA]), on_white(GREY[:1])),
    "1": (Image.fromarray(GREY[0] > 127), np.where(GREY[:1] > 127, 255, 0)),
    "I;16": (Image.fromarray(GREY[0] * np.uint16(256) + GREY[2]), GREY[:1]),
    "P": (of_palette(GREY[0], PALETTE), PALETTE[GREY[0]].transpose(2, 0, 1)),
    "RGB": (Image.fromarray(INK), COLOUR[0]),
    "RGBA": (Image.merge("RGBA", [*Image.fromarray(INK).split(), ALPHA]), on_white(COLOUR[0])),
    "CMYK": (Image.merge("CMYK", [*Image.fromarray(255 - INK).split(), Image.new("L", (6, 6))]), COLOUR[0]),
}


@pytest.mark.parametrize("mode", MODES)
def test_a_picture_is_what_it_shows_in_memory_and_on_disk(mode: str, tmp_path: Path) -> None:
    picture, expected = MODES[mode]
    assert picture.mode == mode
    assert np.array_equal(to_pixels(picture, "it"), expected)
    picture.save(tmp_path / "it.tiff")
    assert np.array_equal(read_image(tmp_path / "it.tiff", 6, channels=len(expected)), expected)


def test_a_picture_lies_as_its_camera_was_held(tmp_path: Path) -> None:
    picture, exif = Image.fromarray(INK), Image.Exif()
    exif[0x0112] = 6  # to be turned to the right by a quarter
    picture.save(tmp_path / "it.png", exif=exif)
    assert np.array_equal(read_image(tmp_path / "it.png", 6), np.rot90(COLOUR[0], -1, (1, 2)))


def test_pictures_that_are_none_or_cannot_be_read_are_passed_over(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tell_once.cache_clear()
    Image.fromarray(INK).save(tmp_path / "it.png")
    (tmp_path / "._it.png").write_bytes(b"what macOS keeps beside it")
    for name in ("a.HEIC", "b.avif"):
        (tmp_path / name).write_bytes(b"of a telephone")
    assert find_pictures(tmp_path) == [tmp_path / "it.png"]
    assert f"2 pictures in {tmp_path} are of a kind that is not read, a.HEIC first" in capsys.readouterr().err


def test_a_picture_file_that_does_not_say_what_is_white_is_refused(tmp_path: Path) -> None:
    Image.new("F", (6, 6), 0.5).save(tmp_path / "it.tiff")
    with pytest.raises(
        UserError, match=r"it\.tiff is not a readable image \(Pillow's mode F does not say which number"
    ):
        read_image(tmp_path / "it.tiff", 6)


def test_a_set_is_read_once_and_again_when_a_file_was_changed(tmp_path: Path) -> None:
    path = tmp_path / "mine.npz"
    images, labels = np.zeros((10, 8, 8, 3), np.uint8), np.arange(10) % 2
    np.savez(path, images=images, labels=labels)
    first = load_images(Data(name=str(path)))
    assert load_images(Data(name=str(path))) is first
    np.savez(path, images=images + 1, labels=labels)
    os.utime(path, ns=(0, 0))  # however coarse the clock of the file system is
    again = load_images(Data(name=str(path)))
    assert again.digest != first.digest
    assert again.train.max() == 1


def test_an_array_larger_than_memory_is_refused_before_it_is_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    np.savez(tmp_path / "mine.npz", images=GREY, labels=LABELS)
    monkeypatch.setattr(npz, "memory", lambda: 100)
    with pytest.raises(UserError, match=r"images\.npy unpacks to 848 bytes, more than this machine's memory"):
        load(tmp_path / "mine.npz")


def test_arrays_are_unpacked_whole_across_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(npz, "PIECE", 7)
    arrays = {"images": np.asfortranarray(COLOUR), "labels": LABELS, "none": np.zeros((0, 3))}
    np.savez_compressed(tmp_path / "mine.npz", **arrays)
    found = npz.read_npz(tmp_path / "mine.npz")
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name], array)
        assert found[name].dtype == array.dtype


def test_a_link_that_leads_nowhere_is_no_picture(tmp_path: Path) -> None:
    for kind in ("a", "b"):
        (tmp_path / kind).mkdir()
        for i in range(6):
            Image.fromarray(COLOUR[i].transpose(1, 2, 0)).save(tmp_path / kind / f"{i}.png")
    whole = load(tmp_path).digest
    (tmp_path / "a" / ".#lock").symlink_to("nobody@nowhere.1")
    assert load(tmp_path).digest == whole


@pytest.mark.parametrize("kind", ["PNG", "WEBP", "JPEG"])
@pytest.mark.parametrize(
    "about",
    [
        b"Exif\0\0garbage",
        # Upright by a quarter, and a width of the wrong kind, which Pillow reads and cannot write.
        b"Exif\0\0II*\0\x08\0\0\0\2\0\x12\1\3\0\1\0\0\0\6\0\0\0\x13\2\2\0\1\0\0\0x\0\0\0\0\0\0\0",
    ],
    ids=["unreadable", "unwritable"],
)
def test_what_stands_beside_a_picture_may_be_damaged(tmp_path: Path, kind: str, about: bytes) -> None:
    Image.fromarray(INK).save(tmp_path / "it", kind, exif=about)
    assert read_image(tmp_path / "it", 6).shape == (3, 6, 6)


def test_one_reading_serves_beginning_a_run_and_going_on(tmp_path: Path) -> None:
    for i in range(8):
        file = tmp_path / "set" / "ab"[i % 2] / f"{i}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(RANDOM.integers(0, 256, (6, 6, 3), dtype=np.uint8)).save(file)
    settings = Data(name=str(tmp_path / "set"), image_size=6)
    assert load_images(settings, complete=False) is load_images(settings) is load_images(settings, complete=False)
