"""Who is trained on and who is to be forgotten: splits from a seed, and deletion requests."""

import unicodedata
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path

import numpy as np

from muc.config import Data, Request, in_range
from muc.data.images import ImageSet
from muc.data.loader import MIN_RETAIN
from muc.errors import UserError, check_name
from muc.run_folder import Split


def make_split(images: ImageSet, data: Data, seed: int) -> Split:
    """A permutation seeded by the trial's seed: validation first, the rest is trained on, in that order."""
    order = np.random.default_rng(seed).permutation(len(images.train))
    n_validation = round(data.validation_fraction * len(order))
    train = order[n_validation:]
    if data.train_limit is not None:
        train = train[: data.train_limit]
    if len(train) < 2 + MIN_RETAIN:
        raise UserError(f"{images.name} leaves {len(train)} images to train on; at least {2 + MIN_RETAIN} are needed")
    return Split(seed=seed, validation=order[:n_validation], retain=train, unlearn=order[:0])


def apply_request(split: Split, request: Request, images: ImageSet) -> Split:
    """The split of a run that serves the request: what was trained on falls into retain and unlearn."""
    given = [v for v in (request.forget_fraction, request.forget, request.forget_class) if v is not None]
    if len(given) != 1:
        raise UserError("say what to forget with exactly one of --forget-fraction, --forget and --forget-class")
    if request.forget_fraction is not None:
        in_range("forget-fraction", request.forget_fraction, 0, 0.95)
        return forget_indices(split, split.retain[: round(request.forget_fraction * len(split.retain))])
    if request.forget is not None:
        return forget_indices(split, read_request(request.forget, images))
    label = _class_index(str(request.forget_class), images.class_names)
    return forget_indices(split, split.retain[images.train_labels[split.retain] == label])


def forget_indices(split: Split, forget: Sequence[int] | np.ndarray) -> Split:
    """Move `forget` (indices of training images) from retain to unlearn; earlier requests stay forgotten."""
    given = np.asarray(forget)
    if len(given) and given.dtype.kind not in "iu":  # 1.5 would become 1, which nobody named
        raise UserError(f"the request names {given[0]}; give whole numbers, indices of training images")
    forget = given.astype(np.int64)
    if not len(forget):
        raise UserError("the request names no image that was trained on; name at least one")
    values, counts = np.unique(forget, return_counts=True)
    if (counts > 1).any():
        raise UserError(f"the request names image {values[counts > 1][0]} more than once; list each image once")
    if len(strangers := np.setdiff1d(forget, split.retain)):
        raise UserError(
            f"image {strangers[0]} is not among the {len(split.retain)} images this model was trained on; "
            "split.json in the run folder lists them under 'retain'"
        )
    kept = split.retain[~np.isin(split.retain, forget)]
    if len(kept) < MIN_RETAIN:
        raise UserError(f"the request leaves {len(kept)} images to retain; at least {MIN_RETAIN} must stay")
    return replace(split, retain=kept, unlearn=forget)


def read_request(path: Path, images: ImageSet) -> np.ndarray:
    """Indices or names (of files, keys of pairs), one a line, as indices into the training images.

    Where names are themselves numbers, as COCO's keys are, a number is always a name.
    """
    try:
        # Editors put a mark before the first line, and other systems write é in two letters: what looks the same is.
        lines = [line.strip() for line in path.read_text("utf-8-sig").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read the request {path} ({error}); give a text file with one image a line") from None
    if not lines:
        raise UserError(f"the request {path} is empty; list one index or name a line")
    named = {name: i for i, name in enumerate(images.train_names) if name}  # what was erased has none
    by_name = {composed(name): i for name, i in named.items()} | named
    held_out = {*images.test_names, *map(composed, images.test_names)} - by_name.keys()
    numbered = any(name.isdecimal() for name in chain(by_name, held_out))
    indices = []
    for written in lines:
        line = written if written in by_name else composed(written)
        if line in by_name:
            indices.append(by_name[line])
        elif line in held_out:
            raise UserError(f"{path} names '{line}', which is a test image: no model was trained on it; leave it out")
        elif line.isdecimal() and len(line) < 19 and not numbered:
            indices.append(int(line))
        elif by_name:
            check_name(f"image in {path}", line, by_name)
        else:
            raise UserError(
                f"'{line}' in {path} is not an index; {images.name} has no file names, so list whole numbers"
            )
        if indices[-1] >= len(images.train):
            raise UserError(
                f"{path} names image {indices[-1]}, but {images.name} has images 0 to {len(images.train) - 1}"
            )
    return np.array(indices, dtype=np.int64)


def composed(name: str) -> str:
    return unicodedata.normalize("NFC", name)


def _class_index(name: str, class_names: Sequence[str]) -> int:
    if name in class_names:
        return list(class_names).index(name)
    if name.isdecimal() and int(name) < len(class_names):
        return int(name)
    check_name("class", name, class_names)
    raise AssertionError("unreachable: a valid name was found above")
