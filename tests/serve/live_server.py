"""A real server in a thread, and what to send it."""

import io
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass

import httpx
import numpy as np
from PIL import Image

from muc import config
from muc.serve.app import build_app
from muc.serve.keys import KeyFile
from muc.serve.limits import Limits
from muc.serve.pair import Pair
from muc.serve.server import bind, make_server

CPU = config.Runtime(device="cpu", threads=1)


@dataclass(frozen=True)
class Live:
    """A running server."""

    port: int
    keys: KeyFile

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def client(self, token: str | None = None) -> httpx.Client:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        return httpx.Client(base_url=self.url, headers=headers, timeout=30)


@contextmanager
def running(pair: Pair, keys: KeyFile, limits: Limits | None = None) -> Generator[Live]:
    server = make_server(build_app(pair, keys, limits))
    with bind("127.0.0.1", 0) as listener:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            while not server.started:
                assert thread.is_alive()
                thread.join(0.01)
            yield Live(listener.getsockname()[1], keys)
        finally:
            server.should_exit = True
            thread.join(20)
            assert not thread.is_alive()


def picture(seed: int = 0, size: tuple[int, int] = (12, 9), kind: str = "PNG") -> bytes:
    pixels = np.random.default_rng(seed).integers(256, size=(*size, 3), dtype=np.uint8)
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, kind)
    return out.getvalue()


def form(*files: bytes) -> list[tuple[str, tuple[str, bytes, str]]]:
    return [("images", ("x.png", data, "image/png")) for data in files]
