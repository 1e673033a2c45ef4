"""Processes that decode: the same pixels and the same sentences as without them, and none outlives who started it."""

import io
import os
import signal
import subprocess
import sys
import tarfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import muc
from muc.config import Data
from muc.data import load_images
from muc.data.files import ImageFiles, Slices
from muc.errors import UserError
from muc.pictures import pool
from muc.pictures.decode import read_image

SIDE, N = 8, 30
SUFFIXES = (".png", ".jpg", ".webp", ".gif")


@pytest.fixture(autouse=True)
def from_the_first_picture_on(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    pool.close_all()  # what other tests began with other settings
    monkeypatch.setattr(pool, "MANY", 0)
    yield
    pool.close_all()


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder, source = (
        tmp_path_factory.mktemp("é pictures\udcff"),
        np.random.default_rng(0),
    )  # no UTF-8, as old disks have
    made = [folder / f"{i:02}{SUFFIXES[i % len(SUFFIXES)]}" for i in range(N)]
    for i, path in enumerate(made):
        Image.fromarray(source.integers(0, 256, (9 + i % 5, 12, 3), dtype=np.uint8)).save(path)
    return made


@pytest.fixture(scope="module")
def expected(paths: list[Path]) -> np.ndarray:
    return np.stack([read_image(path, SIDE) for path in paths])


def files_of(paths: list[Path]) -> ImageFiles:
    return ImageFiles(paths[0].parent, [path.name for path in paths], SIDE)


def workers() -> list[pool.Worker]:
    """All that are there, while none is at work."""
    idle = pool._idle[os.getpid()]
    found = [idle.get() for _ in range(idle.qsize())]
    for worker in found:
        idle.put(worker)
    return found


def test_files_have_the_pixels_that_they_have_here(paths: list[Path], expected: np.ndarray) -> None:
    assert np.array_equal(files_of(paths)[:], expected)
    assert workers()


@pytest.mark.parametrize("channels", [1, 3])
def test_slices_too_and_grey(paths: list[Path], tmp_path: Path, channels: int) -> None:
    together, where, start = tmp_path / "together", [], 0
    with open(together, "wb") as f:
        for path in paths:
            data = path.read_bytes()
            where.append((0, start, len(data)))
            start += f.write(data)
    files = ImageFiles(together, [path.name for path in paths], SIDE, channels, Slices([together], np.array(where)))
    rows, out = np.random.default_rng(1).permutation(N), np.zeros(files.shape, np.uint8)
    assert files.fill_by_pool(rows, out) == []
    assert np.array_equal(out, np.stack([read_image(paths[row], SIDE, channels) for row in rows]))


def test_more_pictures_than_the_shared_memory_holds(
    paths: list[Path], expected: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "MEMORY", 4 * expected[0].nbytes + 5)
    files, out = files_of(paths), np.zeros_like(expected)
    assert files.fill_by_pool(range(N), out) == []
    assert np.array_equal(out, expected)


def test_a_picture_that_is_larger_than_the_shared_memory_is_decoded_here(
    paths: list[Path], expected: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "MEMORY", expected[0].nbytes - 1)
    assert np.array_equal(files_of(paths)[:], expected)
    assert not workers()


def test_names_are_found_from_where_one_is_now(
    paths: list[Path], expected: np.ndarray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Processes keep the folder in which they began."""
    files_of(paths)[:]
    monkeypatch.chdir(paths[0].parent)
    out = np.zeros_like(expected)
    assert ImageFiles(Path(), [path.name for path in paths], SIDE).fill_by_pool(range(N), out) == []
    assert np.array_equal(out, expected)


@pytest.mark.parametrize("at_once", [N, 3])
def test_a_broken_picture_is_named_as_it_is_without_processes(
    paths: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr(pool, "MEMORY", at_once * 3 * SIDE**2)
    monkeypatch.setattr("muc.data.files.thread_count", lambda: 1)
    for path in paths:
        (tmp_path / path.name).write_bytes(path.read_bytes())
    files = files_of([tmp_path / path.name for path in paths])
    sentences = []
    for damage in (b"", b"no picture", paths[4].read_bytes()[:60]):
        (tmp_path / paths[4].name).write_bytes(damage)
        for many in (0, 10**9):
            monkeypatch.setattr(pool, "MANY", many)
            with pytest.raises(UserError, match=paths[4].name) as found:
                files[:]
            sentences.append(str(found.value))
    assert sentences[::2] == sentences[1::2]
    (tmp_path / paths[4].name).unlink()
    with pytest.raises(UserError, match=paths[4].name):
        files[:]


@pytest.mark.parametrize("stream", ["on", "off"])
def test_broken_pairs_are_left_out_as_without_processes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, stream: str
) -> None:
    source, found = np.random.default_rng(0), []
    with tarfile.open(tmp_path / "x.tar", "w") as tar:
        for i in range(150):
            picture = io.BytesIO()
            Image.fromarray(source.integers(0, 256, (9, 9, 3), dtype=np.uint8)).save(picture, "PNG")
            data = picture.getvalue()[:40] if i == 70 else picture.getvalue()
            for name, text in ((f"{i:03}.png", data), (f"{i:03}.txt", f"number {i}".encode())):
                info = tarfile.TarInfo(name)
                info.size = len(text)
                tar.addfile(info, io.BytesIO(text))
    for many in (0, 10**9):
        monkeypatch.setattr(pool, "MANY", many)
        images = load_images(Data(name=str(tmp_path / "x.tar"), image_size=SIDE, stream=stream, root=Path(str(many))))
        found.append((images.train[:], images.train_names, images.digest, capsys.readouterr().err))
    (pixels, *others), (same_pixels, *same) = found
    assert np.array_equal(pixels, same_pixels)
    assert others == same
    assert "070" in others[-1]


# --- ends ---


def test_a_process_that_ends_at_work_is_a_sentence(paths: list[Path], expected: np.ndarray, tmp_path: Path) -> None:
    os.mkfifo(waiting := tmp_path / "waiting.png")  # nobody ever writes into it
    worker, said = pool.Worker(), []

    def ask() -> None:
        try:
            worker.decode([(str(waiting), 0, -1), (str(paths[0]), 0, -1)], np.empty_like(expected[:2]))
        except UserError as error:
            said.append(str(error))

    asking = threading.Thread(target=ask)
    asking.start()
    worker.process.kill()
    asking.join()
    assert said[0].startswith(f"the process that decoded {waiting} and the 1 pictures after it ended with code -9; ")
    worker.close()


def test_a_process_that_ended_idle_is_replaced(paths: list[Path], expected: np.ndarray) -> None:
    """Whoever looks for memory can take one that nobody uses."""
    files = files_of(paths)
    files[:]
    ended = workers()
    for worker in ended:
        worker.process.kill()
        worker.process.wait()
    for _ in ended:
        assert np.array_equal(files[:], expected)
    assert not set(workers()) & set(ended)


def test_what_a_python_prints_when_it_starts_is_no_answer(
    paths: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text("print('hello', flush=True)")
    monkeypatch.syspath_prepend(tmp_path)
    places = [str(paths[0]), str(tmp_path / "none.png"), str(paths[1])]
    worker = pool.Worker()
    assert worker.decode([(place, 0, -1) for place in places], np.empty((3, 3, SIDE, SIDE), np.uint8)) == [1]
    worker.close()


@pytest.mark.parametrize("place", ["", Path("somewhere")])
def test_where_python_looks_for_modules_can_be_named_in_any_way(
    paths: list[Path], expected: np.ndarray, monkeypatch: pytest.MonkeyPatch, place: str | Path
) -> None:
    source = str(Path(muc.__file__).parent.parent)
    monkeypatch.chdir(source)
    monkeypatch.setattr(sys, "path", [place, *(p for p in sys.path if p != source), *([] if place == "" else [source])])
    monkeypatch.delenv("PYTHONPATH", raising=False)
    assert np.array_equal(files_of(paths)[:], expected)
    assert workers()


def test_several_threads_at_once(paths: list[Path], expected: np.ndarray) -> None:
    files, found = files_of(paths), {}

    def read(number: int) -> None:
        rows = np.random.default_rng(number).permutation(N)
        found[number] = np.array_equal(files[rows], expected[rows])

    threads = [threading.Thread(target=read, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert list(found.values()) == [True] * 6


def test_ctrl_c_in_the_terminal_is_not_for_them(paths: list[Path]) -> None:
    files_of(paths)[:]
    assert workers()
    assert all(os.getpgid(worker.process.pid) != os.getpgid(0) for worker in workers())


SCRIPT = """
import os, sys, time
from pathlib import Path

sys.path.append(sys.argv[3])  # where a script finds a module, its processes do
from muc.data.files import ImageFiles
from muc.pictures import pool

pool.MANY = 0
folder = Path(sys.argv[1])
files = ImageFiles(folder, sorted(os.listdir(folder)), 8)
print("pixels", files[:].sum(), flush=True)
if sys.argv[2] == "fork":
    if child := os.fork():
        assert os.waitpid(child, 0)[1] == 0
    else:
        os._exit(int(files[:].shape[0] != len(files)))
    print("pixels", files[:].sum(), flush=True)
idle = pool._idle[os.getpid()]
print("workers", *(idle.get().process.pid for _ in range(idle.qsize())) if sys.argv[2] == "killed" else "", flush=True)
if sys.argv[2] == "killed":
    time.sleep(60)
"""


def run_script(tmp_path: Path, paths: list[Path], how: str) -> subprocess.Popen[str]:
    """As a user would: a file without `if __name__ == "__main__"`, which must not be run again by every process."""
    (tmp_path / "script.py").write_text(SCRIPT)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    source = Path(muc.__file__).parent.parent
    command = [sys.executable, "-W", "error", str(tmp_path / "script.py"), str(paths[0].parent), how, str(source)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


@pytest.mark.parametrize("how", ["plain", "fork"])
def test_a_script_of_ones_own(tmp_path: Path, paths: list[Path], expected: np.ndarray, how: str) -> None:
    out, err = run_script(tmp_path, paths, how).communicate(timeout=60)
    assert out.splitlines()[:-1] == [f"pixels {expected.sum()}"] * (2 if how == "fork" else 1)
    assert err == ""


def test_they_end_with_who_started_them_even_if_that_is_killed(tmp_path: Path, paths: list[Path]) -> None:
    process = run_script(tmp_path, paths, "killed")
    assert process.stdout
    numbers = [
        int(word) for line in (process.stdout.readline(), process.stdout.readline()) for word in line.split()[1:]
    ]
    started = numbers[1:]
    assert started
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
    deadline = time.monotonic() + 30
    while any(alive(pid) for pid in started):
        assert time.monotonic() < deadline, "a process is left"
        time.sleep(0.05)


def alive(pid: int) -> bool:
    """A zombie waits for whoever has inherited it, and is not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


# --- how many ---


def test_few_pictures_need_no_processes(
    paths: list[Path], expected: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "MANY", N + 1)
    assert np.array_equal(files_of(paths)[:], expected)
    assert not workers()


def test_where_memory_needs_a_file_it_is_gone_with_the_processes(
    paths: list[Path], expected: np.ndarray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "memfd_create")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert np.array_equal(files_of(paths)[:], expected)
    assert workers()
    assert not list(tmp_path.iterdir())
