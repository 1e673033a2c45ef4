"""What an audit asks for: what is served, and vectors of images."""

import asyncio
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any

import numpy as np
from fastapi import Depends, FastAPI, Query, Request
from starlette.responses import Response

from muc.serve.answers import ERRORS, errors, over_budget, unauthorised
from muc.serve.keys import Key, KeyFile, OverBudget, UnknownKey
from muc.serve.limits import Limits
from muc.serve.pair import Pair, Which
from muc.serve.refusal import Refusal
from muc.serve.rotation import Rotations
from muc.serve.schemas import PROTOCOL, About, Budget, Embedded, Hashes, Input, RequestLimits
from muc.serve.slots import Slots
from muc.serve.upload import read_upload
from muc.serve.worker import Worker


def add_about(app: FastAPI, known: Any, pair: Pair, limits: Limits) -> None:
    KnownKey = Annotated[Key, Depends(known)]

    @app.get("/v1/about", responses=errors(401, 503), summary="What is served, and what is left of the budget")
    async def about(key: KnownKey) -> About:
        channels, size = pair.shape
        return About(
            protocol=PROTOCOL,
            input=Input(channels=channels, size=size),
            models=Hashes(**pair.sha256),
            dimension=pair.dimension,
            limits=RequestLimits(
                images_per_request=limits.images_per_request,
                bytes_per_image=limits.bytes_per_image,
                pixels_per_image=limits.pixels_per_image,
            ),
            budget=Budget(total=key.budget, left=key.left),
            views=pair.views,
        )


def add_embedding(
    app: FastAPI,
    known: Any,
    pair: Pair,
    keys: KeyFile,
    limits: Limits,
    worker: Worker,
    decoders: ThreadPoolExecutor,
) -> None:
    """`known` lets nobody in without a key; `worker` has the models."""
    KnownKey = Annotated[Key, Depends(known)]
    rotations = Rotations(keys.secret(), pair.dimension)
    slots = Slots(limits.uploads_per_key, limits.uploads)
    turns: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)  # a key decodes one image at a time

    @app.post(
        "/v1/embed",
        response_model=Embedded,
        responses=errors(*ERRORS),
        openapi_extra={"requestBody": form_of(limits)},
        summary="Vectors of 1 to 64 images",
    )
    async def embed(
        request: Request, key: KnownKey, model: Annotated[Which, Query(description="Which of the two models.")]
    ) -> Response:
        if key.left < 1:
            raise over_budget(0)
        with slots.take(key.id):
            pixels = await read_upload(request, pair.shape, limits, decoders, key.left, turns[key.id])

            def job() -> bytes:
                """On the one thread for models: nothing else spends between the check and the charge."""
                keys.check(key.id, len(pixels))
                unit = pair.embed(model, pixels)
                if not np.isfinite(unit).all():
                    number = int(np.argmin(np.isfinite(unit).all(axis=1))) + 1
                    raise Refusal(422, f"the model has no finite vector for image {number}; leave it out")
                text = json_rows(rotations.apply(key.id, unit))
                left = keys.charge(key.id, len(pixels))  # last: whatever fails before costs nothing
                start = f'{{"model": "{model}", "model_sha256": "{pair.sha256[model]}", "vectors": '
                return f'{start}{text}, "budget_left": {left}}}'.encode()

            try:
                return Response(await worker.do(job), media_type="application/json")
            except OverBudget as error:
                raise over_budget(error.left) from None
            except UnknownKey:  # revoked while it waited
                raise unauthorised() from None


def json_rows(vectors: np.ndarray) -> str:
    """JSON with seven digits, as many as float32 holds. By hand: the general way takes many times as long."""
    return "[" + ", ".join("[" + ", ".join(map("%.7g".__mod__, row)) + "]" for row in vectors.tolist()) + "]"


def form_of(limits: Limits) -> dict[str, Any]:
    """The body's description: it is read as it arrives, so FastAPI cannot know it."""
    item = {"type": "string", "format": "binary", "description": "A PNG or JPEG file."}
    images = {"type": "array", "items": item, "minItems": 1, "maxItems": limits.images_per_request}
    schema = {"type": "object", "required": ["images"], "properties": {"images": images}, "additionalProperties": False}
    encoding = {"images": {"contentType": "image/png, image/jpeg"}}
    return {"required": True, "content": {"multipart/form-data": {"schema": schema, "encoding": encoding}}}
