"""What lies in a folder of images: pictures, a folder for each class, a part to train and one to test on."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from muc.data.files import ImageFiles, unreadable
from muc.errors import UserError
from muc.pictures.decode import IMAGE_SUFFIXES
from muc.storage import tell_once

INSTEAD_OF_TEST = ("val", "valid", "validation")
UNREAD = (".heic", ".heif", ".avif", ".jxl", ".jp2", ".dng", ".tga", ".svg")


def hidden(path: Path) -> bool:
    """Whether a folder is some tool's own, such as .ipynb_checkpoints or __MACOSX, and holds no data."""
    return path.name.startswith((".", "_"))


def walk(folder: Path, above: tuple[Path, ...] = ()) -> Iterator[Path]:
    """All files and folders in it, and in its folders that are not hidden, sorted. Links are followed, but for those
    that lead back to a folder they are in."""
    above = (*above, folder.resolve())
    try:
        with os.scandir(folder) as found:
            entries = sorted(found, key=lambda entry: entry.name)
    except OSError as error:
        raise unreadable(folder, error) from None
    for entry in entries:
        path = folder / entry.name
        yield path
        # What is no link knows its kind: of a million files none is looked at.
        is_folder = path.is_dir() if entry.is_symlink() else entry.is_dir()
        if is_folder and not hidden(path) and path.resolve() not in above:
            yield from walk(path, above)


def is_picture(path: Path) -> bool:
    """One that can be read. macOS keeps a ._IMG.jpg beside an IMG.jpg on other systems' disks, which is none."""
    return path.suffix.lower() in IMAGE_SUFFIXES and not path.name.startswith(".")


def find_pictures(folder: Path) -> list[Path]:
    found = list(walk(folder))
    if unread := [path for path in found if path.suffix.lower() in UNREAD and not path.name.startswith(".")]:
        tell_once(
            f"muc: note: {len(unread):,} pictures in {folder} are of a kind that is not read, {unread[0].name} first; "
            "convert them (to .jpg, say) if they are to be seen"
        )
    for path in found:
        if path.name.startswith("_") and path.is_dir() and any(map(is_picture, walk(path))):
            tell_once(f"muc: note: {path} is passed over; rename it, without the _, if its pictures are to be seen")
    return list(filter(is_picture, found))


def find_given(paths: Sequence[Path]) -> list[tuple[str, Path]]:
    """The picture files that a data owner gives, and in given folders; a name for each, as its path goes on below."""
    found: list[tuple[str, Path]] = []
    for path in paths:
        if not path.exists():
            raise UserError(f"there is no image '{path}'; give picture files or a folder of them")
        inside = find_pictures(path) if path.is_dir() else [path]
        if not inside:
            raise UserError(f"the folder '{path}' holds no images ({', '.join(IMAGE_SUFFIXES)})")
        found += [(p.relative_to(path).as_posix() if path.is_dir() else p.name, p) for p in inside]
    return found


def find_classes(*folders: Path) -> list[str]:
    """All that any of them has."""
    return sorted({path.name for folder in folders for path in folder.iterdir() if path.is_dir() and not hidden(path)})


def find_parts(folder: Path) -> list[Path]:
    """FOLDER/train and what lies beside it to test on; none: the folder is one part, and is split by who reads it."""
    if not (folder / "train").is_dir():
        return []
    beside = ("test",) if (folder / "test").is_dir() else INSTEAD_OF_TEST
    return [part for name in ("train", *beside) if (part := folder / name).is_dir()]


def check_parts(folder: Path, parts: list[Path]) -> None:
    """Refuse to guess what to test on."""
    if parts and len(parts) != 2:
        beside = ", ".join(f"{part.name}/" for part in parts[1:]) or "nothing to test on"
        known = ", ".join(f"{name}/" for name in ("test", *INSTEAD_OF_TEST))
        raise UserError(
            f"{folder} holds train/ and {beside}; leave exactly one of {known} beside train/, give {parts[0]} to have "
            "a fifth of it held out, or rename train/ if it is a class"
        )


def find_labelled(
    root: Path, class_names: list[str], size: int, complete: bool = True
) -> tuple[ImageFiles, np.ndarray]:
    """ROOT/CLASS/**/*.png and so on, with the number of each one's class; ROOT/*.png is all of the first class."""
    suffixes = ", ".join(IMAGE_SUFFIXES)
    parts = [path.relative_to(root).parts for path in find_pictures(root)]
    if not parts:
        raise UserError(f"{root} holds no images ({suffixes}); give a folder of images")
    stray = [p for p in parts if len(p) == 1]
    if stray and len(stray) < len(parts):
        raise UserError(f"{root / stray[0][0]} is in no class; move it into one of the class folders, or out of {root}")
    filled = {p[0] for p in parts}
    if complete and (empty := [name for name in find_classes(root) if name not in filled]):
        raise UserError(f"the class folder {root / empty[0]} holds no images ({suffixes}); fill it or remove it")
    number = {name: i for i, name in enumerate(class_names)}
    unknown = [p for p in parts if len(p) > 1 and p[0] not in number]
    if unknown:
        raise UserError(
            f"{root.joinpath(*unknown[0])} is of a class that has no training images; "
            f"known classes: {', '.join(class_names)}"
        )
    labels = np.array([number[p[0]] if len(p) > 1 else 0 for p in parts])
    return ImageFiles(root, ["/".join(p) for p in parts], size), labels
