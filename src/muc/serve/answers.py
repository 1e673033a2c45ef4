"""How the endpoint says no: one sentence in JSON, whatever went wrong."""

import sys
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from muc.errors import UserError
from muc.serve.refusal import Refusal
from muc.serve.schemas import Error

ERRORS = {
    400: "The form is not well-formed, is cut off, or holds something else than images.",
    401: "There is no key, or it is not valid.",
    403: "The request has more images than the key's budget has left. Nothing was charged.",
    408: "The body arrived too slowly.",
    411: "The request says nothing of its body's length.",
    413: "Too many images, or too large ones.",
    415: "The body is no form, or a file is neither PNG nor JPEG.",
    422: "A parameter is missing or not valid, or an image is damaged.",
    429: "Too much is under way; try again after Retry-After seconds.",
    503: "The server cannot do its work now.",
}


def errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Their description for OpenAPI."""
    found: dict[int | str, dict[str, Any]] = {s: {"model": Error, "description": ERRORS[s]} for s in statuses}
    if 429 in found:
        seconds = {"description": "Seconds.", "schema": {"type": "integer", "minimum": 1}, "required": True}
        found[429]["headers"] = {"Retry-After": seconds}
    return found


def unauthorised(sentence: str = "the key is not valid; check it, or ask the model owner for one") -> Refusal:
    return Refusal(401, sentence, {"WWW-Authenticate": "Bearer"})


def over_budget(left: int) -> Refusal:
    """403 and not 429: waiting does not help."""
    return Refusal(403, f"of the key's budget {left} images are left, and more were sent; send fewer, or ask for more")


def add_error_answers(app: FastAPI) -> None:
    """Whatever goes wrong, the client gets one sentence in JSON."""

    def answer(status: int, sentence: str, headers: dict[str, str] | None = None) -> JSONResponse:
        return JSONResponse({"error": sentence}, status, headers)

    @app.exception_handler(Refusal)
    async def refused(_: Request, error: Refusal) -> Response:
        return answer(error.status, error.sentence, error.headers)

    @app.exception_handler(HTTPException)
    async def plain(_: Request, error: HTTPException) -> Response:
        sentences = {
            404: "there is nothing at this address; see /openapi.json for what there is",
            405: "this address does not take this method; see /openapi.json for what it takes",
        }
        return answer(error.status_code, sentences.get(error.status_code, "bad request"), dict(error.headers or {}))

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> Response:
        name = str(error.errors()[0]["loc"][-1])
        expected = {"model": "give model=before or model=after", "images": "give a number from 6 to 60"}
        return answer(422, f"the parameter '{name}' is missing or not valid; {expected.get(name, 'see /openapi.json')}")

    @app.exception_handler(ClientDisconnect)
    async def gone(_: Request, error: ClientDisconnect) -> Response:
        return answer(400, "the client left")  # nobody reads this

    @app.exception_handler(UserError)
    @app.exception_handler(OSError)
    async def cannot(_: Request, error: Exception) -> Response:
        """A key file that is damaged, a disk that is full: for the operator to see, and not for the client."""
        print(f"muc serve: {error}", file=sys.stderr)
        return answer(503, "the server cannot do its work now; tell the model owner", {"Retry-After": "60"})

    @app.exception_handler(Exception)
    async def broken(_: Request, error: Exception) -> Response:
        return answer(500, "something went wrong in the server; tell the model owner")
