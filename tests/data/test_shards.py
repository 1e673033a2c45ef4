"""Tar shards: any spread gives the same pairs; only pictures and captions are read; what is wrong is named."""

import io
import json
import pickle
import tarfile
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from muc.config import Data, Request
from muc.data import ImageSet, apply_request, load_images, make_split, plan_batches, sources
from muc.data.files import ImageFiles, Slices
from muc.data.shards import index_shard
from muc.errors import UserError
from muc.pictures.decode import read_image

RANDOM = np.random.default_rng(0)
N = 15


def picture(kind: str = "PNG", side: int = 9) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(RANDOM.integers(0, 256, (side, side + 2, 3), dtype=np.uint8)).save(buffer, kind)
    return buffer.getvalue()


def sample(i: int) -> dict[str, bytes]:
    """Of every kind: one caption in a text or in JSON, or several."""
    kind, suffix = (("PNG", "png"), ("JPEG", "jpg"), ("WEBP", "webp"), ("JPEG", "JPEG"))[i % 4]
    texts: tuple[str, bytes] = (
        ("txt", f" letter {i}\n".encode()),
        ("json", json.dumps({"captions": [f"letter {i}", f"drawing {i}"], "coco_id": i}).encode()),
        ("json", json.dumps({"caption": f"letter {i}"}).encode()),
    )[i % 3]
    return {suffix: picture(kind), texts[0]: texts[1]}


SAMPLES = {f"{i * 37:012}": sample(i) for i in range(N)}


def write_tar(path: Path, members: Sequence[tuple[str, bytes]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w") as tar:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return path


def members_of(samples: Mapping[str, Mapping[str, bytes]]) -> list[tuple[str, bytes]]:
    return [(f"{key}.{suffix}", data) for key, sample in samples.items() for suffix, data in sample.items()]


def many(n: int = 200) -> dict[str, dict[str, bytes]]:
    """Enough that one broken one is less than one in a hundred."""
    data = picture()
    return {f"pair{i:03}": {"png": data, "txt": f"pair {i}".encode()} for i in range(n)}


def load(path: Path, stream: Any = "off", **chosen: Any) -> ImageSet:
    return load_images(Data(name=str(path), stream=stream, **{"image_size": 8, **chosen}))


def pairs_of(images: ImageSet) -> dict[str, tuple[bytes, list[str]]]:
    parts = (
        (images.train, images.train_names, images.train_captions),
        (images.test, images.test_names, images.test_captions),
    )
    return {
        name: (pixels.tobytes(), list(texts))
        for array, names, captions in parts
        for pixels, name, texts in zip(array[:], names, captions, strict=True)
    }


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("letters")
    members = members_of(SAMPLES)
    for number in range(3):
        write_tar(folder / f"shard-{number}.tar", members[number * 10 : (number + 1) * 10])
    return folder


# --- what is read ---


@pytest.mark.parametrize("stream", ["on", "off"])
def test_pairs_are_what_was_packed(shards: Path, stream: str, tmp_path: Path) -> None:
    images = load(shards, stream)
    assert isinstance(images.train, ImageFiles) == (stream == "on")
    found = pairs_of(images)
    assert sorted(found) == sorted(SAMPLES)
    assert (len(images.train), len(images.test), list(images.class_names)) == (12, 3, ["all"])
    for i, (key, packed) in enumerate(SAMPLES.items()):
        (suffix, data), _ = packed.items()
        path = tmp_path / f"{key}.{suffix}"
        path.write_bytes(data)
        assert found[key][0] == read_image(path, 8).tobytes()
        assert found[key][1] == [f"letter {i}", f"drawing {i}"][: 2 if i % 3 == 1 else 1]


@settings(max_examples=15)
@given(spread=st.lists(st.integers(0, 3), min_size=N, max_size=N), order=st.permutations(range(N)))
def test_any_spread_over_shards_is_the_same_set(spread: list[int], order: list[int]) -> None:
    items = [list(SAMPLES.items())[i] for i in order]
    with tempfile.TemporaryDirectory() as name:
        for number in set(spread):
            some = dict(item for item, place in zip(items, spread, strict=True) if place == number)
            write_tar(Path(name) / f"{number}.tar", members_of(some))
        images, streamed = load(Path(name)), load(Path(name), "on")
        found = (images.digest, streamed.digest, pairs_of(images), pairs_of(streamed))
    if "first" not in known:
        known["first"] = found
    assert found == known["first"]
    assert found[2] == found[3]


known: dict[str, Any] = {}


def test_one_file_is_a_set_too_and_keys_may_lie_apart(tmp_path: Path, shards: Path) -> None:
    members = members_of(SAMPLES)
    path = write_tar(tmp_path / "all.TAR", [*members[::2], *members[1::2]])
    assert load(path).digest == load(shards).digest
    dotted = write_tar(tmp_path / "dotted.tar", [(f"./{name}", data) for name, data in members])
    assert load(dotted, "on").digest == load(shards, "on").digest


def test_whether_a_pair_is_held_out_hardly_depends_on_the_others(tmp_path: Path) -> None:
    whole = load(write_tar(tmp_path / "whole.tar", members_of(many(100))))
    others = {f"a{key}": sample for key, sample in many(10).items()}  # which come first
    more = load(write_tar(tmp_path / "more.tar", members_of({**others, **many(100)})))
    assert (len(whole.test), len(more.test)) == (20, 22)
    assert len(set(whole.test_names) - set(more.test_names)) <= 4


def test_train_and_test_shards_are_used_as_they_are(tmp_path: Path) -> None:
    write_tar(tmp_path / "train" / "0.tar", members_of(SAMPLES))
    write_tar(tmp_path / "test" / "0.tar", members_of(dict(list(SAMPLES.items())[:4])))
    images = load(tmp_path)
    assert sorted(images.train_names) == sorted(SAMPLES)
    assert len(images.test) == 4


def test_a_folder_of_some_tool_beside_shards_changes_nothing(tmp_path: Path) -> None:
    write_tar(tmp_path / "0.tar", members_of(SAMPLES))
    before = load(tmp_path).digest
    for name in (".ipynb_checkpoints", "__MACOSX"):
        (tmp_path / name).mkdir()
    assert load(tmp_path).digest == before


def test_validation_shards_are_the_test_part(tmp_path: Path) -> None:
    write_tar(tmp_path / "train" / "0.tar", members_of(SAMPLES))
    write_tar(tmp_path / "val" / "0.tar", members_of(dict(list(SAMPLES.items())[:4])))
    assert len(load(tmp_path).test) == 4


def test_archives_beside_class_folders_change_nothing(tmp_path: Path) -> None:
    for i in range(8):
        path = tmp_path / f"class{i % 2}" / f"{i}.png"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(picture())
    before = load(tmp_path).digest
    write_tar(tmp_path / "images.tar", members_of(SAMPLES))
    (tmp_path / "images.tar.gz").write_bytes(b"\x1f\x8b")
    assert load(tmp_path).digest == before


def test_auto_streams_what_is_too_large(shards: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "memory", lambda: 2 * N * 3 * 64 - 1)
    assert isinstance(load(shards, "auto").train, ImageFiles)
    monkeypatch.setattr(sources, "memory", lambda: 2 * N * 3 * 64)
    assert isinstance(load(shards, "auto").test, np.ndarray)


def test_every_sample_comes_once_an_epoch(shards: Path) -> None:
    images = load(shards, "on")
    plan = plan_batches(np.arange(12), np.arange(0), "retain", 4, seed=3)
    epochs = [[images.train_names[i] for i in plan.epoch(e).flatten()] for e in range(2)]
    assert all(Counter(epoch) == Counter(images.train_names) for epoch in epochs)
    assert epochs[0] != epochs[1]


def test_the_digest_needs_no_second_look_and_knows_changes(shards: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    images = load(shards, "on")
    assert isinstance(images.train, ImageFiles)
    again = ImageFiles(images.train.root, images.train.names, 8, slices=images.train.slices)
    assert images.train.digest() == again.digest()
    assert images.train.select(np.array([3, 1])).digest() == again.select(np.array([3, 1])).digest()
    monkeypatch.setattr(Slices, "read", lambda *_: pytest.fail("was read again"))
    assert images.digest.startswith("files:")


def test_a_changed_caption_or_picture_is_other_data(tmp_path: Path) -> None:
    digests = set()
    key = next(iter(SAMPLES))
    for number, change in enumerate(({}, {"txt": b"another"}, {"png": picture()})):
        changed = {**SAMPLES, key: {**SAMPLES[key], **change}}
        path = write_tar(tmp_path / f"{number}.tar", members_of(changed))
        digests |= {load(path).digest, load(path, "on").digest}
    assert len(digests) == 6


# --- what is never opened ---


class Bomb:
    def __reduce__(self) -> tuple[Callable[[str], Any], tuple[str]]:
        return pytest.fail, ("a pickle was opened",)


def test_other_members_are_never_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = b"raise SystemExit"
    others = {"pkl": pickle.dumps(Bomb()), "pyd": pickle.dumps(Bomb()), "pth": secret, "py": secret, "cls": secret}
    others |= {"seg.png": secret, "": secret, "json": secret}  # a .json is not opened where there is a .txt
    samples = {key: {**sample, **others} for key, sample in many(12).items()}
    path = write_tar(tmp_path / "x.tar", [("README", secret), (".hidden.jpg", secret), *members_of(samples)])
    forbidden = set()
    with open(path, "rb") as f:
        for members in index_shard(path, f).values():
            forbidden |= {place.start for suffix, place in members.items() if suffix not in ("picture", "txt")}
    assert len(forbidden) == 12 * len(others)
    positions: list[int] = []

    class Watched(io.FileIO):
        def seek(self, position: int, whence: int = 0) -> int:
            positions.append(position)
            return super().seek(position, whence)

    monkeypatch.setattr("muc.data.shards.open", lambda path, _mode: Watched(path), raising=False)
    images = load(path)
    assert len(images.train) + len(images.test) == 12
    assert len(positions) > 12
    assert not forbidden & set(positions)


def test_links_devices_and_odd_names_are_harmless(tmp_path: Path) -> None:
    path = tmp_path / "data" / "x.tar"
    samples = {**many(12), "../../up": many(1)["pair000"], "/root": many(1)["pair000"]}
    write_tar(path, members_of(samples))
    with tarfile.open(path, "a") as tar:
        for name, kind in (("link.jpg", tarfile.SYMTYPE), ("hard.jpg", tarfile.LNKTYPE), ("dev.jpg", tarfile.CHRTYPE)):
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, "/etc/passwd"
            tar.addfile(info)
        tar.addfile(tarfile.TarInfo("a.directory/"))
    images = load(path)
    assert {*images.train_names, *images.test_names} == set(samples)
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["data", "x.tar"], "nothing was unpacked"


def test_postscript_under_the_name_of_a_picture_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run: list[Any] = []
    monkeypatch.setattr("PIL.EpsImagePlugin.Ghostscript", lambda *given, **_: run.append(given))
    Image.init()  # so that Pillow knows all of its formats
    samples = many()
    samples["pair007"]["png"] = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n%%EndComments\nshowpage\n"
    images = load(write_tar(tmp_path / "x.tar", members_of(samples)))
    assert "pair007" not in {*images.train_names, *images.test_names}
    assert not run


# --- broken samples ---


def bomb() -> bytes:
    data = bytearray(picture())
    data[16:24] = (100_000).to_bytes(4) * 2
    return bytes(data)


BROKEN: dict[str, dict[str, bytes]] = {
    "has no image": {"txt": b"a"},
    "has no caption": {"png": picture()},
    "has no caption ": {"png": picture(), "txt": b" \n"},
    "has no caption  ": {"png": picture(), "json": b'{"width": 3}'},
    "has a .txt that is not UTF-8": {"png": picture(), "txt": b"\xff\xfe"},
    "has a .json that cannot be read": {"png": picture(), "json": b'{"caption": '},
    "has a .json that cannot be read ": {"png": picture(), "json": b"[" * 100_000},
    "has a .json that is no object": {"png": picture(), "json": b"[1]"},
    "has captions that are not texts": {"png": picture(), "json": b'{"captions": ["a", 3]}'},
    "has a caption that is not UTF-8": {"png": picture(), "json": b'{"caption": "\\ud800"}'},
    "has a .txt of 1,048,577 bytes": {"png": picture(), "txt": b"a" * (2**20 + 1)},
    "is not a readable image": {"png": b"no picture", "txt": b"a"},
    "is not a readable image ": {"png": picture()[:-40], "txt": b"a"},
    "is not a readable image  ": {"png": bomb(), "txt": b"a"},
}


@pytest.mark.parametrize("stream", ["on", "off"])
@pytest.mark.parametrize("complaint", BROKEN)
def test_a_broken_sample_is_named_counted_and_left_out(
    tmp_path: Path, complaint: str, stream: str, capsys: pytest.CaptureFixture[str]
) -> None:
    samples = many()
    whole = pairs_of(load(write_tar(tmp_path / "whole.tar", members_of(samples))))
    path = write_tar(tmp_path / "some.tar", members_of({**samples, "pair050": BROKEN[complaint]}))
    images = load(path, stream)
    said = capsys.readouterr().err
    assert f"some: 1 of 200 samples are broken and left out ('{path}:pair050' {complaint.strip()}" in said
    assert said.count("\n") == 1
    whole.pop("pair050")
    assert pairs_of(images) == whole
    assert load(path, stream).digest == images.digest


@pytest.mark.parametrize("stream", ["on", "off"])
def test_more_than_one_in_a_hundred_stop_the_run(tmp_path: Path, stream: str) -> None:
    samples = many()
    for number, key in enumerate(("pair003", "pair050", "pair051")):
        samples[key] = (BROKEN["has no image"], BROKEN["is not a readable image"])[number % 2]
        path = write_tar(tmp_path / f"{number}.tar", members_of(samples))
        if number < 2:
            assert len(load(path, stream).train_names) >= 158
    with pytest.raises(UserError) as error:
        load(path, stream)
    assert "2: 3 of 200 samples (1.5%) are broken, and at most 1% may be" in str(error.value)
    assert all(key in str(error.value) for key in ("pair003", "pair050", "pair051"))


def test_of_many_broken_ones_a_few_are_named(tmp_path: Path) -> None:
    samples = {key: {"txt": b"a"} if i < 20 else sample for i, (key, sample) in enumerate(many().items())}
    with pytest.raises(UserError, match=r"20 of 200 .*pair004' has no image.*; and 15 more\); repair") as error:
        load(write_tar(tmp_path / "x.tar", members_of(samples)))
    assert "pair005" not in str(error.value)
    with pytest.raises(UserError, match=r"has 0 sound pairs \('.*only' has no image"):
        load(write_tar(tmp_path / "y.tar", [("only.txt", b"a")]))


# --- broken shards ---


@pytest.mark.parametrize("end", [0.999, 0.8, 0.7, 0.5, 0.3, 0.01, 0])
def test_a_shard_cut_off_anywhere_is_refused(shards: Path, tmp_path: Path, end: float) -> None:
    whole = (shards / "shard-1.tar").read_bytes()
    (tmp_path / "0.tar").write_bytes((shards / "shard-0.tar").read_bytes())
    with open(shards / "shard-1.tar", "rb") as f:
        size = max(place.start + place.size for some in index_shard(Path("x"), f).values() for place in some.values())
    (tmp_path / "1.tar").write_bytes(whole[: int(size * end)])
    with pytest.raises(UserError, match=r"1\.tar is cut off or damaged .*; fetch it again"):
        load(tmp_path)


def test_a_shard_cut_off_between_two_members_is_refused(shards: Path, tmp_path: Path) -> None:
    with tarfile.open(shards / "shard-0.tar") as tar:
        ends = [member.offset for member in tar][1:]
    whole = (shards / "shard-0.tar").read_bytes()
    for end in ends:
        (tmp_path / "x.tar").write_bytes(whole[:end])
        with pytest.raises(UserError, match="there is no end mark"):
            load(tmp_path)


def test_damage_in_the_middle_is_refused(shards: Path, tmp_path: Path) -> None:
    raw = bytearray((shards / "shard-0.tar").read_bytes())
    with tarfile.open(shards / "shard-0.tar") as tar:
        middle = tar.getmembers()[4]
    raw[middle.offset : middle.offset + 8] = b"\xff" * 8
    (tmp_path / "x.tar").write_bytes(raw)
    with pytest.raises(UserError, match="cut off or damaged"):
        load(tmp_path)


def test_a_member_of_negative_size_does_not_go_round_in_circles(tmp_path: Path) -> None:
    header = bytearray(tarfile.TarInfo("README").tobuf())
    header[124:136] = b"\xff" * 10 + (-512).to_bytes(2, "big", signed=True)  # the next header is this one again
    header[148:156] = b"%06o\0 " % (sum(header[:148]) + 32 * 8 + sum(header[156:512]))
    (tmp_path / "x.tar").write_bytes(tarfile.TarInfo("first").tobuf() + bytes(header) + bytes(10240))
    with pytest.raises(UserError, match=r"cut off or damaged \(a member of negative size"):
        load(tmp_path)


def test_tars_joined_into_one_are_refused_rather_than_half_read(shards: Path, tmp_path: Path) -> None:
    (tmp_path / "x.tar").write_bytes(b"".join(path.read_bytes() for path in sorted(shards.iterdir())))
    with pytest.raises(UserError, match=r"x\.tar goes on after its end mark"):
        load(tmp_path)


@pytest.mark.parametrize("name", ["x.tar.gz", "x.tgz", "x.tar.zst", "x.TAR.XZ"])
def test_compressed_shards_are_refused(shards: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"anything")
    for path in (tmp_path, tmp_path / name):
        with pytest.raises(UserError, match=f"{name} is compressed.* unpack it to a .tar"):
            load(path)
    (tmp_path / "y.tar").write_bytes((shards / "shard-0.tar").read_bytes())
    with pytest.raises(UserError, match=f"{name} is compressed"):
        load(tmp_path)


def test_a_key_that_comes_twice_is_named(tmp_path: Path) -> None:
    members = members_of(many(8))
    write_tar(tmp_path / "0.tar", members)
    write_tar(tmp_path / "1.tar", [("other.jpg", b""), members[6], members[7]])
    with pytest.raises(UserError, match=r"the key 'pair003' is in .*0\.tar and in .*1\.tar"):
        load(tmp_path)
    for again in (members[6], ("pair003.jpg", picture())):
        with pytest.raises(UserError, match=r"holds two members 'picture' of the key 'pair003'"):
            load(write_tar(tmp_path / "1.tar", [*members, again]))


def test_a_shard_that_goes_or_shrinks_during_a_run_is_named(tmp_path: Path) -> None:
    images = load(write_tar(tmp_path / "x.tar", members_of(many(8))), "on")
    (tmp_path / "x.tar").write_bytes(b"")
    with pytest.raises(UserError, match=r"x\.tar is shorter than it was"):
        images.train[:]
    (tmp_path / "x.tar").unlink()
    with pytest.raises(UserError, match=r"x\.tar cannot be read"):
        images.train[:]


# --- requests ---


def test_requests_name_pairs_by_key_and_numbers_are_keys(shards: Path, tmp_path: Path) -> None:
    images = load(shards)
    split = make_split(images, Data(validation_fraction=0), 0)
    wanted = images.train_names[7], images.train_names[2]

    def forgotten(*lines: str) -> list[int]:
        (tmp_path / "request").write_text("\n".join(lines))
        return apply_request(split, Request(forget=tmp_path / "request"), images).unlearn.tolist()

    assert forgotten(*wanted) == [7, 2]
    for line in ("3", "000000000003", "0"):  # they would be indices elsewhere
        with pytest.raises(UserError, match=f"unknown image in .*'{line}'"):
            forgotten(*wanted, line)
    with pytest.raises(UserError, match=f"names '{images.test_names[0]}', which is a test image"):
        forgotten(*wanted, images.test_names[0])


def test_keys_that_are_small_numbers_win_over_indices(tmp_path: Path) -> None:
    samples = {str(100 - i): sample for i, sample in enumerate(many(20).values())}
    images = load(write_tar(tmp_path / "x.tar", members_of(samples)))
    split = make_split(images, Data(validation_fraction=0), 0)
    (tmp_path / "request").write_text("\n".join(images.train_names[3:6]))
    assert apply_request(split, Request(forget=tmp_path / "request"), images).unlearn.tolist() == [3, 4, 5]
