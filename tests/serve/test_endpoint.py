"""What data owners are answered: the model's cosines, in coordinates of their own, as far as the budget goes."""

import re
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from live_server import CPU, Live, form, picture, running

from muc.opening import embedder
from muc.pictures.decode import read_image
from muc.run_folder import RunFolder
from muc.serve import upload
from muc.serve.keys import KeyFile
from muc.serve.pair import Pair

PICTURES = [picture(i, kind="JPEG" if i % 2 else "PNG", size=(12 + i, 30 - i)) for i in range(5)]


def cosines(vectors: np.ndarray) -> np.ndarray:
    vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors @ vectors.T


def ask(live: Live, token: str, model: str, *files: bytes) -> np.ndarray:
    with live.client(token) as client:
        answer = client.post("/v1/embed", params={"model": model}, files=form(*files))
    assert answer.status_code == 200, answer.text
    return np.array(answer.json()["vectors"])


def test_vectors_are_the_models_up_to_length_and_rotation(
    live: Live, alice: str, runs: tuple[RunFolder, RunFolder], tmp_path: Path
) -> None:
    vectors, features = [], []
    for model, run in zip(("before", "after"), runs, strict=True):
        embed = embedder(run, CPU)
        channels, size = embed.input_shape
        pixels = []
        for i, data in enumerate(PICTURES):
            (tmp_path / f"{i}").write_bytes(data)
            pixels.append(read_image(tmp_path / f"{i}", size, channels))
        features.append(embed(np.stack(pixels)))
        vectors.append(ask(live, alice, model, *PICTURES))
        assert np.allclose(np.linalg.norm(vectors[-1], axis=1), 1, atol=1e-6)
    # Over both models together: the rotation is the same for both.
    assert np.allclose(cosines(np.concatenate(vectors)), cosines(np.concatenate(features)), atol=2e-6)
    unit = np.concatenate(features) / np.linalg.norm(np.concatenate(features), axis=1, keepdims=True)
    assert np.abs(unit - np.concatenate(vectors)).max() > 0.01
    assert np.abs(vectors[0] - vectors[1]).max() > 1e-3  # the two are different models


def test_vectors_have_seven_digits_at_most(live: Live, alice: str) -> None:
    with live.client(alice) as client:
        text = client.post("/v1/embed?model=after", files=form(*PICTURES)).text
    numbers = re.findall(r"-?[\d.]+(?:e-?\d+)?", text[text.index("[[") : text.index("]]")])
    assert len(numbers) > 100
    assert max(len(re.sub(r"e.*|[-.]", "", n).lstrip("0")) for n in numbers) == 7


def test_two_keys_agree_on_cosines_and_on_nothing_else(live: Live, alice: str) -> None:
    bob = live.keys.add("bob", 10)  # while the server runs
    ours, theirs = ask(live, alice, "after", *PICTURES), ask(live, bob, "after", *PICTURES)
    assert np.allclose(cosines(ours), cosines(theirs), atol=2e-6)
    assert np.abs((ours * theirs).sum(axis=1)).max() < 0.9
    # Asked again, the same up to float32: the sums in a model are not always taken in one order.
    assert np.allclose(ours, ask(live, alice, "after", *PICTURES), rtol=0, atol=1e-6)


def test_about_says_what_is_served(live: Live, alice: str, pair: Pair, runs: tuple[RunFolder, RunFolder]) -> None:
    before, after = runs
    with live.client(alice) as client:
        assert client.get("/v1/about").json() == {
            "protocol": 1,
            "input": {"channels": 1, "size": 8},
            "models": {"before": before.result()["model_sha256"], "after": after.result()["model_sha256"]},
            "dimension": pair.dimension,
            "limits": {"images_per_request": 64, "bytes_per_image": 5_000_000, "pixels_per_image": 4_000_000},
            "budget": {"total": 100_000, "left": 100_000},
            "views": before.config()["pretraining"]["views"],
        }
        answer = client.post("/v1/embed?model=before", files=form(*PICTURES)).json()
        assert answer["model"] == "before"
        assert answer["model_sha256"] == before.result()["model_sha256"]
        assert answer["budget_left"] == client.get("/v1/about").json()["budget"]["left"] == 100_000 - len(PICTURES)


@pytest.mark.parametrize("header", [None, "Bearer wrong", "Bearer", "Basic YWxpY2U6", "Bearer \xe9", "Bearer a b"])
def test_nobody_is_served_without_a_valid_key(live: Live, header: str | None) -> None:
    headers = {} if header is None else {b"Authorization": header.encode("latin-1")}
    with live.client() as client:
        for method, path in (("GET", "/v1/about"), ("POST", "/v1/embed?model=after"), ("POST", "/v1/embed")):
            answer = client.request(method, path, headers=headers)
            assert answer.status_code == 401
            assert answer.headers["WWW-Authenticate"] == "Bearer"
            assert list(answer.json()) == ["error"]


def test_a_revoked_key_is_refused_by_a_running_server(live: Live, alice: str) -> None:
    with live.client(alice) as client:
        assert client.get("/v1/about").status_code == 200
        live.keys.revoke("alice")
        assert client.get("/v1/about").status_code == 401


def test_a_request_over_budget_is_refused_whole_and_budgets_survive_a_restart(pair: Pair, keys: KeyFile) -> None:
    token = keys.add("carol", 7)
    with running(pair, keys) as live, live.client(token) as client:
        assert client.post("/v1/embed?model=before", files=form(*PICTURES)).json()["budget_left"] == 2
        answer = client.post("/v1/embed?model=before", files=form(*PICTURES[:3]))
        assert answer.status_code == 403
        assert "Retry-After" not in answer.headers
        assert "2 images are left" in answer.json()["error"]
    with running(pair, KeyFile(keys.run)) as live, live.client(token) as client:
        assert client.get("/v1/about").json()["budget"] == {"total": 7, "left": 2}
        assert client.post("/v1/embed?model=after", files=form(*PICTURES[:2])).json()["budget_left"] == 0
        assert client.post("/v1/embed?model=after", files=form(PICTURES[0])).status_code == 403


def test_failures_cost_nothing(live: Live, alice: str) -> None:
    with live.client(alice) as client:
        assert client.post("/v1/embed?model=before", files=form(*PICTURES, b"no image")).status_code == 415
        assert client.post("/v1/embed?model=between", files=form(*PICTURES)).status_code == 422
        assert client.get("/v1/about").json()["budget"]["left"] == 100_000


def test_more_than_the_budget_is_not_even_decoded(pair: Pair, keys: KeyFile, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would cost nothing, and take the time of others."""
    token, decode, decoded = keys.add("eve", 2), upload.decode_picture, []

    def note(*given: Any) -> np.ndarray:
        decoded.append(given)
        return decode(*given)

    monkeypatch.setattr(upload, "decode_picture", note)
    with running(pair, keys) as live, live.client(token) as client:
        answer = client.post("/v1/embed?model=before", files=form(*[picture()] * 60))
    assert answer.status_code == 403
    assert len(decoded) <= 2  # those that came before it was known that more come
    assert "2 images are left" in answer.json()["error"]


def test_a_budget_is_not_spent_twice_by_requests_at_the_same_time(pair: Pair, keys: KeyFile) -> None:
    """Two servers over one file, eight clients, a budget for half of what they ask."""
    token, statuses = keys.add("dave", 20), []
    with running(pair, keys) as one, running(pair, KeyFile(keys.run)) as two:

        def spend(live: Live) -> None:
            with live.client(token) as client:
                for _ in range(5):
                    statuses.append(client.post("/v1/embed?model=after", files=form(PICTURES[0])).status_code)

        threads = [threading.Thread(target=spend, args=(live,)) for live in (one, two) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(statuses) == [200] * 20 + [403] * 20
    assert keys.all()[0].used == 20


def test_what_fails_after_embedding_is_not_charged(pair: Pair, keys: KeyFile, monkeypatch: pytest.MonkeyPatch) -> None:
    token = keys.add("erin", 5)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device", "/secret/path")

    with running(pair, keys) as live, live.client(token) as client:
        with monkeypatch.context() as patch:
            patch.setattr("muc.serve.keys.write_json", full)
            answer = client.post("/v1/embed?model=after", files=form(PICTURES[0]))
        assert answer.status_code == 503
        assert "vectors" not in answer.json()
        assert "secret" not in answer.text
        assert client.get("/v1/about").json()["budget"]["left"] == 5


@pytest.mark.parametrize("path", ["/", "/page.css", "/page.js", "/openapi.json", "/v1/about", "/nothing", "/../keys"])
def test_every_answer_has_the_security_headers_and_loads_nothing_from_elsewhere(live: Live, path: str) -> None:
    with live.client() as client:
        answer = client.get(path)
    assert "default-src 'self'" in answer.headers["Content-Security-Policy"]
    assert "frame-ancestors 'none'" in answer.headers["Content-Security-Policy"]
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Referrer-Policy"] == "no-referrer"
    assert "server" not in answer.headers
    assert not re.search(r"(src|href)=[\"']?(https?:)?//", answer.text)


def test_there_are_no_documentation_pages_from_a_cdn(live: Live) -> None:
    with live.client() as client:
        for path in ("/docs", "/redoc", "/docs/oauth2-redirect", "/serve/secret", "/%2e%2e/keys.py"):
            assert client.get(path).status_code == 404
        wrong = client.put("/v1/embed")
        assert (wrong.status_code, wrong.headers["Allow"]) == (405, "POST")
        assert list(wrong.json()) == ["error"]


def test_a_mistake_of_our_own_is_no_traceback(
    pair: Pair, keys: KeyFile, alice: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def break_(*_: object) -> None:
        raise RuntimeError("inner details")

    monkeypatch.setattr(KeyFile, "check", break_)
    with running(pair, keys) as live, live.client(alice) as client:
        answer = client.post("/v1/embed?model=after", files=form(PICTURES[0]))
    assert answer.status_code == 500
    assert "inner" not in answer.text
    assert "default-src 'self'" in answer.headers["Content-Security-Policy"]
    assert list(answer.json()) == ["error"]
