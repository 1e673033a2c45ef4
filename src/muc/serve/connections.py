"""Connections that cost nothing to hold open would be held open: uvicorn's protocol, with clocks.

The application times the body of a request. What it cannot see is timed here: a head that never ends, a refused body
that goes on, an answer that nobody reads.
"""

import asyncio
import json
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from muc.serve.security import HEADERS

MOST_CONNECTIONS = 512
HEAD_SECONDS = 15.0  # from connecting, or from the last answer, to the end of the next request's head
SURPLUS_BYTES = 8_000_000  # that are read and thrown away after a refusal, so that an honest client gets to see it
READ_SECONDS = 30.0  # for the client to make room for more of the answer


class TimedProtocol(H11Protocol):
    _clock: asyncio.TimerHandle | None = None
    _surplus = 0

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        if len(self.connections) > MOST_CONNECTIONS:
            self._end_with(503, "Service Unavailable", "the server has too many connections; try again later")
        else:
            self._set_clock(HEAD_SECONDS)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_clock()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if not self._answering():
            self._surplus += len(data)
            if self._surplus > SURPLUS_BYTES:
                self.transport.abort()
        elif not self.flow.write_paused:
            self._surplus = 0
            self._stop_clock()

    def on_response_complete(self) -> None:
        super().on_response_complete()  # which may begin on a request that came with the last
        self._expect_next()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._set_clock(READ_SECONDS)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._expect_next()

    def send_400_response(self, msg: str) -> None:
        """For what is not HTTP at all: JSON, like every other error."""
        self._end_with(400, "Bad Request", "this is no valid HTTP request; use an HTTP client")

    def _answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _expect_next(self) -> None:
        """The clock for the next head. One that runs for an unread answer runs on, and while answering none does."""
        if self.flow.write_paused:
            return
        self._stop_clock()
        if not self._answering():
            self._set_clock(HEAD_SECONDS)

    def _set_clock(self, seconds: float) -> None:
        self._stop_clock()
        self._clock = self.loop.call_later(seconds, self.transport.abort)

    def _stop_clock(self) -> None:
        if self._clock is not None:
            self._clock.cancel()
            self._clock = None

    def _end_with(self, status: int, reason: str, sentence: str) -> None:
        if self.cycle is None or not self.cycle.response_started:
            body = json.dumps({"error": sentence})
            headers = {**HEADERS, "Content-Type": "application/json", "Content-Length": len(body)}
            lines = [f"HTTP/1.1 {status} {reason}", *(f"{k}: {v}" for k, v in headers.items()), "Connection: close"]
            self.transport.write(("\r\n".join(lines) + "\r\n\r\n" + body).encode())
        self.transport.close()
