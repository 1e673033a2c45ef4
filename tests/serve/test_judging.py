"""Verdicts beside uploads: they wait in a line of their own, and only decoding counts as decoding."""

import json
import threading
import time
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import httpx
import numpy as np
import pytest
from live_server import form, picture, running

from muc.serve import judging, upload
from muc.serve.keys import KeyFile
from muc.serve.limits import Limits
from muc.serve.pair import Pair

BODY = json.dumps({"gap": [[0.1] * 6] * 6, "forget": [True, False] * 3})
EMBED = "/v1/embed?model=after"


@contextmanager
def two_clients(
    pair: Pair, keys: KeyFile, alice: str
) -> Generator[tuple[httpx.Client, httpx.Client, ThreadPoolExecutor]]:
    """Bob's and Alice's, and threads to ask from."""
    with (
        running(pair, keys, Limits(decode_seconds=0.5)) as live,
        live.client(keys.add("bob", 1000)) as client,
        live.client(alice) as other,
        ThreadPoolExecutor(3) as threads,
    ):
        yield client, other, threads


def test_a_key_has_one_verdict_at_a_time_and_those_of_others_wait_for_it(
    pair: Pair, keys: KeyFile, alice: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And uploads notice nothing."""
    judge, begun, go = judging.judge, threading.Semaphore(0), threading.Event()

    def slow(matrix: Any) -> Any:
        begun.release()
        assert go.wait(20)
        return judge(matrix)

    monkeypatch.setattr(judging, "judge", slow)
    with two_clients(pair, keys, alice) as (client, other, threads):
        try:
            first = threads.submit(client.post, "/v1/verdict", content=BODY)
            assert begun.acquire(timeout=10)
            for _ in range(8):
                refused = client.post("/v1/verdict", content=BODY)
                assert refused.status_code == 429
                assert int(refused.headers["Retry-After"]) >= 1
                assert "1" in refused.json()["error"]
            for asking in (client, other):
                uploaded = asking.post(EMBED, files=form(*[picture()] * 8))
                assert uploaded.status_code == 200, uploaded.text
            second = threads.submit(other.post, "/v1/verdict", content=BODY)
            assert not begun.acquire(timeout=1)
        finally:
            go.set()
        assert (first.result().status_code, second.result().status_code) == (200, 200)
        assert client.post("/v1/verdict", content=BODY).status_code == 200  # the place is free again


def test_waiting_for_a_thread_is_not_decoding(
    pair: Pair, keys: KeyFile, alice: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    decode, begun, go = upload.decode_picture, threading.Semaphore(0), threading.Event()
    held, tokens = picture(seed=1), [keys.add(f"holder {i}", 9) for i in range(2)]

    def hold(data: bytes, *rest: Any) -> np.ndarray:
        if data == held:
            begun.release()
            assert go.wait(20)
        return decode(data, *rest)

    monkeypatch.setattr(upload, "decode_picture", hold)
    with two_clients(pair, keys, alice) as (client, other, threads):
        try:
            theirs = [{"Authorization": f"Bearer {token}"} for token in tokens]
            holding = [threads.submit(client.post, EMBED, files=form(held), headers=headers) for headers in theirs]
            assert all(begun.acquire(timeout=10) for _ in holding)
            waiting = threads.submit(other.post, EMBED, files=form(picture()))
            time.sleep(1)
        finally:
            go.set()
        answers = [task.result() for task in (waiting, *holding)]
    assert [answer.status_code for answer in answers] == [200] * 3, answers[0].text


def test_one_key_takes_one_thread_to_decode(
    pair: Pair, keys: KeyFile, alice: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or whoever sends much would leave none to others."""
    decode, lock, at_once = upload.decode_picture, threading.Lock(), [0, 0]

    def slowly(*given: Any) -> np.ndarray:
        with lock:
            at_once[0] += 1
            at_once[1] = max(at_once)
        time.sleep(0.05)
        with lock:
            at_once[0] -= 1
        return decode(*given)

    monkeypatch.setattr(upload, "decode_picture", slowly)
    with two_clients(pair, keys, alice) as (client, _, threads):
        sent = [threads.submit(client.post, EMBED, files=form(*[picture()] * 4)) for _ in range(2)]
        assert [task.result().status_code for task in sent] == [200, 200]
    assert at_once[1] == 1


def test_what_takes_too_long_to_decode_is_refused(
    pair: Pair, keys: KeyFile, alice: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    decode = upload.decode_picture

    def laborious(*given: Any) -> np.ndarray:
        end = time.thread_time() + 0.15
        while time.thread_time() < end:
            pass
        return decode(*given)

    monkeypatch.setattr(upload, "decode_picture", laborious)
    with running(pair, keys, Limits(decode_seconds=0.5)) as live, live.client(alice) as client:
        assert client.post(EMBED, files=form(*[picture()] * 2)).status_code == 200
        refused = client.post(EMBED, files=form(*[picture()] * 8))
    assert refused.status_code == 413
    assert "too long to decode" in refused.json()["error"]
