"""Where images come from: embedded sets, the usual downloads, .npz files and folders."""

import os
import warnings
import zipfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from muc.config import DATASETS, Data
from muc.data.glyphs import load_glyphs
from muc.data.images import ImageSet, as_uint8, from_labels
from muc.errors import UserError, check_name

IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".webp", ".bmp")
MAX_CLASSES = 100_000
MAX_PIXELS = 64_000_000  # a larger image in a folder is a mistake or an attack


def load_images(settings: Data) -> ImageSet:
    """The image set a run's settings name."""
    name = settings.name
    if name == "glyphs":
        return load_glyphs()
    if name == "digits":
        return load_digits()
    if name in DATASETS:
        return load_download(name, data_root(settings))
    path = Path(name)
    if name and path.is_dir():
        return load_folder(path, settings.image_size)
    if path.is_file():
        return load_npz(path)
    if path.suffix or os.sep in name:
        raise UserError(f"there is no file or folder '{name}'; give an .npz, a folder, or one of {', '.join(DATASETS)}")
    check_name("data set", name, DATASETS)
    raise AssertionError("unreachable: every known name has a loader above")


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
                    flat = np.frombuffer(f.read(), dtype=dtype, count=count)
                    arrays[member.filename.removesuffix(".npy")] = flat.reshape(shape, order="F" if fortran else "C")
    except UserError:
        raise
    except Exception as error:  # zipfile, zlib and numpy raise a dozen kinds for broken files
        raise UserError(f"{path} is not a readable .npz file ({error}); write it with numpy.savez") from None
    return arrays


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
    if array.ndim != 1 or not np.issubdtype(array.dtype, np.integer) or (array.size and array.min() < 0):
        raise UserError(
            f"{name} has shape {array.shape} and type {array.dtype}; expected one whole number >= 0 an image"
        )
    if array.size and array.max() >= MAX_CLASSES:
        raise UserError(f"{name} holds the label {array.max()}; number the classes from 0 (at most {MAX_CLASSES:,})")
    return array.astype(np.int64)


def load_folder(folder: Path, size: int) -> ImageSet:
    """FOLDER/CLASS/*.png, or FOLDER/train/CLASS/* and FOLDER/test/CLASS/*; without test, a fifth is held out."""
    split = all((folder / part).is_dir() for part in ("train", "test"))
    root = folder / "train" if split else folder
    class_names = sorted(p.name for p in root.iterdir() if p.is_dir()) or ["all"]
    images, labels, names = _read_tree(root, class_names, size)
    if not split:
        return from_labels(folder.name, images, labels, names, class_names)
    test, test_labels, test_names = _read_tree(folder / "test", class_names, size)
    return ImageSet(folder.name, images, labels, test, test_labels, class_names, names, test_names)


def _read_tree(root: Path, class_names: list[str], size: int) -> tuple[np.ndarray, np.ndarray, list[str]]:
    paths = sorted(p for p in root.rglob("*") if p.suffix.lower() in IMAGE_SUFFIXES)
    if not paths:
        raise UserError(f"{root} holds no images ({', '.join(IMAGE_SUFFIXES)}); give a folder of images")
    stray = [p for p in paths if p.parent == root]
    if stray and len(stray) < len(paths):
        raise UserError(f"{stray[0]} is in no class; move it into one of the class folders, or out of {root}")
    unknown = [
        p for p in paths if len(p.relative_to(root).parts) > 1 and p.relative_to(root).parts[0] not in class_names
    ]
    if unknown:
        raise UserError(
            f"{unknown[0]} is of a class that has no training images; known classes: {', '.join(class_names)}"
        )
    images = read_images(paths, size)
    parts = [p.relative_to(root).parts for p in paths]
    labels = np.array([class_names.index(p[0]) if len(p) > 1 else 0 for p in parts])
    return images, labels, ["/".join(p) for p in parts]


def read_images(paths: Sequence[Path], size: int, channels: int = 3) -> np.ndarray:
    """(n, channels, size, size) uint8 of picture files."""
    from PIL import Image

    with warnings.catch_warnings(), ThreadPoolExecutor() as pool:
        warnings.simplefilter("error", Image.DecompressionBombWarning)  # refused like any other broken file
        return np.stack(list(pool.map(lambda path: read_image(path, size, channels), paths)))


def read_image(path: Path, size: int, channels: int = 3) -> np.ndarray:
    """(channels, size, size) uint8: shorter side brought to `size`, centre kept. A broken file is named."""
    from PIL import Image, ImageOps

    try:
        with Image.open(path) as image:
            if image.width * image.height > MAX_PIXELS:
                raise UserError(f"{path} has {image.width}x{image.height} pixels; at most {MAX_PIXELS:,} are read")
            rgb = image.convert("RGB" if channels == 3 else "L")
            fitted = ImageOps.fit(rgb, (size, size), Image.Resampling.BILINEAR)
    except UserError:
        raise
    except Exception as error:  # Pillow raises a dozen kinds for broken files
        raise UserError(f"{path} is not a readable image ({error}); repair or remove it") from None
    array = np.asarray(fitted)
    return array.transpose(2, 0, 1) if channels == 3 else array[None]


def read_owner_images(paths: Sequence[Path], channels: int, size: int) -> tuple[np.ndarray, list[str]]:
    """A data owner's picture files (folders are looked into), as (n, channels, size, size) uint8, and their names."""
    found: list[Path] = []
    for path in paths:
        if not path.exists():
            raise UserError(f"there is no image '{path}'; give picture files or a folder of them")
        inside = sorted(p for p in path.rglob("*") if p.suffix.lower() in IMAGE_SUFFIXES) if path.is_dir() else [path]
        if not inside:
            raise UserError(f"the folder '{path}' holds no images ({', '.join(IMAGE_SUFFIXES)})")
        found += inside
    return read_images(found, size, channels), [path.name for path in found]
