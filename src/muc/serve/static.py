"""The files of page/, which a browser gets at /. They are read once: no path of a request reaches the disk."""

from mimetypes import guess_type
from pathlib import Path

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response

PAGE = Path(__file__).parent / "page"


def add_page(app: FastAPI) -> None:
    """page/index.html at /, every other file under its name."""
    for file in sorted(PAGE.iterdir()):
        if file.is_file() and not file.name.startswith("."):
            add_file(app, "/" if file.name == "index.html" else f"/{file.name}", file)


def add_file(app: FastAPI, path: str, file: Path) -> None:
    content, kind = file.read_bytes(), guess_type(file.name)[0] or "application/octet-stream"

    async def answer(request: Request) -> Response:
        return Response(content, media_type=kind)

    app.add_route(path, answer, methods=["GET"], include_in_schema=False)
