"""What a step reads is the plan's rows, whether the pixels are on the device or on their way to it."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import wait
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from muc import config
from muc.data import feed as module
from muc.data.feed import BUFFERS, Resident, Streamed, bound_by, make_feed
from muc.data.files import ImageFiles
from muc.data.loader import BatchPlan, plan_batches
from muc.errors import UserError
from muc.runtime import Runtime

RUNTIME = Runtime(config.Runtime(device="cpu", threads=1))
DEVICES = [RUNTIME] + ([Runtime(config.Runtime(device="cuda", threads=1))] if torch.cuda.is_available() else [])
PIXELS = np.random.default_rng(0).integers(0, 256, (80, 3, 2, 2), dtype=np.uint8)
PLANS = st.builds(
    lambda n_retain, n_forget, rows, batch_size, seed: plan_batches(
        np.arange(80)[::-1][:n_retain], np.arange(n_forget), rows, batch_size, seed
    ),
    st.integers(2, 60),
    st.integers(2, 20),
    st.sampled_from(["retain", "forget", "mixed"]),
    st.integers(4, 64),
    st.integers(0, 1000),
)


class Rows:
    """Pixels that do something when a row is read, and count how often that is."""

    def __init__(self, before: Callable[[int], None] = lambda _: None) -> None:
        self.before, self.shape, self.read = before, PIXELS.shape, 0

    def __getitem__(self, row: int) -> np.ndarray:
        self.read += 1
        self.before(row)
        return PIXELS[row]


def gate_of(event: threading.Event) -> Callable[[int], None]:
    """Rows that cannot be read before the event."""

    def wait_for_it(_row: int) -> None:
        assert event.wait(30)

    return wait_for_it


def small_plan(batch_size: int = 8) -> BatchPlan:
    return plan_batches(np.arange(30, 60), np.arange(5), "mixed", batch_size, 0)


def positions(plan: BatchPlan, epochs: int, epoch: int = 0, step: int = 0) -> list[tuple[int, int]]:
    everything = [(e, s) for e in range(epochs) for s in range(plan.steps)]
    return everything[everything.index((epoch, step)) :]


def batches(feed: Any, at: list[tuple[int, int]]) -> list[Tensor]:
    found = []
    for epoch, step in at:
        feed.load(epoch, step)
        found.append(feed.pixels().clone())
    feed.close()
    return found


@given(plan=PLANS, epochs=st.integers(1, 3), data=st.data())
def test_streamed_batches_are_the_resident_ones_from_any_step_on(
    plan: BatchPlan, epochs: int, data: st.DataObject
) -> None:
    epoch, step = data.draw(st.integers(0, epochs - 1)), data.draw(st.integers(0, plan.steps - 1))
    at = positions(plan, epochs, epoch, step)
    expected = batches(Resident(PIXELS, plan, RUNTIME), at)
    for (e, s), batch in zip(at, expected, strict=True):
        assert np.array_equal(batch, PIXELS[plan.epoch(e)[s].numpy()])
    for runtime in DEVICES:
        streamed = batches(Streamed(PIXELS, plan, epochs, runtime), at)
        assert all(torch.equal(a.cpu(), b) for a, b in zip(streamed, expected, strict=True))


@given(plan=PLANS, data=st.data())
def test_a_feed_can_be_asked_for_any_step_at_any_time(plan: BatchPlan, data: st.DataObject) -> None:
    at = data.draw(st.lists(st.sampled_from(positions(plan, 3)), min_size=1, max_size=8))
    streamed = batches(Streamed(PIXELS, plan, 3, RUNTIME), at)
    resident = batches(Resident(PIXELS, plan, RUNTIME), at)
    assert all(torch.equal(a, b) for a, b in zip(streamed, resident, strict=True))


def test_batches_come_in_order_however_long_the_rows_take() -> None:
    plan, chance = small_plan(), np.random.default_rng(0)
    delays = chance.choice([0, 0, 0, 0.01], 80)
    rows = Rows(lambda row: time.sleep(delays[row]))
    at = positions(plan, 4)
    streamed = batches(Streamed(rows, plan, 4, RUNTIME), at)  # type: ignore[arg-type]
    resident = batches(Resident(PIXELS, plan, RUNTIME), at)
    assert all(torch.equal(a, b) for a, b in zip(streamed, resident, strict=True))
    assert rows.read == 4 * plan.steps * 8  # nothing is read that no step will want


def test_a_step_sees_the_same_tensor_every_time() -> None:
    """A recorded step goes on reading the memory it read when it was recorded."""
    feed = Streamed(PIXELS, small_plan(), 2, RUNTIME)
    feed.load(0, 0)
    before = feed.pixels()
    feed.load(0, 1)
    feed.close()
    assert feed.pixels().data_ptr() == before.data_ptr()


def test_a_few_batches_are_read_ahead_across_the_end_of_an_epoch_and_no_more() -> None:
    plan, rows = small_plan(), Rows()
    feed = Streamed(rows, plan, 9, RUNTIME)  # type: ignore[arg-type]
    feed.load(0, plan.steps - 1)
    wait([piece for buffer in feed._buffers for piece in buffer.pieces])
    assert [buffer.position for buffer in feed._ahead] == [(1, 0), (1, 1), (1, 2)]
    assert rows.read == 8 * BUFFERS
    feed.close()


def test_a_buffer_is_not_refilled_before_its_copy_has_finished(monkeypatch: pytest.MonkeyPatch) -> None:
    """What CUDA events are for, with events that tell."""
    under_way: set[int] = set()

    class Copied:
        def __init__(self, buffer: module.Buffer) -> None:
            self.address = buffer.pixels.data_ptr()

        def record(self, _stream: object) -> None:
            under_way.add(self.address)

        def synchronize(self) -> None:
            under_way.discard(self.address)

    begun = []

    def begin(images: Any, rows: np.ndarray, out: np.ndarray, threads: Any) -> Any:
        assert out.ctypes.data not in under_way
        begun.append(out)
        return begin_reading(images, rows, out, threads)

    begin_reading = module.begin_reading
    monkeypatch.setattr(module, "begin_reading", begin)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda _device: None)
    plan = small_plan()
    feed = Streamed(PIXELS, plan, 3, RUNTIME)
    for buffer in feed._buffers:
        buffer.copied = Copied(buffer)  # type: ignore[assignment]
    at = positions(plan, 3)
    waited_for = []
    for epoch, step in at:
        feed.load(epoch, step)
        waited_for.append(len(under_way))
    feed.close()
    assert len(begun) == len(at)
    assert 1 in waited_for  # the copy that a step has just begun is not waited for


# --- errors and ends ---


def break_row(row: int, culprit: int) -> None:
    if row == culprit:
        raise UserError(f"image {culprit} is broken")


@pytest.mark.parametrize(("start", "bad"), [((0, 0), (0, 0)), ((0, 0), (0, 2)), ((0, 3), (1, 1))])
def test_what_goes_wrong_in_a_thread_is_raised_at_its_step(start: tuple[int, int], bad: tuple[int, int]) -> None:
    plan, before = small_plan(), set(threading.enumerate())
    at = positions(plan, 3, *start)
    good = at[: at.index(bad)]
    read = {int(row) for epoch, step in good for row in plan.epoch(epoch)[step]}
    culprit = next(row for row in plan.epoch(bad[0])[bad[1]].tolist() if row not in read)
    feed = Streamed(Rows(lambda row: break_row(row, culprit)), plan, 3, RUNTIME)  # type: ignore[arg-type]
    for epoch, step in good:
        feed.load(epoch, step)
    with pytest.raises(UserError, match=f"image {culprit} is broken"):
        feed.load(*bad)
    feed.close()
    assert set(threading.enumerate()) == before


def test_closing_does_not_wait_for_what_has_not_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("muc.data.files.thread_count", lambda: 2)
    gate, before = threading.Event(), set(threading.enumerate())
    rows = Rows(gate_of(gate))
    feed = Streamed(rows, small_plan(16), 9, RUNTIME)  # type: ignore[arg-type]
    feed._begin(0, 0)
    timer = threading.Timer(0.1, gate.set)
    timer.start()
    feed.close()
    assert gate.is_set(), "what was being read was waited for"
    assert rows.read == 2 * 8  # each thread's piece of the first batch
    timer.join()
    assert set(threading.enumerate()) == before


def test_a_feed_that_never_began_has_no_threads() -> None:
    before = set(threading.enumerate())
    feed = Streamed(PIXELS, small_plan(), 1, RUNTIME)
    assert set(threading.enumerate()) == before
    feed.close()


# --- waiting ---


def test_waiting_is_counted_when_data_is_late_and_only_then(monkeypatch: pytest.MonkeyPatch) -> None:
    gate, clock = threading.Event(), [100.0]

    def wait_five_seconds(pieces: Any) -> None:
        clock[0] += 5
        gate.set()
        wait(pieces)

    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    monkeypatch.setattr(module, "wait", wait_five_seconds)
    feed = Streamed(Rows(gate_of(gate)), small_plan(), 9, RUNTIME)  # type: ignore[arg-type]
    feed.load(0, 0)
    assert feed.waited == 5
    for step in (1, 2):
        wait(feed._ahead[0].pieces)
        feed.load(0, step)
        assert feed.waited == 5
    feed.close()


def test_what_bounds_a_run_is_told_by_how_long_it_waited() -> None:
    assert bound_by(0.0) == bound_by(0.02) == "the device"
    assert bound_by(0.2) == bound_by(0.95) == "reading and decoding"


# --- choice ---


def test_arrays_are_resident_on_cpu_without_a_copy_and_files_are_streamed(tmp_path: Any) -> None:
    plan = small_plan()
    feed = make_feed(PIXELS, plan, 1, RUNTIME)
    assert isinstance(feed, Resident)
    assert feed.images.data_ptr() == PIXELS.ctypes.data
    assert feed.waited is None
    assert isinstance(make_feed(ImageFiles(tmp_path, ["a.png"], 8), plan, 1, RUNTIME), Streamed)


def test_an_array_without_room_on_the_device_is_streamed(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr(Runtime, "has_room", lambda _self, n_bytes: bool(asked.append(n_bytes)))
    assert isinstance(make_feed(PIXELS, small_plan(), 1, RUNTIME), Streamed)
    assert asked == [PIXELS.nbytes]


def test_there_is_room_for_half_of_what_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = Runtime(config.Runtime(device="cpu", threads=1))
    assert runtime.has_room(2**60)
    runtime.on_gpu = True
    for name, value in {"mem_get_info": (60, 100), "memory_reserved": 50, "memory_allocated": 10}.items():
        monkeypatch.setattr(torch.cuda, name, lambda _device, value=value: value)
    assert runtime.has_room(50)
    assert not runtime.has_room(51)
