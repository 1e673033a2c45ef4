"""The images of a multipart request, decoded one by one while it arrives.

No request is ever in memory as a whole: at most one file (5 MB), and of the earlier ones their few model-sized pixels.
Everything that can be refused is refused at the first byte that shows it. File names are not even looked at.
"""

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.requests import Request

from muc.serve.answers import over_budget
from muc.serve.limits import Limits
from muc.serve.picture import decode_picture
from muc.serve.refusal import Refusal

FIELD = b"images"


class Form:
    """Bytes in, finished files out."""

    def __init__(self, boundary: bytes, limits: Limits) -> None:
        self.limits = limits
        self.files: list[bytes] = []  # finished, not yet taken
        self.count = 0
        self.ended = False
        self._file = bytearray()
        self._name, self._value = bytearray(), bytearray()
        self._field: bytes | None = None
        self._parser = MultipartParser(
            boundary,
            {
                "on_part_begin": self._begin,
                "on_header_field": lambda data, start, end: self._name.extend(data[start:end]),
                "on_header_value": lambda data, start, end: self._value.extend(data[start:end]),
                "on_header_end": self._header,
                "on_headers_finished": self._check_field,
                "on_part_data": self._data,
                "on_part_end": self._end,
                "on_end": self._finish,
            },
        )

    def write(self, data: bytes) -> list[bytes]:
        """-> the files that these bytes complete."""
        if not self.ended:  # what follows the last boundary means nothing
            self._parser.write(data)
        files, self.files = self.files, []
        return files

    def _begin(self) -> None:
        self.count += 1
        if self.count > self.limits.images_per_request:
            raise Refusal(413, f"a request may hold {self.limits.images_per_request} images; send the rest in another")
        self._file, self._field = bytearray(), None

    def _header(self) -> None:
        if self._name.lower() == b"content-disposition":
            self._field = parse_options_header(bytes(self._value))[1].get(b"name")
        self._name, self._value = bytearray(), bytearray()

    def _check_field(self) -> None:
        if self._field != FIELD:
            raise Refusal(400, f"part {self.count} of the form is not named 'images'; send nothing but images")

    def _data(self, data: bytes, start: int, end: int) -> None:
        self._file += memoryview(data)[start:end]
        if len(self._file) > self.limits.bytes_per_image:
            most = f"{self.limits.bytes_per_image:,}"
            raise Refusal(413, f"image {self.count} has more than {most} bytes; shrink it or save it as JPEG")

    def _end(self) -> None:
        self.files.append(bytes(self._file))
        self._file = bytearray()

    def _finish(self) -> None:
        self.ended = True


async def read_upload(
    request: Request, shape: tuple[int, int], limits: Limits, threads: ThreadPoolExecutor, left: int, turn: asyncio.Lock
) -> np.ndarray:
    """(n, channels, side, side) uint8."""
    form = Form(_boundary(request), limits)
    _check_length(request, limits)
    loop, body = asyncio.get_running_loop(), aiter(request.stream())
    images: list[np.ndarray] = []
    received, waited, decoding = 0, 0.0, 0.0
    while True:
        begun = time.monotonic()
        try:
            async with asyncio.timeout(limits.upload_seconds + received / limits.bytes_per_second - waited):
                data = await anext(body)
        except StopAsyncIteration:
            break
        except TimeoutError:
            raise Refusal(408, "the images arrived too slowly; send them again, or fewer at a time") from None
        waited += time.monotonic() - begun
        received += len(data)
        if received > limits.body_bytes:
            raise _too_large(limits)
        try:
            files = form.write(data)
        except FormParserError:
            raise Refusal(400, "the body is no well-formed multipart/form-data; send the images as a form") from None
        if form.count > left:
            raise over_budget(left)
        for file in files:
            async with turn:
                pixels, took = await loop.run_in_executor(threads, _decode, file, len(images) + 1, shape, limits)
            images.append(pixels)
            decoding += took
            if decoding > limits.decode_seconds:
                raise Refusal(413, "the images take too long to decode; send smaller ones, or fewer at a time")
    if not form.ended:
        raise Refusal(400, "the form is cut off before its end; send it again as a whole")
    if not images:
        raise Refusal(400, f"the form holds no images; send 1 to {limits.images_per_request} in the field 'images'")
    return np.stack(images)


def _decode(file: bytes, number: int, shape: tuple[int, int], limits: Limits) -> tuple[np.ndarray, float]:
    """-> pixels, and the thread's own seconds: that others were decoded before is not this client's doing."""
    begun = time.thread_time()
    pixels = decode_picture(file, number, shape, limits)
    return pixels, time.thread_time() - begun


def _boundary(request: Request) -> bytes:
    kind, options = parse_options_header(request.headers.get("content-type", ""))
    if kind != b"multipart/form-data":
        raise Refusal(415, "the body is not multipart/form-data; send the images as a form with the field 'images'")
    boundary = options.get(b"boundary", b"")
    if not 1 <= len(boundary) <= 70:  # RFC 2046
        raise Refusal(400, "the Content-Type has no boundary of 1 to 70 characters; let your HTTP library set it")
    return boundary


def _check_length(request: Request, limits: Limits) -> None:
    """What the headers say already; what they say wrongly is found out while reading."""
    length = request.headers.get("content-length")
    if length is None and "transfer-encoding" not in request.headers:
        raise Refusal(411, "there is neither Content-Length nor a chunked body; send one of them")
    if length is not None and int(length) > limits.body_bytes:  # digits: the HTTP parser has seen to it
        raise _too_large(limits)


def _too_large(limits: Limits) -> Refusal:
    return Refusal(413, f"the body has more than {limits.body_bytes:,} bytes; send fewer or smaller images")
