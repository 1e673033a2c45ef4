"""Where images come from: embedded sets, the usual downloads, .npz files, folders and shards."""

import os
import warnings
import zipfile
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import IO, Any

import numpy as np

from muc.config import DATASETS, Data
from muc.data.coco import find_captions, read_coco
from muc.data.files import ImageFiles, Pixels
from muc.data.folders import check_parts, find_classes, find_given, find_labelled, find_parts, walk
from muc.data.glyphs import load_glyph_pairs, load_glyphs
from muc.data.images import ImageSet, as_uint8, check_label, from_labels
from muc.data.pairs import Pairs, hold_out, load_pairs
from muc.data.shards import find_shards, read_shards
from muc.errors import UserError, check_name
from muc.pictures import pool
from muc.processes import first_only
from muc.progress import meter

READ_AT_ONCE = 1024  # pictures, before it is said how many there are
PIECE = 1 << 20  # bytes of an array that are unpacked at a time
MOST_PACKED = 1032  # times smaller than what is in it a deflated file can be


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


def load_npz(path: Path, name: str | None = None) -> ImageSet:
    """x_train, y_train, x_test, y_test; or images and labels, of which a fifth is held out as test set."""
    arrays = read_npz(path)
    name = name or path.stem
    if {"x_train", "y_train", "x_test", "y_test"} <= arrays.keys():
        y, y_test = (_labels(arrays[key], f"{path}:{key}") for key in ("y_train", "y_test"))
        x, x_test = (_channels_first(arrays[key], f"{path}:{key}") for key in ("x_train", "x_test"))
        classes = int(max(y.max(initial=0), y_test.max(initial=0))) + 1
        return ImageSet(name, x, y, x_test, y_test, [str(c) for c in range(classes)])
    if {"images", "labels"} <= arrays.keys():
        images = _channels_first(arrays["images"], f"{path}:images")
        labels = _labels(arrays["labels"], f"{path}:labels")
        if labels.shape != (len(images),):
            raise UserError(f"{path}: {len(images)} images but labels of shape {labels.shape}; give one label an image")
        return from_labels(name, images, labels)
    raise UserError(
        f"{path} holds {', '.join(sorted(arrays)) or 'nothing'}; expected images and labels, "
        "or x_train, y_train, x_test and y_test"
    )


def read_npz(path: Path) -> dict[str, np.ndarray]:
    """All arrays of an .npz, refusing pickles and headers that promise more than the file holds."""
    from numpy.lib import format as npy

    arrays = {}
    try:
        with zipfile.ZipFile(path) as archive:
            for member in archive.infolist():
                with archive.open(member) as f:
                    version = npy.read_magic(f)
                    read_header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
                    shape, fortran, dtype = read_header(f)
                    if dtype.hasobject:
                        raise UserError(f"{path}:{member.filename} holds Python objects; save plain numbers instead")
                    count = int(np.prod(shape, dtype=object))
                    if count * dtype.itemsize != member.file_size - f.tell():
                        raise UserError(
                            f"{path}:{member.filename} promises {count * dtype.itemsize:,} bytes but holds "
                            f"{member.file_size - f.tell():,}; the file is damaged or hostile"
                        )
                    if member.file_size > memory():
                        raise UserError(
                            f"{path}:{member.filename} unpacks to {member.file_size:,} bytes, more than this machine's "
                            "memory; give a smaller set, or a folder of images"
                        )
                    if member.file_size > MOST_PACKED * (member.compress_size + 1):
                        raise ValueError("it promises more than can be packed into its size")
                    flat = np.empty(count, dtype)
                    _fill(f, flat.view(np.uint8).data if count else memoryview(b""))
                    arrays[member.filename.removesuffix(".npy")] = flat.reshape(shape, order="F" if fortran else "C")
    except UserError:
        raise
    except Exception as error:  # zipfile, zlib and numpy raise a dozen kinds for broken files
        raise UserError(f"{path} is not a readable .npz file ({error}); write it with numpy.savez") from None
    return arrays


def _fill(f: IO[bytes], target: memoryview) -> None:
    """Piece by piece: never is more than a piece there twice."""
    for start in range(0, len(target), PIECE):
        piece = f.read(min(PIECE, len(target) - start))
        target[start : start + PIECE] = piece  # refuses one that is too short


def _channels_first(array: np.ndarray, name: str) -> np.ndarray:
    if array.ndim == 3:
        array = array[:, None]
    elif array.ndim == 4 and array.shape[1] not in (1, 3) and array.shape[3] in (1, 3):
        array = array.transpose(0, 3, 1, 2)
    if array.ndim != 4 or array.shape[1] not in (1, 3):
        raise UserError(
            f"{name} has shape {array.shape}; expected (n, height, width[, 1 or 3]) or (n, 1 or 3, height, width)"
        )
    return np.ascontiguousarray(as_uint8(array, name))


def _labels(array: np.ndarray, name: str) -> np.ndarray:
    if array.ndim != 1 or not np.issubdtype(array.dtype, np.integer):
        raise UserError(
            f"{name} has shape {array.shape} and type {array.dtype}; expected one whole number >= 0 an image"
        )
    for label in (array.min(), array.max()) if array.size else ():
        check_label(int(label), name)
    return array.astype(np.int64)


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


def memory() -> int:
    """Bytes this machine has. Not those that are free: files that were just read fill them up, until they are needed,
    and the same folder would be streamed at one time and not at another."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


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
