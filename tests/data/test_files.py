"""Picture files as an array: what comes back is what decoding everything would have given; what is broken is named."""

import os
import shutil
import signal
import warnings
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from muc.config import Data, Request
from muc.data import ImageSet, apply_request, load_images, make_split, sources
from muc.data.files import ImageFiles, select
from muc.errors import UserError

N = 14


def paint(folder: Path, n: int = N, classes: int = 2) -> Path:
    """Noise in files of several sizes and kinds."""
    source = np.random.default_rng(0)
    for i in range(n):
        path = folder / f"class{i % classes}" / f"{i:02}.{'png' if i % 3 else 'jpg'}"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(source.integers(0, 256, (9 + i % 4, 12, 3), dtype=np.uint8)).save(path)
    return folder


def load(folder: Path, stream: Any, **settings: Any) -> ImageSet:
    return load_images(Data(name=str(folder), stream=stream, **{"image_size": 8, **settings}))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return paint(tmp_path_factory.mktemp("pictures"))


@pytest.fixture(scope="module")
def kinds(folder: Path) -> tuple[ImageFiles, np.ndarray]:
    """The training images as files and as an array."""
    files = load(folder, "on").train
    assert isinstance(files, ImageFiles)
    array = load(folder, "off").train
    assert isinstance(array, np.ndarray)
    return files, array


def test_files_have_the_form_of_the_array(kinds: tuple[ImageFiles, np.ndarray]) -> None:
    files, array = kinds
    for name in ("ndim", "shape", "dtype", "size", "nbytes"):
        assert getattr(files, name) == getattr(array, name), name
    assert len(files) == len(array)


ROWS = st.one_of(
    st.lists(st.integers(-11, 10), max_size=30).map(lambda rows: np.array(rows, dtype=np.int64)),
    st.lists(st.booleans(), min_size=11, max_size=11).map(np.array),
    st.slices(11),
    st.integers(-11, 10),
)


@given(rows=ROWS)
def test_any_rows_are_what_indexing_the_array_gives(kinds: tuple[ImageFiles, np.ndarray], rows: Any) -> None:
    files, array = kinds
    assert len(array) == 11
    found = files[rows]
    assert found.dtype == np.uint8
    assert np.array_equal(found, array[rows])
    if not isinstance(rows, int):
        selected = select(files, np.arange(11)[rows])
        assert isinstance(selected, ImageFiles)
        assert np.array_equal(selected[:], array[rows])


def test_a_row_that_is_not_there_is_an_error(kinds: tuple[ImageFiles, np.ndarray]) -> None:
    for rows in (11, np.array([0, 11])):
        with pytest.raises(IndexError):
            kinds[0][rows]


@pytest.mark.parametrize("own_test", [False, True])
def test_a_streamed_folder_has_the_same_labels_names_and_parts(tmp_path: Path, own_test: bool) -> None:
    if own_test:
        paint(tmp_path / "train")
        paint(tmp_path / "test", 6)
    else:
        paint(tmp_path)
    files, array = load(tmp_path, "on"), load(tmp_path, "off")
    for part in ("train", "test"):
        assert isinstance(getattr(files, part), ImageFiles)
        assert np.array_equal(getattr(files, part)[:], getattr(array, part))
        assert np.array_equal(getattr(files, f"{part}_labels"), getattr(array, f"{part}_labels"))
        assert list(getattr(files, f"{part}_names")) == list(getattr(array, f"{part}_names"))
    assert list(files.class_names) == list(array.class_names)


def test_requests_work_on_files_by_index_name_and_class(folder: Path, tmp_path: Path) -> None:
    files, array = load(folder, "on"), load(folder, "off")
    (tmp_path / "request").write_text(f"{files.train_names[0]}\n{files.train_names[5]}\n")
    for request in (
        Request(forget_fraction=0.3),
        Request(forget=tmp_path / "request"),
        Request(forget_class="class1"),
    ):
        splits = [
            apply_request(make_split(images, Data(validation_fraction=0), 3), request, images)
            for images in (files, array)
        ]
        assert np.array_equal(splits[0].unlearn, splits[1].unlearn)
        assert np.array_equal(splits[0].retain, splits[1].retain)


@pytest.mark.parametrize(("memory", "streamed"), [(2 * N * 3 * 64 - 1, True), (2 * N * 3 * 64, False)])
def test_auto_streams_what_would_take_more_than_half_of_the_memory(
    folder: Path, monkeypatch: pytest.MonkeyPatch, memory: int, streamed: bool
) -> None:
    monkeypatch.setattr(sources, "memory", lambda: memory)
    images = load(folder, "auto")
    assert isinstance(images.train, ImageFiles) == isinstance(images.test, ImageFiles) == streamed


def test_this_machine_has_memory() -> None:
    assert 2**26 < sources.memory() < 2**50


def test_only_folders_are_streamed(tmp_path: Path) -> None:
    np.savez(tmp_path / "mine.npz", images=np.zeros((8, 4, 4), np.uint8), labels=np.zeros(8, int))
    for name in ("digits", str(tmp_path / "mine.npz")):
        with pytest.raises(UserError, match=f"stream is 'on', .*'{name}' is none; give --stream auto"):
            load_images(Data(name=name, stream="on"))
    with pytest.raises(UserError, match="did you mean 'auto'"):
        Data(stream="auti")  # type: ignore[arg-type]


# --- digests ---


def test_the_digest_of_an_array_is_that_of_its_pixels(folder: Path) -> None:
    images = load(folder, "off")
    state = sha256()
    for array in (images.train, images.train_labels, images.test, images.test_labels):
        state.update(f"{array.shape} {array.dtype}".encode() + np.ascontiguousarray(array).tobytes())
    assert images.digest == state.hexdigest()


def test_the_digest_of_files_does_not_depend_on_where_they_are(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "copy")
    assert load(folder, "on").digest == load(tmp_path / "copy", "on").digest
    assert load(folder, "on").digest != load(folder, "off").digest


def flip_a_byte(folder: Path) -> None:
    path = folder / "class1" / "07.png"
    content = bytearray(path.read_bytes())
    content[-20] ^= 1
    path.write_bytes(content)


def rename(folder: Path) -> None:
    (folder / "class1" / "07.png").rename(folder / "class1" / "071.png")


def swap(folder: Path) -> None:
    one, other = folder / "class1" / "07.png", folder / "class1" / "11.png"
    contents = one.read_bytes(), other.read_bytes()
    one.write_bytes(contents[1])
    other.write_bytes(contents[0])


def relabel(folder: Path) -> None:
    (folder / "class1").rename(folder / "class0a")
    (folder / "class0").rename(folder / "class1")


@pytest.mark.parametrize("change", [flip_a_byte, rename, swap, relabel])
def test_the_digest_of_files_sees_bytes_names_and_labels(tmp_path: Path, change: Any) -> None:
    before = load(paint(tmp_path), "on").digest
    change(tmp_path)
    assert load(tmp_path, "on").digest != before


def test_the_digest_of_files_sees_to_what_size_they_are_brought(folder: Path) -> None:
    assert load(folder, "on").digest != load(folder, "on", image_size=9).digest


def test_many_files_are_hashed_a_part_at_a_time(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = load(folder, "on").digest
    monkeypatch.setattr("muc.data.files.HASHED_AT_ONCE", 3)
    assert load(folder, "on").digest == whole


def test_a_file_that_is_gone_is_named_by_digest_and_pixels(tmp_path: Path) -> None:
    images = load(paint(tmp_path), "on")
    gone = tmp_path / images.train_names[4]
    gone.unlink()
    with pytest.raises(UserError, match=f"{gone} cannot be read"):
        _ = images.digest
    with pytest.raises(UserError, match=f"{gone} is not a readable image"):
        images.train[:]


# --- what is wrong ---


def test_nothing_is_decoded_before_it_is_asked_for_and_a_broken_file_is_named_then(tmp_path: Path) -> None:
    paint(tmp_path)
    for name in load(tmp_path, "on").train_names[3:6:2]:
        (tmp_path / name).write_bytes(b"no picture")
    images = load(tmp_path, "on")
    sound = np.array([0, 1, 2, 4, 7])
    assert images.train[sound].shape == (5, 3, 8, 8)
    for rows, culprit in ((slice(None), 3), (np.array([0, 5, 3]), 5), (3, 3)):
        with pytest.raises(UserError, match=f"{images.train_names[culprit]} is not a readable image .*; repair or"):
            images.train[rows]


def test_a_forked_process_reads_with_threads_of_its_own(kinds: tuple[ImageFiles, np.ndarray]) -> None:
    files, array = kinds
    files[:]  # the parent has its threads, which the child will not have
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons warn of just that
        child = os.fork()
    if child == 0:
        signal.alarm(60)  # rather than waiting for ever
        os._exit(0 if np.array_equal(files[:], array) else 1)
    assert os.waitpid(child, 0)[1] == 0
