"""WebDataset-convention tar shards: an index made from the headers turns them into files that are read at random.

Nothing is ever unpacked. Of a sample's members only the picture and the captions are read; others stay closed.
"""

import json
import re
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

import numpy as np

from muc.data.files import ImageFiles, Slices
from muc.data.folders import hidden
from muc.data.pairs import PAIR_SUFFIXES, Pairs, clean_captions
from muc.errors import UserError
from muc.progress import meter

MEMBER = re.compile(r"((?:.*/)?[^./][^./]*)\.([^/]*)", re.DOTALL)  # WebDataset's rule: up to the name's first dot
COMPRESSED = re.compile(r".*\.(tar\.\w+|tgz|tbz2?|txz|tzst)", re.IGNORECASE)
MAX_TEXT = 2**20  # bytes of captions a sample
MAX_PICTURE = 256 * 2**20  # bytes; a larger one is a mistake or an attack


class Place(NamedTuple):
    """Where a member's bytes are in its shard."""

    start: int
    size: int


def find_shards(path: Path) -> list[Path]:
    """The tar file itself, or all that a folder holds; none: it is of another kind, as a folder with sub-folders is,
    whatever archives lie beside them."""
    inside = sorted(path.iterdir()) if path.is_dir() else [path]
    if any(p.is_dir() and not hidden(p) for p in inside):
        return []
    if packed := [p for p in inside if COMPRESSED.fullmatch(p.name)]:
        raise UserError(
            f"{packed[0]} is compressed, and samples are read from the middle of shards; unpack it to a .tar"
        )
    return [p for p in inside if p.suffix.lower() == ".tar" and p.is_file()]


def read_shards(shards: Sequence[Path], side: int) -> Pairs:
    """KEY.jpg (or jpeg, png, webp) and KEY.txt (one caption), else KEY.json ("captions", "caption" or "text")."""
    owner: dict[str, int] = {}
    pictures: dict[str, Place] = {}
    captions: dict[str, list[str]] = {}
    broken: dict[str, str] = {}
    with meter("index", len(shards), "shards") as bar:
        for number, shard in enumerate(shards):
            with open(shard, "rb") as f:
                for key, members in index_shard(shard, f).items():
                    if key in owner:
                        raise UserError(
                            f"the key {key!r} is in {shards[owner[key]]} and in {shard}; give every pair its own"
                        )
                    owner[key] = number
                    try:
                        pictures[key], captions[key] = _picture(members), _captions(members, f)
                    except ValueError as error:
                        broken[f"{shard}:{key}"] = str(error)
            bar.advance()
    keys = sorted(captions)  # however they are spread over shards
    where = np.array([(owner[key], *pictures[key]) for key in keys], np.int64).reshape(-1, 3)
    files = ImageFiles(shards[0] if len(shards) == 1 else shards[0].parent, keys, side, slices=Slices(shards, where))
    return Pairs(files, keys, [captions[key] for key in keys], broken)


def index_shard(shard: Path, f: BinaryIO) -> dict[str, dict[str, Place]]:
    """Keys of samples -> where the members of each suffix are. Refuses a shard that does not end where it should."""
    samples: dict[str, dict[str, Place]] = {}
    try:
        with tarfile.open(fileobj=f, mode="r:") as tar:
            while (member := tar.next()) is not None:
                if tar.offset <= member.offset:
                    raise tarfile.ReadError("a member of negative size")
                cast(Any, tar).members.clear()  # or it keeps them all
                name = MEMBER.fullmatch(member.name.removeprefix("./"))
                if not name or member.type not in (tarfile.REGTYPE, tarfile.AREGTYPE) or member.issparse():
                    continue  # links and devices are nobody's sample
                key, suffix = name[1], name[2].lower()
                suffix = "picture" if suffix in PAIR_SUFFIXES else suffix
                members = samples.setdefault(key, {})
                if suffix in members:
                    raise UserError(f"{shard} holds two members '{suffix}' of the key {key!r}; give every pair its own")
                members[suffix] = Place(member.offset_data, member.size)
            end = tar.offset
    except (tarfile.TarError, OSError, RecursionError, ValueError, OverflowError) as error:
        raise UserError(f"{shard} is cut off or damaged ({error}); fetch it again") from None
    f.seek(end)
    if f.read(tarfile.BLOCKSIZE) != bytes(tarfile.BLOCKSIZE):
        raise UserError(f"{shard} is cut off or damaged (there is no end mark at byte {end:,}); fetch it again")
    while rest := f.read(2**20):
        if any(rest):
            raise UserError(
                f"{shard} goes on after its end mark; are these several tars joined into one? Separate them"
            )
    return samples


def _picture(members: dict[str, Place]) -> Place:
    if "picture" not in members:
        raise ValueError(f"has no image ({', '.join(PAIR_SUFFIXES)})")
    if members["picture"].size > MAX_PICTURE:
        raise ValueError(f"has an image of {members['picture'].size:,} bytes, and at most {MAX_PICTURE:,} are read")
    return members["picture"]


def _captions(members: dict[str, Place], f: BinaryIO) -> list[str]:
    """A .txt is one caption; a .json is opened only where there is none (many shards repeat the caption there)."""
    for suffix in ("txt", "json"):
        if suffix not in members:
            continue
        start, size = members[suffix]
        if size > MAX_TEXT:
            raise ValueError(f"has a .{suffix} of {size:,} bytes, and at most {MAX_TEXT:,} are read")
        f.seek(start)
        try:
            text = f.read(size).decode()
        except UnicodeDecodeError:
            raise ValueError(f"has a .{suffix} that is not UTF-8") from None
        return clean_captions(text if suffix == "txt" else _from_json(text))
    raise ValueError("has no caption (.txt or .json)")


def _from_json(text: str) -> object:
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError("has a .json that cannot be read") from None
    if not isinstance(values, dict):
        raise ValueError("has a .json that is no object")
    return next((values[name] for name in ("captions", "caption", "text") if values.get(name)), [])
