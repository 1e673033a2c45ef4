"""Where images come from: embedded sets, the usual downloads, .npz files, folders and shards."""

import os
import warnings
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from muc.config import DATASETS, Data
from muc.data.coco import find_captions, read_coco
from muc.data.files import ImageFiles, Pixels
from muc.data.folders import check_parts, find_classes, find_given, find_labelled, find_parts, walk
from muc.data.glyphs import load_glyph_pairs, load_glyphs
from muc.data.images import ImageSet, from_labels
from muc.data.npz import load_npz
from muc.data.pairs import Pairs, hold_out, load_pairs
from muc.data.shards import find_shards, read_shards
from muc.errors import UserError, check_name
from muc.machine import memory
from muc.pictures import pool
from muc.processes import first_only
from muc.progress import meter

READ_AT_ONCE = 1024  # pictures, before it is said how many there are


def load_images(settings: Data, complete: bool = True) -> ImageSet:
    """The image set a run's settings name. Read once a process (a comparison opens its data for every run), and again
    if a file has changed. Where it need not be `complete` any more, a class may have lost all its training images."""
    if (path := source(settings)) is None:
        return _load(settings)
    about = (path, fingerprint(path), memory())
    try:
        return _load_once(settings, True, *about)  # one reading serves all
    except UserError:
        if complete:
            raise
    return _load_once(settings, False, *about)


def source(settings: Data) -> Path | None:
    """The file or folder on disk; None for embedded sets and for what torchvision keeps."""
    if settings.name in DATASETS:
        packed = data_root(settings) / f"{settings.name}.npz"
        return packed if packed.is_file() else None
    return Path(settings.name) if settings.name and Path(settings.name).exists() else None


def fingerprint(path: Path) -> bytes:
    """Of names, sizes and times of all files: it tells whether something was changed, not what it is."""
    state = sha256()
    for file in walk(path) if path.is_dir() else [path]:
        try:
            found = file.stat()
        except OSError:  # a link that leads nowhere, such as an editor's lock, or a file just deleted
            continue
        state.update(repr((str(file), found.st_size, found.st_mtime_ns)).encode(errors="surrogateescape"))
    return state.digest()


@lru_cache(maxsize=1)
def _load_once(  # all that it depends on
    settings: Data, complete: bool, _path: Path, _fingerprint: bytes, _memory: int
) -> ImageSet:
    images = _load(settings, complete)
    pool.close_all()  # of what is in memory now, nothing is decoded again
    return images


def _load(settings: Data, complete: bool = True) -> ImageSet:
    name, path = settings.name, Path(settings.name)
    if name and name not in DATASETS and path.exists():
        if parts := find_pairs(path, settings.image_size):
            streamed = streams(settings, sum(part.files.nbytes for part in parts))
            return load_pairs(path.name.removesuffix(".tar"), *parts, streamed)
        if path.is_dir():
            return load_folder(path, settings, complete)
    if settings.stream == "on" and (name in DATASETS or path.is_file()):
        raise UserError(
            f"stream is 'on', which is for folders and shards of images, and '{name}' is none; give --stream auto"
        )
    if name == "glyphs":
        return load_glyphs()
    if name == "glyph-pairs":
        return load_glyph_pairs()
    if name == "digits":
        return load_digits()
    if name in DATASETS:
        return load_download(name, data_root(settings))
    if path.is_file():
        return load_npz(path)
    if path.suffix or os.sep in name:
        raise UserError(f"there is no file or folder '{name}'; give an .npz, a folder, or one of {', '.join(DATASETS)}")
    try:
        check_name("data set", name, DATASETS)
    except UserError as error:
        raise UserError(f"{error}, or the path of a folder, a .tar or an .npz") from None
    raise AssertionError("unreachable: every known name has a loader above")


def whole_path(settings: Data) -> Data:
    """Files and folders by their whole paths, so that a run finds its data from wherever it is used."""
    path, root = Path(settings.name), settings.root and Path(settings.root).resolve()
    on_disk = settings.name not in DATASETS and path.exists()
    return replace(settings, name=str(path.resolve()) if on_disk else settings.name, root=root)


def data_root(settings: Data) -> Path:
    return Path(settings.root or os.environ.get("MUC_DATA") or "data")


def load_digits() -> ImageSet:
    """scikit-learn's 1,797 handwritten digits, 8x8. Hardly memorised (docs/log.md): for quick checks only."""
    from sklearn.datasets import load_digits as sklearn_digits

    digits: Any = sklearn_digits()
    images = np.rint(digits.images * (255 / 16)).astype(np.uint8)[:, None]
    return from_labels("digits", images, digits.target.astype(np.int64))


def load_download(name: str, root: Path) -> ImageSet:
    """CIFAR-10, CIFAR-100 or SVHN: ROOT/NAME.npz if it is there, else torchvision's copy, downloaded if need be."""
    if (root / f"{name}.npz").is_file():
        return load_npz(root / f"{name}.npz", name)
    fetched: list[ImageSet] = []
    first_only(lambda: fetched.append(_fetch(name, root)))  # all at once would write into the same files
    return fetched[0] if fetched else _fetch(name, root)


def _fetch(name: str, root: Path) -> ImageSet:
    from torchvision import datasets

    try:
        if name == "svhn":
            parts = [datasets.SVHN(str(root / "svhn"), split=split, download=True) for split in ("train", "test")]
            arrays = [(p.data, np.asarray(p.labels)) for p in parts]
        else:
            kind = datasets.CIFAR10 if name == "cifar10" else datasets.CIFAR100
            parts = [kind(str(root), train=train, download=True) for train in (True, False)]
            arrays = [(p.data.transpose(0, 3, 1, 2), np.asarray(p.targets)) for p in parts]
    except (OSError, RuntimeError) as error:
        raise UserError(
            f"could not get {name} ({error}); put {name}.npz or torchvision's files into {root}, or set MUC_DATA"
        ) from None
    (x, y), (x_test, y_test) = arrays
    class_names = [str(c) for c in getattr(parts[0], "classes", range(int(y.max()) + 1))]
    return ImageSet(name, np.ascontiguousarray(x), y.astype(np.int64), x_test, y_test.astype(np.int64), class_names)


def load_folder(folder: Path, settings: Data, complete: bool = True) -> ImageSet:
    """FOLDER/CLASS/*.png, of which a fifth is held out; or FOLDER/train/CLASS/* and FOLDER/test/CLASS/* (or val/…)."""
    parts = find_parts(folder)
    check_parts(folder, parts)
    root = parts[0] if parts else folder
    class_names = find_classes(root, *([] if complete else parts[1:])) or ["all"]
    files, labels = find_labelled(root, class_names, settings.image_size, complete)
    if parts:
        test, test_labels = find_labelled(parts[1], class_names, settings.image_size, complete)
        images = ImageSet(folder.name, files, labels, test, test_labels, class_names, files.names, test.names)
    else:
        images = from_labels(folder.name, files, labels, files.names, class_names)
    if streams(settings, images.nbytes):
        return images
    return replace(images, train=decode(images.train), test=decode(images.test))


def find_pairs(path: Path, size: int) -> tuple[Pairs, Pairs] | None:
    """Training and test pairs of tar shards (a file, a folder, or FOLDER/train and FOLDER/test or val/…), else of a
    folder with captions in COCO's format (coco.find_captions says where). Without a test part, a fifth is held out."""
    if shards := find_shards(path):
        return hold_out(read_shards(shards, size))
    parts = find_parts(path)
    if len(parts) == 2 and all(found := [find_shards(part) for part in parts]):
        return read_shards(found[0], size), read_shards(found[1], size)
    if path.is_dir() and (captions := find_captions(path)):
        train = read_coco(path, captions[0], size)
        return (train, read_coco(path, captions[1], size)) if captions[1] else hold_out(train)
    return None


def streams(settings: Data, nbytes: int) -> bool:
    """Whether images that take so many bytes once decoded are decoded as they are needed."""
    return settings.stream == "on" or (settings.stream == "auto" and nbytes > memory() / 2)


def decode(images: Pixels) -> np.ndarray:
    """All of them, in memory."""
    from PIL import Image

    pixels = np.empty(images.shape, np.uint8)
    with warnings.catch_warnings():
        warnings.simplefilter("error", Image.DecompressionBombWarning)  # refused like any other broken file
        with meter("decode", len(images), "images") as bar:
            for start in range(0, len(images), READ_AT_ONCE):
                part = pixels[start : start + READ_AT_ONCE]
                part[...] = images[start : start + READ_AT_ONCE]
                bar.advance(len(part))
    return pixels


def read_owner_images(paths: Sequence[Path], channels: int, size: int) -> tuple[np.ndarray, list[str]]:
    """A data owner's picture files (folders are looked into), as (n, channels, size, size) uint8, and their names."""
    found = [path for _, path in find_given(paths)]
    files = ImageFiles(Path(), [str(path) for path in found], size, channels)
    return decode(files), [path.name for path in found]
