"""Who is to be forgotten: deletion requests, by share, class, index or name."""

import unicodedata
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace
from difflib import get_close_matches
from itertools import chain
from pathlib import Path, PurePosixPath

import numpy as np

from muc.config import Request, in_range
from muc.data.folders import INSTEAD_OF_TEST
from muc.data.images import ImageSet
from muc.data.loader import MIN_RETAIN
from muc.errors import UserError, check_name
from muc.processes import first_only
from muc.split import Split
from muc.storage import tell_once

SURELY = 0.8  # how much alike names are before one is offered for another: a wrong one would forget a wrong image


def apply_request(split: Split, request: Request, images: ImageSet) -> Split:
    """The split of a run that serves the request: what was trained on falls into retain and unlearn."""
    given = [v for v in (request.forget_fraction, request.forget, request.forget_class) if v is not None]
    if len(given) != 1:
        raise UserError("say what to forget with exactly one of --forget-fraction, --forget and --forget-class")
    if (share := request.forget_fraction) is not None:
        in_range("forget-fraction", share, 0, 0.95)
        if not (count := round(share * len(split.retain))):
            raise UserError(f"forget-fraction is {share:g}, which is none of {len(split.retain)} images; give more")
        return forget_indices(split, split.retain[:count])
    if request.forget is not None:
        wanted = forget_indices(split, read_request(request.forget, images), images.train_names)
    else:
        label = _class_index(str(request.forget_class), images.class_names)
        wanted = forget_indices(split, split.kept[images.train_labels[split.kept] == label])
    first_only(lambda: tell_of_held_out(len(split.validation) - len(wanted.validation)))
    first_only(lambda: tell_of_copies(wanted, images))
    return wanted


def forget_indices(split: Split, forget: Sequence[int] | np.ndarray, names: Sequence[str] = ()) -> Split:
    """Move `forget` (indices of training images) from retain to unlearn; earlier requests stay forgotten.

    Those among them that were held out for validation no model was trained on: they leave the split, so that nothing
    will need them any more.
    """
    given = np.asarray(forget)
    if len(given) and given.dtype.kind not in "iu":  # 1.5 would become 1, which nobody named
        raise UserError(f"the request names {given[0]}; give whole numbers, indices of training images")
    forget = given.astype(np.int64)
    if not len(forget):
        raise UserError("the request names no image that was trained on; name at least one")
    values, counts = np.unique(forget, return_counts=True)
    if (counts > 1).any():
        raise UserError(f"the request names image {values[counts > 1][0]} more than once; list each image once")
    if len(strangers := np.setdiff1d(forget, split.kept)):
        first = int(strangers[0])
        which = f"image {first}" + (f" ('{names[first]}')" if 0 <= first < len(names) and names[first] else "")
        why = f"is not among the {len(split.retain)} images this model was trained on"
        why = "was forgotten before" if first in split.unlearn else why
        more = f", and {len(strangers) - 1} more like it; leave them out" if len(strangers) > 1 else "; leave it out"
        raise UserError(f"{which} {why}{more}")
    unlearn, kept = forget[np.isin(forget, split.retain)], split.retain[~np.isin(split.retain, forget)]
    if not len(unlearn):
        raise UserError(
            f"the request names {len(forget)} images that were held out for validation and none that was trained on; "
            "there is nothing to forget, name at least one other"
        )
    if len(kept) < MIN_RETAIN:
        raise UserError(f"the request leaves {len(kept)} images to retain; at least {MIN_RETAIN} must stay")
    held_out = split.validation[~np.isin(split.validation, forget)]
    return replace(split, validation=held_out, retain=kept, unlearn=unlearn)


def tell_of_held_out(count: int) -> None:
    if count:
        some = "1 image asked for was" if count == 1 else f"{count:,} images asked for were"
        tell_once(f"muc: note: {some} held out for validation and never trained on; no later run will use or need them")


def tell_of_copies(wanted: Split, images: ImageSet) -> None:
    """Who asks for an image to be forgotten means what it shows, and not this file alone."""
    digests = images.train_contents
    known = {row.tobytes() for row in digests[wanted.unlearn]}
    copies = [int(i) for i in wanted.retain if digests[i].tobytes() in known]
    if copies:
        name = f" ('{images.train_names[copies[0]]}')" if len(images.train_names) else ""
        stay = "1 image that stays has" if len(copies) == 1 else f"{len(copies):,} images that stay have"
        tell_once(
            f"muc: note: {stay} the same content as one to forget: {copies[0]}{name}"
            f"{' first' if len(copies) > 1 else ''}; ask for it too if it is to be forgotten"
        )


def read_request(path: Path, images: ImageSet) -> np.ndarray:
    """Indices or names (of files, keys of pairs), one a line, as indices into the training images.

    Where names are themselves numbers, as COCO's keys are, a number is always a name.
    """
    try:
        # Editors put a mark before the first line, and other systems write é in two letters: what looks the same is.
        # File names need not be text in any encoding, nor free of what splitlines() takes for the end of a line.
        text = path.read_text("utf-8-sig", errors="surrogateescape")
    except OSError as error:
        raise UserError(
            f"cannot read the request {path} ({error.strerror}); give a text file, one image a line"
        ) from None
    if "\0" in text:
        raise UserError(f"cannot read the request {path}, which is no text; name one image a line in a text file")
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    if not lines:
        raise UserError(f"the request {path} is empty; list one index or name a line")
    erased = sum(not name for name in images.train_names)
    named = {name: i for i, name in enumerate(images.train_names) if name}  # what was erased has none
    by_name = {composed(name): i for name, i in named.items()} | named
    test = {*images.test_names, *map(composed, images.test_names)}
    numbered = any(name.isdecimal() for name in chain(by_name, test))
    indices = []
    for written in lines:
        line = written if written in by_name else composed(written).removeprefix("./")
        part, name = within(line, images.name)
        if line in by_name:
            indices.append(by_name[line])
        elif part == "train" and name in by_name:
            indices.append(by_name[name])
        elif (line in test and not erased) or (part == "test" and name in test):
            raise UserError(f"{path} names '{line}', which is a test image: no model was trained on it; leave it out")
        elif line.isdecimal() and len(line) < 19 and not numbered:
            indices.append(int(line))
        elif by_name:
            raise unknown_image(line, path, list(dict.fromkeys(map(composed, named))), erased)
        else:
            raise UserError(
                f"'{line}' in {path} is not an index; {images.name} has no file names, so list whole numbers"
            )
        if indices[-1] >= len(images.train):
            raise UserError(
                f"{path} names image {indices[-1]}, but {images.name} has images 0 to {len(images.train) - 1}"
            )
    return np.array(indices, dtype=np.int64)


def within(line: str, folder: str) -> tuple[str, str]:
    """A path that begins above the names, with the data's folder or a part of it -> ("train" or "test", the name).

    ("", "") for any other: of what only looks like it, an equal name can be another image.
    """
    parts = PurePosixPath(line).parts
    for i, part in enumerate(parts[:-1]):
        if part == folder and parts[i + 1] not in ("train", "test", *INSTEAD_OF_TEST):
            return "train", "/".join(parts[i + 1 :])
        if part in ("train", "test", *INSTEAD_OF_TEST) and (i == 0 or parts[i - 1] == folder):
            return "train" if part == "train" else "test", "/".join(parts[i + 1 :])
    return "", ""


def unknown_image(line: str, path: Path, names: Collection[str], erased: int = 0) -> UserError:
    known = f"names are such as '{next(iter(names))}' ({len(names):,} in all)"
    if erased:  # it may be one of these, and another's name is no help
        gone = f"{erased} images that this run has forgotten were erased and have no names any more"
        return UserError(f"unknown image in {path}: '{line}'; {gone}: leave it out if it is one of them; {known}")
    same = [name for name in names if name.endswith(f"/{line}")]
    if len(same) > 1:
        return UserError(f"'{line}' in {path} is one of {len(same)} images, '{same[0]}' among them; give whole names")
    close = same or get_close_matches(line, names, n=1, cutoff=SURELY)
    # An equal file name in another folder is another picture.
    hint = f"did you mean '{close[0]}'? " if close and is_unique(close[0], line, names) else ""
    return UserError(f"unknown image in {path}: '{line}'; {hint}{known}")


def is_unique(name: str, line: str, names: Collection[str]) -> bool:
    files = Counter(PurePosixPath(known).name for known in names)
    return PurePosixPath(name).name != PurePosixPath(line).name or files[PurePosixPath(name).name] == 1


def composed(name: str) -> str:
    return unicodedata.normalize("NFC", name)


def _class_index(name: str, class_names: Sequence[str]) -> int:
    if name in class_names:
        return list(class_names).index(name)
    if name.isdecimal() and int(name) < len(class_names):
        return int(name)
    check_name("class", name, class_names)
    raise AssertionError("unreachable: a valid name was found above")
