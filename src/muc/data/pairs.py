"""Image-text pairs from disk: what makes a sound one, what becomes of the others, and which are held out as test set.

Every picture is read and decoded once before anything is planned, so that splits, requests and resumes never depend on
when a broken one was met.
"""

import sys
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from io import BytesIO
from typing import Any

import numpy as np

from muc.data.files import ImageFiles, Pixels, shared_threads
from muc.data.images import ImageSet
from muc.errors import UserError
from muc.pictures.decode import decode_image
from muc.progress import Meter, meter

PAIR_SUFFIXES = ("jpg", "jpeg", "png", "webp")
MOST_BROKEN = 0.01  # more than this share is no accident
NAMED = 5  # so many broken samples are named, the rest are counted
TEST_FRACTION = 0.2
READ_AT_ONCE = 64  # pictures a thread looks at before it says so


@dataclass(frozen=True)
class Pairs:
    """What was found, sorted by key; the pictures have not been looked at yet."""

    files: ImageFiles
    keys: Sequence[str]
    captions: Sequence[Sequence[str]]
    broken: Mapping[str, str]  # samples that are left out already, and why

    def select(self, rows: np.ndarray) -> "Pairs":
        chosen = rows.tolist()
        captions = [self.captions[i] for i in chosen]
        return Pairs(self.files.select(rows), [self.keys[i] for i in chosen], captions, {})


def clean_captions(texts: Any) -> list[str]:
    """One text or a list of them, stripped; what is empty is left out. ValueError where nothing or no text is left."""
    texts = [texts] if isinstance(texts, str) else texts
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise ValueError("has captions that are not texts")
    kept = [text.strip() for text in texts if text.strip()]
    if not kept:
        raise ValueError("has no caption")
    for text in kept:
        try:
            text.encode()  # JSON can spell halves of characters, which no tokenizer can read
        except UnicodeEncodeError:
            raise ValueError("has a caption that is not UTF-8") from None
    return kept


def hold_out(pairs: Pairs) -> tuple[Pairs, Pairs]:
    """Training and test pairs: a fifth, those whose keys have the smallest hashes.

    Not a random permutation, as for folders: whether a pair is held out should not depend on which others there are.
    """
    if len(pairs.keys) < 4:
        raise UserError(
            f"{pairs.files.root} has {len(pairs.keys)} sound pairs{_why(pairs.broken)}; at least 4 are needed, "
            "to train and test on"
        )
    order = np.array(
        sorted(range(len(pairs.keys)), key=lambda i: sha256(pairs.keys[i].encode(errors="surrogatepass")).digest())
    )
    n_test = max(1, round(TEST_FRACTION * len(order)))
    train, test = pairs.select(np.sort(order[n_test:])), pairs.select(np.sort(order[:n_test]))
    return replace(train, broken=pairs.broken), test


def load_pairs(name: str, train: Pairs, test: Pairs, streamed: bool) -> ImageSet:
    """An image set of the sound pairs, decoded into memory or not. Broken ones are named, counted and left out."""
    total = sum(len(part.keys) + len(part.broken) for part in (train, test))
    with meter(f"check {name}" if streamed else f"decode {name}", len(train.keys) + len(test.keys), "pairs") as bar:
        train_pixels, train = look_through(train, streamed, bar)
        test_pixels, test = look_through(test, streamed, bar)
    report_broken(name, {**test.broken, **train.broken}, total)
    return ImageSet(
        name=name,
        train=train_pixels,
        train_labels=np.zeros(len(train.keys), np.int64),
        test=test_pixels,
        test_labels=np.zeros(len(test.keys), np.int64),
        class_names=["all"],
        train_names=train.keys,
        test_names=test.keys,
        train_captions=train.captions,
        test_captions=test.captions,
    )


def look_through(pairs: Pairs, streamed: bool, bar: Meter) -> tuple[Pixels, Pairs]:
    """Decode every picture once. -> the pixels of the sound ones (or their files, with hashes), and those pairs."""
    from PIL import Image

    files, n = pairs.files, len(pairs.keys)
    kept = np.empty((n, 32) if streamed else files.shape, np.uint8)
    broken: dict[int, str] = {}
    parts = [range(start, min(start + READ_AT_ONCE, n)) for start in range(0, n, READ_AT_ONCE)]
    with warnings.catch_warnings():
        warnings.simplefilter("error", Image.DecompressionBombWarning)  # as broken as any other
        look = partial(_hash_all if streamed else _decode_all, files, kept)
        for part, found in zip(parts, shared_threads().map(look, parts), strict=True):
            broken.update(found)
            bar.advance(len(part), f"{len(broken)} broken" if broken else "")
    if not broken:
        return (replace(files, hashes=kept) if streamed else kept), pairs
    rows = np.setdiff1d(np.arange(n), list(broken))
    why = {str(files.location(row)): broken[row] for row in sorted(broken)}
    sound = replace(pairs.select(rows), broken={**pairs.broken, **why})
    if streamed:
        return replace(sound.files, hashes=kept[rows]), sound
    for place, row in enumerate(rows):  # in place: there may be no room for all of them twice
        kept[place] = kept[row]
    return kept[: len(rows)], sound


def _decode_all(files: ImageFiles, pixels: np.ndarray, rows: range) -> dict[int, str]:
    """Fill the rows with pixels. -> what is wrong with those that have none."""
    broken = {}
    for row in (rows[place] for place in files.fill_by_pool(rows, pixels[rows.start : rows.stop])):
        try:
            pixels[row] = decode_image(BytesIO(files.read(row)), files.side, files.channels)
        except (OSError, ValueError) as error:
            broken[row] = _complaint(error)
    return broken


def _hash_all(files: ImageFiles, hashes: np.ndarray, rows: range) -> dict[int, str]:
    """Fill the rows with the SHA-256 of files that can be decoded. -> what is wrong with the others."""
    broken = {}
    unread = np.empty((len(rows), *files.shape[1:]), np.uint8)
    left = set(files.fill_by_pool(rows, unread))
    for place, row in enumerate(rows):
        try:
            data = files.read(row)
            if place in left:
                decode_image(BytesIO(data), files.side, files.channels)
            hashes[row] = np.frombuffer(sha256(data).digest(), np.uint8)
        except (OSError, ValueError) as error:
            broken[row] = _complaint(error)
    return broken


def _complaint(error: OSError | ValueError) -> str:
    return f"cannot be read ({error.strerror})" if isinstance(error, OSError) else str(error)


def report_broken(name: str, broken: Mapping[str, str], total: int) -> None:
    """Say which samples are left out; refuse to go on where they are more than a few."""
    if not broken:
        return
    share = len(broken) / total
    if share > MOST_BROKEN:
        raise UserError(
            f"{name}: {len(broken):,} of {total:,} samples ({share:.1%}) are broken, and at most {MOST_BROKEN:.0%} may "
            f"be{_why(broken)}; repair or remove them"
        )
    print(f"muc: {name}: {len(broken):,} of {total:,} samples are broken and left out{_why(broken)}", file=sys.stderr)


def _why(broken: Mapping[str, str]) -> str:
    """ " ('a' has no caption; 'b' ...; and 3 more)"; names as Python writes them: they may hold anything."""
    if not broken:
        return ""
    named = [f"{name!r} {why}" for name, why in list(broken.items())[:NAMED]]
    more = [f"and {len(broken) - NAMED:,} more"] if len(broken) > NAMED else []
    return f" ({'; '.join(named + more)})"
