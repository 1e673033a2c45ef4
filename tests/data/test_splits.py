"""Who is trained on and who is forgotten: reproducible, disjoint, and honest about bad requests."""

import unicodedata
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muc.config import Data, Request
from muc.data import ImageSet, apply_request, forget_indices, make_split
from muc.errors import UserError
from muc.split import Split
from muc.storage import tell_once

N = 100


def image_set(n: int = N, names: bool = False) -> ImageSet:
    pixels = np.random.default_rng(0).integers(256, size=(n, 1, 4, 4), dtype=np.uint8)
    test = np.zeros((5, 1, 4, 4), dtype=np.uint8)
    file_names = [f"pet{i}.png" for i in range(n)] if names else []
    return ImageSet(
        "pets", pixels, np.arange(n) % 4, test, np.zeros(5, dtype=np.int64), ["cat", "dog", "7", "owl"], file_names
    )


IMAGES = image_set()
SPLIT = make_split(IMAGES, Data(), seed=0)


def asked(tmp_path: Path, *lines: object) -> Request:
    (tmp_path / "request.txt").write_text("\n".join(str(line) for line in lines))
    return Request(forget=tmp_path / "request.txt")


def forgotten(request: Request, images: ImageSet = IMAGES, split: Split = SPLIT) -> list[int]:
    after = apply_request(split, request, images)
    assert np.array_equal(np.sort(after.train), np.sort(split.retain)), "trained on = retained + forgotten"
    assert not set(after.retain) & set(after.unlearn)
    assert not set(after.validation) - set(split.validation)
    return after.unlearn.tolist()


def test_a_seed_always_gives_the_same_split_and_another_seed_another() -> None:
    again, other = make_split(IMAGES, Data(), seed=0), make_split(IMAGES, Data(), seed=1)
    assert np.array_equal(SPLIT.retain, again.retain)
    assert np.array_equal(SPLIT.validation, again.validation)
    assert not np.array_equal(SPLIT.retain, other.retain)


@given(
    n=st.integers(16, 60),
    validation=st.floats(0, 0.5),
    limit=st.none() | st.integers(8, 80),
    fraction=st.floats(0.3, 0.6),
    seed=st.integers(0, 2**32),
)
def test_validation_images_are_never_trained_on(
    n: int, validation: float, limit: int | None, fraction: float, seed: int
) -> None:
    images = image_set(n)
    split = make_split(images, Data(validation_fraction=validation, train_limit=limit), seed)
    assert len(split.validation) == round(validation * n)
    assert len(split.retain) == min(n - len(split.validation), limit or n)
    after = apply_request(split, Request(forget_fraction=fraction), images)
    everything = np.concatenate([after.validation, after.retain, after.unlearn])
    assert len(np.unique(everything)) == len(everything)
    assert np.array_equal(np.sort(np.concatenate([split.validation, split.retain])), np.sort(everything))


def test_the_permutation_says_who_is_validation_then_unlearn_then_retain() -> None:
    order = np.random.default_rng(0).permutation(N)
    after = apply_request(SPLIT, Request(forget_fraction=0.2), IMAGES)
    assert np.array_equal(after.validation, order[:10])
    assert np.array_equal(after.unlearn, order[10:28])
    assert np.array_equal(after.retain, order[28:])


@pytest.mark.parametrize(("fraction", "count"), [(0.02, 2), (0.1, 9), (0.5, 45), (0.95, 86)])
def test_a_fraction_is_of_the_trained_images(fraction: float, count: int) -> None:
    assert len(forgotten(Request(forget_fraction=fraction))) == count


def test_a_file_of_indices_names_exactly_those(tmp_path: Path) -> None:
    a, b, c = SPLIT.retain[[3, 50, 7]]
    assert forgotten(asked(tmp_path, a, "", f"  {b} ", c, "")) == [a, b, c]


def test_a_file_of_names_names_exactly_those(tmp_path: Path) -> None:
    a, b = SPLIT.retain[:2]
    assert forgotten(asked(tmp_path, f"pet{b}.png", f"pet{a}.png"), image_set(names=True)) == [b, a]


def test_names_may_be_as_find_prints_them(tmp_path: Path) -> None:
    a = SPLIT.retain[0]
    assert forgotten(asked(tmp_path, f"./pet{a}.png"), image_set(names=True)) == [a]


def test_names_and_indices_may_be_mixed(tmp_path: Path) -> None:
    a, b = SPLIT.retain[:2]
    assert forgotten(asked(tmp_path, f"pet{b}.png", a), image_set(names=True)) == [b, a]


def test_names_that_look_the_same_are_the_same(tmp_path: Path) -> None:
    """An editor's mark before the first line, and letters in the two parts that some systems make of them."""
    a, b = SPLIT.retain[:2]
    names = [f"pét{i}.png" for i in range(N)]
    images = replace(image_set(), train_names=names)
    (tmp_path / "request.txt").write_bytes(
        "\N{BOM}".encode() + unicodedata.normalize("NFD", f"{names[b]}\n{names[a]}\n").encode()
    )
    assert forgotten(Request(forget=tmp_path / "request.txt"), images) == [b, a]
    apart = replace(images, train_names=[unicodedata.normalize("NFD", name) for name in names])
    assert forgotten(asked(tmp_path, names[a], apart.train_names[b]), apart) == [a, b]


def test_one_image_can_be_asked_for(tmp_path: Path) -> None:
    assert forgotten(asked(tmp_path, SPLIT.retain[3])) == [SPLIT.retain[3]]


@pytest.mark.parametrize(("name", "label"), [("dog", 1), ("1", 1), ("owl", 3), ("7", 2)])
def test_a_class_by_name_or_number(name: str, label: int) -> None:
    rows = forgotten(Request(forget_class=name))
    assert sorted(rows) == sorted(i for i in SPLIT.retain if i % 4 == label)
    left = apply_request(SPLIT, Request(forget_class=name), IMAGES).validation
    assert left.tolist() == [i for i in SPLIT.validation if i % 4 != label]


def test_what_was_held_out_is_not_forgotten_but_leaves(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (a, b), (held, *others) = SPLIT.retain[:2], SPLIT.validation
    tell_once.cache_clear()
    served = apply_request(SPLIT, asked(tmp_path, a, held, b), IMAGES)
    assert (served.unlearn.tolist(), served.validation.tolist()) == ([a, b], others)
    assert held not in served.all
    assert "1 image asked for was held out for validation and never trained on" in capsys.readouterr().err
    with pytest.raises(UserError, match=f"image {held} is not among the 88 images this model was trained on"):
        apply_request(served, asked(tmp_path, held), IMAGES)


def test_a_second_request_leaves_the_first_forgotten() -> None:
    once = apply_request(SPLIT, Request(forget_fraction=0.2), IMAGES)
    twice = apply_request(once, Request(forget_fraction=0.5), IMAGES)
    assert np.array_equal(np.sort(twice.train), np.sort(once.retain))
    assert not set(once.unlearn) & set(twice.train)
    more = f"was forgotten before, and {len(once.unlearn) - 1} more like it; leave them out"
    with pytest.raises(UserError, match=f"image {once.unlearn.min()} {more}"):
        forget_indices(once, once.unlearn)


@pytest.mark.parametrize("forget", [[1.5, 3.0], ["1", "3"], [True, False, True]], ids=str)
def test_indices_are_whole_numbers(forget: list) -> None:
    with pytest.raises(UserError, match=r"names (1\.5|1|True); give whole numbers"):
        forget_indices(SPLIT, forget)


@pytest.mark.parametrize(
    ("request_", "complaint"),
    [
        (Request(), "exactly one of --forget-fraction, --forget and --forget-class"),
        (Request(forget_fraction=0.1, forget_class="cat"), "exactly one of"),
        (Request(forget_fraction=0.0), "forget-fraction is 0, which is none of 90 images; give more"),
        (Request(forget_fraction=0.001), "forget-fraction is 0.001, which is none of 90 images"),
        (Request(forget_fraction=0.96), "forget-fraction is 0.96; give a number from 0 to 0.95"),
        (Request(forget_fraction=-0.1), "forget-fraction is -0.1"),
        (Request(forget_fraction=float("nan")), "forget-fraction is nan"),
        (Request(forget_class="cats"), "unknown class 'cats'; did you mean 'cat'"),
        (Request(forget_class="4"), "unknown class '4'"),
        (Request(forget_class="-1"), "unknown class '-1'"),
        (Request(forget_class="²"), "unknown class '²'"),
    ],
)
def test_a_bad_request_is_one_sentence(request_: Request, complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        apply_request(SPLIT, request_, IMAGES)


@pytest.mark.parametrize(
    ("lines", "complaint"),
    [
        ([], "is empty; list one index or name a line"),
        (["", "  "], "is empty"),
        ([N, 1], f"names image {N}, but pets has images 0 to {N - 1}"),
        ([10**17, 1], "but pets has images 0 to"),
        (["9" * 5000, 1], "is not an index"),
        ([-1, 1], "'-1' in .* is not an index"),
        (["1.5", 1], "'1.5' in .* is not an index"),
        (["²", 1], "'²' in .* is not an index"),
        (["pet1.png"], "pets has no file names, so list whole numbers"),
        ([*SPLIT.retain[:3], SPLIT.retain[0]], f"names image {SPLIT.retain[0]} more than once"),
        (SPLIT.validation[:3], "names 3 images that were held out for validation and none that was trained on; there"),
        (SPLIT.retain.tolist(), "leaves 0 images to retain; at least 2 must stay"),
        (SPLIT.retain[1:].tolist(), "leaves 1 images to retain"),
    ],
)
def test_a_bad_request_file_is_one_sentence(tmp_path: Path, lines: list[object], complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        apply_request(SPLIT, asked(tmp_path, *lines), IMAGES)


def test_an_unknown_file_name_gets_the_nearest_valid_one(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"unknown image in .*'pet44\.pgn'; did you mean 'pet44\.png'"):
        apply_request(SPLIT, asked(tmp_path, "pet44.pgn"), image_set(names=True))


ALBUM = replace(
    image_set(6),
    name="album",
    train_names=["a/1.png", "a/2.png", "b/1.png", "b/holiday.png", "b/3.png", "b/4.png"],
    test_names=["a/1.png", "a/9.png", "b/8.png", "b/7.png", "b/6.png"],
)
ALL = make_split(ALBUM, Data(validation_fraction=0), 0)


@pytest.mark.parametrize("above", ["", "train/", "album/", "album/train/", "/home/me/album/", "/home/me/album/train/"])
def test_names_may_begin_with_the_folder_of_the_data(tmp_path: Path, above: str) -> None:
    assert forgotten(asked(tmp_path, f"{above}a/1.png", f"{above}b/holiday.png"), ALBUM, ALL) == [0, 3]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("test/a/1.png", "names 'test/a/1.png', which is a test image"),
        ("album/val/a/1.png", "names 'album/val/a/1.png', which is a test image"),
        ("/mnt/album/test/a/9.png", "which is a test image"),
        ("a/9.png", "which is a test image"),
        ("other/a/1.png", "unknown image in .*'other/a/1.png'; names are such as 'a/1.png' \\(6 in all\\)"),
        ("/mnt/else/a/1.png", "unknown image in .*; names are such as"),
        ("1.png", "'1.png' in .* is one of 2 images, 'a/1.png' among them; give whole names"),
        ("holiday.png", "did you mean 'b/holiday.png'"),
        ("b/holidays.png", "did you mean 'b/holiday.png'"),
        ("c/1.png", "unknown image in .*'c/1.png'; names are such as"),
    ],
)
def test_no_other_image_is_offered_for_an_unknown_one(tmp_path: Path, line: str, words: str) -> None:
    with pytest.raises(UserError, match=words):
        apply_request(ALL, asked(tmp_path, line), ALBUM)


def test_what_was_not_trained_on_is_called_by_its_name(tmp_path: Path) -> None:
    split = replace(ALL, retain=np.array([0, 1, 2, 5]))
    with pytest.raises(UserError, match=r"image 3 \('b/holiday\.png'\) is not among the 4 images .*; leave it out"):
        apply_request(split, asked(tmp_path, "a/1.png", "b/holiday.png"), ALBUM)


def test_copies_that_stay_are_told_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pixels = ALBUM.train.copy()
    pixels[[2, 5]] = pixels[0]
    album = replace(ALBUM, train=pixels)
    tell_once.cache_clear()
    for _ in range(2):
        apply_request(ALL, asked(tmp_path, "a/1.png", "b/4.png"), album)
    said = "1 image that stays has the same content as one to forget: 2 ('b/1.png'); ask for it too"
    assert said in capsys.readouterr().err
    apply_request(ALL, asked(tmp_path, "a/1.png", "b/4.png"), album)
    assert not capsys.readouterr().err
    apply_request(ALL, asked(tmp_path, "a/1.png"), album)
    assert "2 images that stay have the same content as one to forget" in capsys.readouterr().err
    apply_request(ALL, asked(tmp_path, "a/1.png", "b/1.png", "b/4.png"), album)
    apply_request(ALL, Request(forget_fraction=0.2), album)  # chance asks for no image in particular
    assert not capsys.readouterr().err


def test_an_unknown_file_name_among_thousands_does_not_list_them_all(tmp_path: Path) -> None:
    with pytest.raises(UserError) as error:
        apply_request(SPLIT, asked(tmp_path, "holiday.jpg"), image_set(5000, names=True))
    assert len(str(error.value)) < 1000


@pytest.mark.parametrize("kind", ["missing", "folder", "binary"])
def test_a_request_that_cannot_be_read_is_named(tmp_path: Path, kind: str) -> None:
    path = tmp_path / kind
    if kind == "folder":
        path.mkdir()
    elif kind == "binary":
        path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UserError, match=f"cannot read the request {path}"):
        apply_request(SPLIT, Request(forget=path), IMAGES)


@pytest.mark.parametrize("settings", [Data(validation_fraction=0.9), Data(validation_fraction=0.5)])
def test_data_that_leaves_too_little_to_train_on_is_refused(settings: Data) -> None:
    with pytest.raises(UserError, match=r"pets leaves \d images to train on; at least 4 are needed"):
        make_split(image_set(6), settings, 0)


def test_the_smallest_data_and_request_there_can_be() -> None:
    split = make_split(image_set(4), Data(validation_fraction=0), 0)
    after = apply_request(split, Request(forget_fraction=0.5), image_set(4))
    assert (len(after.unlearn), len(after.retain)) == (2, 2)


def test_names_that_look_the_same_are_counted_once(tmp_path: Path) -> None:
    album = replace(ALBUM, train_names=[f"e\u0301{i}.png" for i in range(6)])
    with pytest.raises(UserError, match=r"\(6 in all\)"):
        apply_request(ALL, asked(tmp_path, "zzz"), album)


def test_images_are_compared_with_those_to_forget_without_reading_them_again(tmp_path: Path) -> None:
    apply_request(ALL, asked(tmp_path, "a/1.png"), ALBUM)
    first = ALBUM.train_contents
    apply_request(ALL, asked(tmp_path, "b/4.png"), ALBUM)
    assert ALBUM.train_contents is first
