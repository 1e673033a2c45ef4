"""The client of `muc serve`: patient where the service is busy, brief where it refuses."""

import time
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import urlsplit

import httpx

from muc.audit.protocol.endpoint import About, Reply
from muc.audit.protocol.folder import Phase
from muc.audit.protocol.records import digest, is_digest
from muc.config import Views
from muc.errors import UserError, printable
from muc.restoring import restore

PROTOCOL = 1
ATTEMPTS = 6
FIRST_ATTEMPTS = 2
"""Of a service that has never answered: it may have another address."""
LONGEST_WAIT = 120.0
"""Seconds that a service may ask to wait; beyond, a person should decide."""
LARGEST_ANSWER = 16_000_000
"""Bytes; vectors of 16 pictures, the most that are asked about at once, take some hundred thousand."""


class HttpEndpoint:
    def __init__(
        self,
        url: str,
        key: str,
        transport: httpx.BaseTransport | None = None,
        sleep: Callable[[float], None] = time.sleep,
        tell: Callable[[str], None] = lambda text: None,
    ) -> None:
        _check_address(url)
        if not key or not key.isascii() or not key.isprintable() or " " in key:
            raise UserError("the key is empty or holds characters that no key has; give it as the service gave it")
        self.url, self.sleep, self.tell, self.key_sha256 = url, sleep, tell, digest(key.encode())
        headers = {"Authorization": f"Bearer {key}", "Accept-Encoding": "identity"}
        self.client = httpx.Client(base_url=url, headers=headers, timeout=60.0, transport=transport)
        self.answered = False

    def about(self, phase: Phase) -> About:
        values = self._ask("GET", "/v1/about")
        try:
            protocol, limits = values["protocol"], values["limits"]
            about = About(
                channels=_whole(values["input"]["channels"]),
                size=_whole(values["input"]["size"]),
                model_sha256=str(values["models"][phase]) if phase in values["models"] else None,
                before_sha256=str(values["models"]["before"]) if "before" in values["models"] else None,
                dimension=_whole(values["dimension"]),
                budget_left=_whole(values["budget"]["left"]),
                images_per_request=_whole(limits["images_per_request"]),
                bytes_per_image=_whole(limits["bytes_per_image"]),
                views=self._views(values.get("views")),
                key_sha256=self.key_sha256,
            )
            pixels = _whole(limits["pixels_per_image"])
        except (KeyError, TypeError, ValueError):
            raise UserError(f"{self.url} does not answer like an embedding endpoint; is it a muc serve?") from None
        if protocol != PROTOCOL:
            raise UserError(f"{self.url} speaks protocol {str(protocol)[:20]}, this muc speaks {PROTOCOL}; upgrade muc")
        if about.model_sha256 is None or not is_digest(about.model_sha256):
            raise UserError(f"{self.url} does not serve a model '{phase}' under a SHA-256; ask its operator for both")
        if about.channels not in (1, 3) or not 4 <= about.size <= 4096 or about.size**2 > pixels:
            raise UserError(
                f"{self.url} wants pictures of {about.channels} channels and {about.size} pixels a side, "
                f"at most {pixels} pixels; ask its operator to correct this"
            )
        return about

    def _views(self, values: Any) -> Views | None:
        """Optional: an endpoint need not say how its model was trained."""
        try:
            return None if values is None else restore(Views, values, self.url, defaults=True)
        except UserError:
            raise UserError(
                f"{self.url} says that its model was trained with views that cannot be; tell its operator"
            ) from None

    def embed(self, pngs: Sequence[bytes], phase: Phase) -> Reply:
        files = [("images", (f"{i}.png", png, "image/png")) for i, png in enumerate(pngs)]
        values = self._ask("POST", f"/v1/embed?model={phase}", files)
        try:
            return Reply(values["vectors"], str(values["model_sha256"]), _whole(values["budget_left"]))
        except (KeyError, TypeError, ValueError):
            raise UserError(f"{self.url} answered without vectors; is it a muc serve?") from None

    def _ask(self, method: str, path: str, files: list[Any] | None = None) -> Any:
        """The JSON of a good answer. A busy or slow service is asked again, a few times, each time later."""
        for attempt in range(ATTEMPTS):
            wait = float(2**attempt)
            try:
                response = self._receive(method, path, files)
            except httpx.TimeoutException:
                trouble = "does not answer in time"
            except httpx.TransportError as error:
                trouble = f"cannot be reached ({type(error).__name__})"
            else:
                self.answered = True
                if response.status_code not in (429, 502, 503, 504):
                    return self._read(response)
                trouble = f"is busy ({_sentence(response) or f'status {response.status_code}'})"
                wait = _retry_after(response, wait)
                if wait > LONGEST_WAIT:
                    raise UserError(f"{self.url} {trouble} and asks to come back in {wait:.0f} s; collect again then")
            attempts = ATTEMPTS if self.answered else FIRST_ATTEMPTS
            if attempt + 1 == attempts:
                break
            self.tell(f"{self.url} {trouble}; trying again in {wait:.0f} s ({attempt + 1} of {attempts - 1})")
            self.sleep(wait)
        if not self.answered:
            raise UserError(f"{self.url} {trouble}; check the address, or run the same command again later")
        raise UserError(f"{self.url} {trouble}; what was answered is kept: run the same command again later")

    def _receive(self, method: str, path: str, files: list[Any] | None) -> httpx.Response:
        """Whole, but never more of it than an answer has: nobody vouches for who is asked."""
        with self.client.stream(method, path, files=files) as response:
            packing = response.headers.get("content-encoding", "identity").strip().lower()
            if packing not in ("", "identity"):  # a few bytes can unpack to gigabytes
                raise UserError(
                    f"{self.url} answers packed, as '{printable(packing, 20)}', which was not asked for; "
                    "ask its operator to answer plainly"
                )
            body = bytearray()
            for part in response.iter_bytes():
                body += part
                if len(body) > LARGEST_ANSWER:
                    raise UserError(
                        f"{self.url} answers with more than {LARGEST_ANSWER // 10**6} MB; "
                        "check the address, or ask its operator what it sends"
                    )
            return httpx.Response(response.status_code, headers=response.headers, content=bytes(body))

    def _read(self, response: httpx.Response) -> Any:
        said = _sentence(response)
        if response.status_code == 401 or (response.status_code == 403 and "budget" not in said.lower()):
            raise UserError(f"{self.url} refuses the key; give the one it handed out, in MUC_AUDIT_KEY or --key-file")
        if response.status_code != 200:
            raise UserError(
                f"{self.url} refuses with status {response.status_code} ({said or 'and no reason'}); "
                "what was answered is kept"
            )
        try:
            return response.json()
        except (ValueError, RecursionError):
            raise UserError(f"{self.url} answered with something other than JSON; is it a muc serve?") from None


def _check_address(url: str) -> None:
    try:
        parts = urlsplit(url)
    except ValueError:
        parts = urlsplit("")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UserError(f"the endpoint '{url}' is no address; give one such as https://example.org")
    try:
        known = parts.port != 0
    except ValueError:
        known = False
    if not known:
        port = parts.netloc.rpartition(":")[2]
        raise UserError(f"the endpoint '{url}' has the port '{port}'; give one from 1 to 65,535, or none")


def _whole(value: Any) -> int:
    if type(value) is not int:
        raise TypeError
    return value


def _sentence(response: httpx.Response) -> str:
    """What the service says went wrong, fit for one line of a terminal: it is a stranger's text."""
    try:
        said = response.json()["error"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return ""
    return printable(str(said), 200)


def _retry_after(response: httpx.Response, otherwise: float) -> float:
    """Seconds. The header may also be a date, which is not worth the clocks it compares."""
    try:
        return max(0.0, float(response.headers["retry-after"]))
    except (KeyError, ValueError):
        return otherwise
