"""Images and labels from an .npz file, unpacked with care: it may be damaged or hostile."""

import zipfile
from pathlib import Path
from typing import IO

import numpy as np

from muc.data.images import ImageSet, as_uint8, check_label, from_labels
from muc.errors import UserError
from muc.machine import memory

PIECE = 1 << 20  # bytes of an array that are unpacked at a time
MOST_PACKED = 1032  # times smaller than what is in it a deflated file can be


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
