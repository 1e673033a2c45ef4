"""What is sent to break the server: it is refused early, in one sentence, and others do not notice."""

import io
import json
import re
import socket
import struct
import time
import zlib
from collections.abc import Iterator
from contextlib import suppress

import httpx
import numpy as np
import pytest
from live_server import Live, form, picture, running
from PIL import Image

from muc.serve import connections
from muc.serve.keys import KeyFile
from muc.serve.limits import Limits
from muc.serve.pair import Pair

GOOD = picture()
EMBED = "/v1/embed?model=after"


def post(live: Live, token: str, **options: object) -> httpx.Response:
    with live.client(token) as client:
        return client.post(EMBED, **options)  # type: ignore


def refused(answer: httpx.Response, status: int) -> str:
    assert answer.status_code == status, answer.text
    assert list(answer.json()) == ["error"]
    return answer.json()["error"]


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(width: int, height: int, *inside: bytes) -> bytes:
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + b"".join(inside) + chunk(b"IEND", b"")


def bomb(width: int, height: int) -> bytes:
    """A small file of a huge black picture."""
    packer = zlib.compressobj(9)
    row = bytes(1 + (width + 7) // 8)
    data = b"".join(packer.compress(row) for _ in range(height)) + packer.flush()
    return png(width, height, chunk(b"IDAT", data))


@pytest.mark.parametrize("side", [2001, 20_000, 2**31 - 1])
def test_decompression_bombs_are_refused_by_their_header(live: Live, alice: str, side: int) -> None:
    file = bomb(side, side) if side < 2**20 else png(side, side, chunk(b"IDAT", zlib.compress(b"0")))
    assert len(file) < 1_000_000
    begun = time.monotonic()
    assert f"{side}x{side}" in refused(post(live, alice, files=form(file)), 413)
    assert time.monotonic() - begun < 1


def test_four_megapixels_are_read(live: Live, alice: str) -> None:
    assert post(live, alice, files=form(bomb(2000, 2000))).status_code == 200


def scans(n: int) -> bytes:
    """A progressive JPEG whose last scan is there many times over: each is a pass over all pixels."""
    out = io.BytesIO()
    Image.fromarray(np.zeros((64, 64), np.uint8)).save(out, "JPEG", progressive=True)
    data = out.getvalue()
    last = data[data.rindex(b"\xff\xda") : data.rindex(b"\xff\xd9")]
    return data[: data.rindex(b"\xff\xd9")] + last * n + b"\xff\xd9"


def test_files_of_very_many_pieces_are_refused(live: Live, alice: str) -> None:
    assert "pieces" in refused(post(live, alice, files=form(scans(100))), 413)
    many = png(8, 8, chunk(b"tEXt", b"a\0b") * 20_000, chunk(b"IDAT", zlib.compress(bytes(16))))
    assert "pieces" in refused(post(live, alice, files=form(many)), 413)


def other_format(kind: str) -> bytes:
    out = io.BytesIO()
    Image.new("RGB", (8, 8)).save(out, kind)
    return out.getvalue()


@pytest.mark.parametrize("file", [b"", b"GIF89a", b"<svg onload=alert(1)>", b"%PDF-1.7", b"\x89PNG"])
def test_only_png_and_jpeg_by_content(live: Live, alice: str, file: bytes) -> None:
    assert "image 2" in refused(post(live, alice, files=form(GOOD, file)), 415)


@pytest.mark.parametrize("kind", ["GIF", "BMP", "WEBP", "TIFF", "ICO", "PPM"])
def test_other_formats_under_the_name_of_png(live: Live, alice: str, kind: str) -> None:
    refused(post(live, alice, files=form(other_format(kind))), 415)


@pytest.mark.parametrize("file", [GOOD[:60], GOOD[:20], picture(kind="JPEG")[:200], b"\xff\xd8\xff" + bytes(100)])
def test_damaged_images(live: Live, alice: str, file: bytes) -> None:
    assert "damaged" in refused(post(live, alice, files=form(file)), 422)


def test_ten_thousand_files_are_refused_at_the_sixty_fifth(live: Live, alice: str) -> None:
    begun = time.monotonic()
    assert "64" in refused(post(live, alice, files=form(*[GOOD] * 10_000)), 413)
    assert time.monotonic() - begun < 5
    assert live.keys.all()[0].used == 0
    assert post(live, alice, files=form(*[GOOD] * 64)).status_code == 200


@pytest.mark.parametrize(
    "name", ["<script>alert(1)</script>.png", '"><img src=x>.png', "../../etc/passwd", "a\r\nX: y"]
)
def test_file_names_are_never_echoed(live: Live, alice: str, name: str) -> None:
    for data in (b"no image", GOOD[:60], GOOD):
        answer = post(live, alice, files=[("images", (name, data, "text/html"))])
        assert answer.headers["Content-Type"] == "application/json"
        assert not re.search("script|img|passwd", answer.text + str(answer.headers))


def test_nothing_sent_is_echoed(live: Live, alice: str) -> None:
    with live.client(alice) as client:
        for path in ("/v1/embed?model=<script>", "/<script>", "/v1/embed?model=after&x=<script>"):
            answer = client.post(path, files=[("<script>", ("x", b"", "x"))], headers={"X-A": "<script>"})
            assert answer.status_code in (400, 404, 422)
            assert "script" not in answer.text


def test_an_image_of_too_many_bytes(live: Live, alice: str) -> None:
    assert "5,000,000" in refused(post(live, alice, files=form(GOOD + bytes(5_000_000))), 413)


def test_a_body_that_says_it_is_too_large_is_not_read(live: Live, alice: str) -> None:
    with socket.create_connection(("127.0.0.1", live.port), 10) as s:
        s.sendall(head(alice, f"Content-Length: {10**9}"))
        assert b" 413 " in s.recv(4096)


def test_a_body_that_does_not_say_so_is_cut_off_while_it_arrives(pair: Pair, keys: KeyFile, alice: str) -> None:
    """What follows the form never ends. (A refused client is still heard for some megabytes, and then no more.)"""
    sent = 0

    def endless() -> Iterator[bytes]:
        nonlocal sent
        yield b"--b\r\nContent-Disposition: form-data; name=images\r\n\r\n" + GOOD + b"\r\n--b--\r\n"
        while sent < 500_000_000:
            sent += 100_000
            yield bytes(100_000)

    kind = {"Content-Type": "multipart/form-data; boundary=b"}
    with running(pair, keys, Limits(bytes_per_image=10_000)) as live:
        assert "bytes" in refused(post(live, alice, content=endless(), headers=kind), 413)
    assert sent < 50_000_000


@pytest.mark.parametrize(
    ("kind", "body", "status"),
    [
        ("application/json", b"{}", 415),
        ("text/html", b"", 415),
        ("multipart/form-data", b"", 400),
        (f"multipart/form-data; boundary={'b' * 71}", b"", 400),
        ("multipart/form-data; boundary=b", b"no form", 400),
        ("multipart/form-data; boundary=b", b"--b--\r\n", 400),
        ("multipart/form-data; boundary=b", b"--b\r\nContent-Disposition: form-data; name=images\r\n\r\nab", 400),
        ("multipart/form-data; boundary=b", b"--b\r\nContent-Disposition: form-data; name=x\r\n\r\na\r\n--b--", 400),
        ("multipart/form-data; boundary=b", b"--b\r\n\r\na\r\n--b--", 400),
        ("multipart/form-data; boundary=b", b"--b\r\n" + b"A" * 100_000, 400),
        ("multipart/form-data; boundary=b", b"--b\r\n" + b"A: b\r\n" * 10_000, 400),
    ],
)
def test_bodies_that_are_no_form_of_images(live: Live, alice: str, kind: str, body: bytes, status: int) -> None:
    refused(post(live, alice, content=body, headers={"Content-Type": kind}), status)


def head(token: str, *lines: str) -> bytes:
    start = [f"POST {EMBED} HTTP/1.1", "Host: x", f"Authorization: Bearer {token}"]
    return "\r\n".join([*start, "Content-Type: multipart/form-data; boundary=b", *lines, "", ""]).encode()


def test_a_body_of_unknown_length(live: Live, alice: str) -> None:
    with socket.create_connection(("127.0.0.1", live.port), 10) as s:
        s.sendall(head(alice))
        assert b" 411 " in s.recv(4096)


def test_what_is_not_http_gets_json_too(live: Live) -> None:
    with socket.create_connection(("127.0.0.1", live.port), 10) as s:
        s.sendall(b"\x16\x03\x01 hello\r\n\r\n")
        status, _, body = s.recv(4096).partition(b"\r\n\r\n")
    assert b" 400 " in status
    assert list(json.loads(body)) == ["error"]


def test_slow_clients_are_cut_off_and_do_not_block_others(pair: Pair, keys: KeyFile, alice: str) -> None:
    bob = keys.add("bob", 1000)
    with running(pair, keys, Limits(upload_seconds=3)) as live, live.client(bob) as client:
        client.get("/v1/about")
        slow = [socket.create_connection(("127.0.0.1", live.port), 10) for _ in range(8)]
        for s in slow:
            s.sendall(head(alice, "Content-Length: 1000") + b"--b\r\n")
        time.sleep(0.3)
        begun = time.monotonic()
        assert client.post(EMBED, files=form(GOOD)).status_code == 200
        assert time.monotonic() - begun < 1.5
        # The slow ones take up all that their key may, and not more.
        busy = post(live, alice, files=form(GOOD))
        refused(busy, 429)
        assert int(busy.headers["Retry-After"]) >= 1
        for s in slow:
            assert b" 408 " in s.recv(4096)
            s.close()
        assert post(live, alice, files=form(GOOD)).status_code == 200


def test_a_client_that_drips_is_cut_off_too(pair: Pair, keys: KeyFile, alice: str) -> None:
    with running(pair, keys, Limits(upload_seconds=1)) as live, socket.create_connection(("127.0.0.1", live.port)) as s:
        s.sendall(head(alice, "Content-Length: 1000") + b"--b\r\n")
        s.settimeout(0.1)
        begun, answer = time.monotonic(), b""
        while not answer and time.monotonic() - begun < 10:
            s.sendall(b"A")
            try:
                answer = s.recv(4096)
            except TimeoutError:
                continue
    assert b" 408 " in answer
    assert time.monotonic() - begun < 3


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nX-Slow: "])
def test_a_head_that_never_ends_is_cut_off(
    pair: Pair, keys: KeyFile, alice: str, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.5)
    with running(pair, keys) as live, socket.create_connection(("127.0.0.1", live.port), 5) as s:
        s.sendall(sent)
        begun = time.monotonic()
        assert s.recv(1) == b""
        assert 0.3 < time.monotonic() - begun < 3
        with live.client(alice) as client:  # an honest one is not cut off in the middle
            assert client.post(EMBED, files=form(*[GOOD] * 64)).status_code == 200


def test_an_answer_that_nobody_reads_is_given_up(
    pair: Pair, keys: KeyFile, alice: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "READ_SECONDS", 0.5)
    part = b"--b\r\nContent-Disposition: form-data; name=images; filename=x\r\n\r\n" + GOOD + b"\r\n"
    body = part * 64 + b"--b--\r\n"
    with running(pair, keys) as live, socket.socket() as s:
        assert post(live, alice, files=form(GOOD)).status_code == 200  # the first one takes longer
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
        s.connect(("127.0.0.1", live.port))
        s.settimeout(10)
        request = head(alice, f"Content-Length: {len(body)}") + body
        for _ in range(60):  # their answers, 12 MB, are more than the kernel holds
            s.sendall(request)
        served, before = 0, -1
        while served > before:  # until no more are answered
            time.sleep(2)
            served, before = keys.all()[0].used // 64, served
        assert 0 < served < 60
        received = 0
        with suppress(ConnectionResetError):
            while data := s.recv(1_000_000):
                received += len(data)
    assert keys.all()[0].used // 64 == served  # reading on does not revive it
    assert received > 100_000


def test_too_many_connections_are_told_so(
    pair: Pair, keys: KeyFile, alice: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "MOST_CONNECTIONS", 3)
    with running(pair, keys) as live:
        held = [socket.create_connection(("127.0.0.1", live.port)) for _ in range(3)]
        time.sleep(0.3)
        refused(post(live, alice, files=form(GOOD)), 503)
        for s in held:
            s.close()
        time.sleep(0.3)
        assert post(live, alice, files=form(GOOD)).status_code == 200
