"""The protocol over HTTP."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Annotated

from fastapi import Depends, FastAPI
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from starlette.types import ASGIApp

from muc import __version__
from muc.serve.answers import add_error_answers, unauthorised
from muc.serve.embedding import add_about, add_embedding
from muc.serve.judging import add_judging
from muc.serve.keys import Key, KeyFile, UnknownKey
from muc.serve.limits import Limits
from muc.serve.pair import Pair
from muc.serve.security import SecurityHeaders
from muc.serve.static import add_page
from muc.serve.worker import Worker

DESCRIPTION = """\
Vectors of images, from a model before and after unlearning, for data owners who audit it.

Every image embedded takes one off the key's budget; a request that fails takes nothing. All errors are
`{"error": "one sentence"}`."""


def build_app(pair: Pair, keys: KeyFile, limits: Limits | None = None) -> ASGIApp:
    """The whole endpoint; `inner_app` is it without the headers."""
    return SecurityHeaders(inner_app(pair, keys, limits or Limits()))


def inner_app(pair: Pair, keys: KeyFile, limits: Limits) -> FastAPI:
    models, statistics = Worker(limits.waiting, "embed"), Worker(limits.waiting, "judge")
    decoders = ThreadPoolExecutor(2, thread_name_prefix="muc-decode")

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncGenerator[None]:
        yield
        models.close()
        statistics.close()
        decoders.shutdown(cancel_futures=True)

    app = FastAPI(
        title="muc embedding endpoint",
        version=__version__,
        description=DESCRIPTION,
        lifespan=lifespan,
        docs_url=None,  # they load scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
    )
    known = known_by(keys)
    add_about(app, known, pair, limits)
    add_embedding(app, known, pair, keys, limits, models, decoders)
    add_judging(app, known, limits, statistics)
    add_page(app)
    add_error_answers(app)
    return app


def known_by(keys: KeyFile) -> Callable[..., Awaitable[Key]]:
    """What routes depend on that let nobody in without a key."""
    bearer = HTTPBearer(auto_error=False, description="The key that the model owner gave you.")

    async def known(shown: Annotated[HTTPAuthorizationCredentials | None, Depends(bearer)]) -> Key:
        if shown is None:
            raise unauthorised("there is no key; send the header 'Authorization: Bearer KEY'")
        try:
            return keys.find(shown.credentials)
        except UnknownKey:
            raise unauthorised() from None

    return known
