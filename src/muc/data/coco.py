"""A folder of pictures with a captions file in COCO's format."""

import json
import re
from collections import defaultdict
from pathlib import Path, PurePosixPath
from typing import Any

from muc.data.files import ImageFiles
from muc.data.pairs import PAIR_SUFFIXES, Pairs, clean_captions
from muc.errors import UserError

HELD_OUT = re.compile(r"[^a-z](val|test)")  # in the name of a captions file that is of the test part


def find_captions(folder: Path) -> tuple[Path, Path | None] | None:
    """FOLDER/captions*.json or FOLDER/annotations/captions*.json: of the training part and, if it has one, the test
    part, whose file has 'val' or 'test' in its name. None: the folder is of another kind."""
    found = sorted([*folder.glob("captions*.json"), *folder.glob("annotations/captions*.json")])
    test = [path for path in found if HELD_OUT.search(path.name)]
    train = [path for path in found if path not in test]
    if not found:
        return None
    if len(train) != 1 or len(test) > 1:
        raise UserError(
            f"{folder} holds the captions files {', '.join(path.name for path in found)}; expected one to train on and "
            "at most one with 'val' or 'test' in its name; move the others away"
        )
    return train[0], test[0] if test else None


def read_coco(folder: Path, captions_file: Path, side: int) -> Pairs:
    """{"images": [{"id", "file_name"}], "annotations": [{"image_id", "caption"}]}; a pair's key is its file's stem.

    The pictures of captions_train2017.json are in FOLDER/train2017, else in FOLDER/images, else in FOLDER.
    """
    names, texts = _read(captions_file)
    part = captions_file.stem.removeprefix("captions").lstrip("_-")
    places = (folder / part, folder / "images") if part else (folder / "images",)
    root = next((place for place in places if place.is_dir()), folder)
    broken = {f"{captions_file}:{i}": "has captions but no image" for i in texts if i not in names}
    sound: dict[str, tuple[str, list[str]]] = {}
    for number, name in names.items():
        path = PurePosixPath(name)
        if path.stem in sound:
            raise UserError(f"{captions_file} has two images {path.stem!r}; give every pair its own file name")
        try:
            if path.is_absolute() or ".." in path.parts:
                raise ValueError(f"is not inside of {root}")
            if path.suffix.lower().removeprefix(".") not in PAIR_SUFFIXES:
                raise ValueError(f"is no image ({', '.join(PAIR_SUFFIXES)})")
            sound[path.stem] = (name, clean_captions(texts.get(number, [])))
        except ValueError as error:
            broken[f"{captions_file}:{name}"] = str(error)
    keys = sorted(sound)
    return Pairs(ImageFiles(root, [sound[key][0] for key in keys], side), keys, [sound[key][1] for key in keys], broken)


def _read(path: Path) -> tuple[dict[Any, str], dict[Any, list[Any]]]:
    """Images' ids -> file names, and -> captions."""
    try:
        values = json.loads(path.read_bytes())
        names, texts = {}, defaultdict(list)
        for image in values["images"]:
            if image["id"] in names or not isinstance(image["file_name"], str):
                raise ValueError(f"image {image['id']!r} comes twice, or its file_name is no text")
            names[image["id"]] = image["file_name"]
        for note in values["annotations"]:
            texts[note["image_id"]].append(note["caption"])
    except (OSError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise UserError(
            f"{path} is not a captions file in COCO's format ({type(error).__name__}: {error}); expected "
            '{"images": [{"id", "file_name"}], "annotations": [{"image_id", "caption"}]}'
        ) from None
    return names, texts
