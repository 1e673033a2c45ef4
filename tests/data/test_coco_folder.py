"""A folder with captions in COCO's format: found where COCO puts them, keyed by file name; what is wrong is named."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from muc.config import Data, Request
from muc.data import ImageSet, apply_request, load_images, make_split
from muc.data.files import ImageFiles
from muc.errors import UserError
from muc.pictures.decode import read_image

N = 12


def names(n: int = N) -> list[str]:
    return [f"{i * 37:012}.{'png' if i % 3 else 'jpg'}" for i in range(n)]


def paint(folder: Path, files: list[str]) -> None:
    random = np.random.default_rng(len(files))
    for name in files:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(random.integers(0, 256, (9, 11, 3), dtype=np.uint8)).save(folder / name)


def annotate(path: Path, files: list[str]) -> dict[str, Any]:
    """Image i has 1 to 3 captions; images and annotations in an order that says nothing."""
    images = [{"id": 900 - i, "file_name": name, "width": 11} for i, name in enumerate(files)]
    notes = [
        {"image_id": 900 - i, "caption": f"{i}{c} "} for c in "abc" for i in range(len(files)) if "abc"[i % 3] >= c
    ]
    values = {"info": {}, "images": images[::-1], "annotations": notes, "licenses": []}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(values))
    return values


def load(path: Path, stream: Any = "off") -> ImageSet:
    return load_images(Data(name=str(path), stream=stream, image_size=8))


PLACES = {
    "captions.json": "images",
    "captions_train2017.json": "train2017",
    "annotations/captions_train2017.json": "train2017",
    "annotations/captions.json": ".",
    "captions_all.json": ".",
}


@pytest.mark.parametrize("stream", ["on", "off"])
@pytest.mark.parametrize("captions", PLACES)
def test_pairs_are_found_where_coco_puts_them(tmp_path: Path, captions: str, stream: str) -> None:
    paint(tmp_path / PLACES[captions], names())
    annotate(tmp_path / captions, names())
    images = load(tmp_path, stream)
    assert isinstance(images.train, ImageFiles) == (stream == "on")
    assert (len(images.train), len(images.test), list(images.class_names)) == (10, 2, ["all"])
    found = dict(zip(images.train_names, zip(images.train[:], images.train_captions, strict=True), strict=True))
    found |= dict(zip(images.test_names, zip(images.test[:], images.test_captions, strict=True), strict=True))
    for i, name in enumerate(names()):
        pixels, texts = found[Path(name).stem]
        assert np.array_equal(pixels, read_image(tmp_path / PLACES[captions] / name, 8))
        assert texts == [f"{i}{c}" for c in "abc"[: 1 + i % 3]]


def test_val_is_the_test_part(tmp_path: Path) -> None:
    for part, n in (("train2017", N), ("val2017", 5)):
        paint(tmp_path / part, names(n))
        annotate(tmp_path / "annotations" / f"captions_{part}.json", names(n))
    images = load(tmp_path)
    assert (len(images.train), len(images.test)) == (N, 5)
    assert not np.array_equal(images.train[0], images.test[0])
    annotate(tmp_path / "captions_test2017.json", names(5))
    with pytest.raises(UserError, match=r"captions_test2017\.json.* at most one with 'val' or 'test'"):
        load(tmp_path)


def test_retrieval_is_no_validation(tmp_path: Path) -> None:
    paint(tmp_path, names())
    annotate(tmp_path / "captions_retrieval.json", names())
    assert len(load(tmp_path).train) == 10


def test_requests_name_pairs_by_stem(tmp_path: Path) -> None:
    paint(tmp_path / "images", names())
    annotate(tmp_path / "captions.json", names())
    images = load(tmp_path)
    (tmp_path / "request").write_text(f"{images.train_names[4]}\n{images.train_names[1]}\n")
    split = make_split(images, Data(validation_fraction=0), 0)
    assert apply_request(split, Request(forget=tmp_path / "request"), images).unlearn.tolist() == [4, 1]


def test_the_order_in_the_file_means_nothing_and_captions_are_data(tmp_path: Path) -> None:
    paint(tmp_path / "images", names())
    values = annotate(tmp_path / "captions.json", names())
    before = load(tmp_path).digest, load(tmp_path, "on").digest
    values["images"].sort(key=lambda image: image["file_name"][-6])
    (tmp_path / "captions.json").write_text(json.dumps(values))
    assert (load(tmp_path).digest, load(tmp_path, "on").digest) == before
    values["annotations"][0]["caption"] = "another"
    (tmp_path / "captions.json").write_text(json.dumps(values))
    assert not {load(tmp_path).digest, load(tmp_path, "on").digest} & set(before)


@pytest.mark.parametrize("stream", ["on", "off"])
@pytest.mark.parametrize(
    ("kind", "complaint"),
    [
        ("missing", "cannot be read"),
        ("broken", "is not a readable image"),
        ("outside", "is not inside of"),
        ("absolute", "is not inside of"),
        ("text", "is no image"),
        ("null", "embedded null"),
        ("uncaptioned", "has no caption"),
        ("number", "has captions that are not texts"),
        ("orphan", "has captions but no image"),
    ],
)
def test_a_broken_pair_is_named_and_left_out(
    tmp_path: Path, kind: str, complaint: str, stream: str, capsys: pytest.CaptureFixture[str]
) -> None:
    files = names(120)
    root = tmp_path / "data"
    paint(root / "images", files)
    values = annotate(root / "captions.json", files)
    image = next(image for image in values["images"] if image["file_name"] == files[50])
    if kind == "missing":
        (root / "images" / files[50]).unlink()
    elif kind == "broken":
        (root / "images" / files[50]).write_bytes(b"no picture")
    elif kind in ("outside", "absolute", "text", "null"):
        paint(tmp_path, ["secret.png"])
        (root / "images" / "secret.txt").write_text("a")
        image["file_name"] = {
            "outside": "../../secret.png",
            "absolute": str(tmp_path / "secret.png"),
            "text": "secret.txt",
            "null": "a\0.png",
        }[kind]
    elif kind == "uncaptioned":
        values["annotations"] = [note for note in values["annotations"] if note["image_id"] != image["id"]]
    elif kind == "number":
        values["annotations"].append({"image_id": image["id"], "caption": 3})
    else:
        values["images"].remove(image)
    (root / "captions.json").write_text(json.dumps(values))
    images = load(root, stream)
    said = capsys.readouterr().err
    assert f"data: 1 of 120 samples are broken and left out ('{root}" in said
    assert complaint in said
    assert {*images.train_names, *images.test_names} == {Path(name).stem for name in files if name != files[50]}


def test_more_than_one_in_a_hundred_stop_the_run(tmp_path: Path) -> None:
    paint(tmp_path / "images", names(120))
    annotate(tmp_path / "captions.json", names(120))
    for name in names()[:2]:
        (tmp_path / "images" / name).unlink()
    with pytest.raises(UserError, match=r"2 of 120 samples \(1\.7%\) are broken"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{", "JSONDecodeError"),
        ("[]", "TypeError"),
        ('{"images": []}', "KeyError: 'annotations'"),
        ('{"images": [{"id": 3}], "annotations": []}', "KeyError: 'file_name'"),
        ('{"images": [{"id": [], "file_name": "a"}], "annotations": []}', "TypeError"),
        ('{"images": [{"id": 1, "file_name": 2}], "annotations": []}', "file_name is no text"),
        ('{"images": [{"id": 1, "file_name": "a"}, {"id": 1, "file_name": "b"}], "annotations": []}', "comes twice"),
        ("[" * 100_000, "RecursionError"),
    ],
)
def test_another_json_is_refused(tmp_path: Path, text: str, complaint: str) -> None:
    (tmp_path / "captions.json").write_text(text)
    with pytest.raises(UserError, match=f"captions.json is not a captions file in COCO's format .*{complaint}"):
        load(tmp_path)


def test_two_files_of_one_stem_are_refused(tmp_path: Path) -> None:
    files = [*names(), "more/000000000037.jpg"]
    paint(tmp_path / "images", files)
    annotate(tmp_path / "captions.json", files)
    with pytest.raises(UserError, match="has two images '000000000037'"):
        load(tmp_path)
