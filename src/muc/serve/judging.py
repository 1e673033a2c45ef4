"""What the data owner's page asks for beside vectors: a plan, and what follows from the matrices it has computed.

Both are pure functions of what is sent, and a data owner who trusts nobody computes them at home (`muc audit verdict`).
"""

import asyncio
from functools import cache
from typing import Annotated, Any

import numpy as np
from fastapi import Depends, FastAPI, Query, Request
from pydantic import BaseModel, Field, ValidationError

from muc.audit import MEASURED, Effect, decide_by_memory, hold_back_test, memory_of, plan, planted_power
from muc.audit.contrasts import FEWEST as FEWEST_OF_A_GROUP
from muc.audit.contrasts import STATISTICS, checked_groups, contrasts
from muc.audit.splits import possible_splits
from muc.audit.verdict import UNCHANGED, same_model
from muc.errors import UserError
from muc.serve.answers import errors
from muc.serve.keys import Key
from muc.serve.limits import Limits
from muc.serve.refusal import Refusal
from muc.serve.slots import Slots
from muc.serve.worker import Worker

FEWEST, LARGEST = 6, 60
"""Images of one audit by the page; the statistics' time grows with their square."""
LARGEST_BODY, BODY_SECONDS = 200_000, 10.0
SPLITS = 2000
BINS = 40


class Planned(BaseModel):
    n_forget: int
    n_control: int
    power: float
    reference: str


Alignments = Annotated[
    list[Annotated[float, Field(ge=-1, le=1, allow_inf_nan=False)]],
    Field(min_length=FEWEST_OF_A_GROUP, max_length=LARGEST),
]


class Alike(BaseModel):
    """How alike the model before finds views of one image, in cosine: one number for each image."""

    published: Annotated[Alignments, Field(description="Of the images that the model owner had.")]
    withheld: Annotated[Alignments, Field(description="Of images of the same kind that the model owner never had.")]


class Matrix(BaseModel):
    """Before - after, and which of the images were named in the request."""

    gap: Annotated[list[list[float]], Field(min_length=FEWEST, max_length=LARGEST)]
    forget: Annotated[list[bool], Field(min_length=FEWEST, max_length=LARGEST)]
    memory: Alike | None = Field(
        None, description="Without it, it is not known what the model remembered, and 'no change found' not said."
    )


BODY = Matrix.model_json_schema()
BODY["properties"]["memory"]["anyOf"][0] = BODY.pop("$defs")["Alike"]  # references would not hold within OpenAPI


class Histogram(BaseModel):
    edges: list[float]
    counts: list[int]
    observed: float


class Remembered(BaseModel):
    """Mean of the published images minus that of the withheld ones, in cosine, with an interval."""

    value: float
    low: float
    high: float


class Judged(BaseModel):
    verdict: str
    words: str
    p: float
    power: float
    reference: str
    contrasts: dict[str, dict[str, float]]
    null: dict[str, Histogram]
    memory: Remembered | None = Field(None, description="Of the model before; null where nothing was sent to tell.")


def add_judging(app: FastAPI, known: Any, limits: Limits, worker: Worker) -> None:
    """`known` lets nobody in without a key; `worker` computes, and does nothing else that others would wait for."""
    KnownKey = Annotated[Key, Depends(known)]
    plans, verdicts = Slots(limits.uploads_per_key, limits.uploads), Slots(1, limits.uploads)

    @app.get("/v1/plan", responses=errors(401, 422, 429, 503), summary="How to split n images")
    async def planned(
        key: KnownKey, images: Annotated[int, Query(ge=FEWEST, le=LARGEST, description="How many there are.")]
    ) -> Planned:
        with plans.take(key.id):
            return await worker.do(lambda: plan_for(images))

    @app.post(
        "/v1/verdict",
        responses=errors(400, 401, 408, 413, 422, 429, 503),
        openapi_extra={"requestBody": {"required": True, "content": {"application/json": {"schema": BODY}}}},
        summary="What follows from the matrices",
    )
    async def judged(request: Request, key: KnownKey) -> Judged:
        with verdicts.take(key.id):
            matrix = read_matrix(await read_body(request))
            return await worker.do(lambda: judge(matrix))


async def read_body(request: Request) -> bytes:
    """As it arrives: a body that is too large or too slow is refused before it is all here."""
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for part in request.stream():
                body += part
                if len(body) > LARGEST_BODY:
                    raise Refusal(413, f"the body is larger than {LARGEST_BODY:,} bytes; send at most {LARGEST} images")
    except TimeoutError:
        raise Refusal(408, f"the body did not arrive within {BODY_SECONDS:g} seconds; send it again") from None
    return bytes(body)


def read_matrix(body: bytes) -> Matrix:
    try:
        return Matrix.model_validate_json(body)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the body"
        raise Refusal(422, f"{where} is not as expected ({first['msg']}); see /openapi.json") from None


@cache
def plan_for(images: int) -> Planned:
    found = plan(images, MEASURED["retrain"])
    return Planned(n_forget=found.n_forget, n_control=found.n_control, power=found.power, reference=found.reference)


def judge(matrix: Matrix) -> Judged:
    try:
        gap, forget = checked_groups(np.array(matrix.gap, dtype=np.float64), np.array(matrix.forget))
    except (UserError, ValueError) as error:  # rows of unequal length, too few images in a group
        raise Refusal(422, str(error).splitlines()[0]) from None
    if np.abs(gap).max() > 2:
        raise Refusal(422, f"the matrix holds {np.abs(gap).max():g}; differences of cosines lie between -2 and 2")
    evidence = hold_back_test(gap, forget)

    def power_of(effect: Effect) -> float:
        return planted_power(gap, int(forget.sum()), effect)

    memory = None
    if matrix.memory is not None:
        memory = memory_of(np.array(matrix.memory.published), np.array(matrix.memory.withheld))
    verdict = decide_by_memory(evidence, memory, power_of)
    if np.abs(gap).max() < UNCHANGED:
        verdict = same_model(verdict)
    values = contrasts(gap, possible_splits(forget, SPLITS, seed=0))
    return Judged(
        verdict=verdict.verdict,
        words=verdict.words,
        p=evidence.p,
        power=verdict.power,
        reference=verdict.reference,
        contrasts={
            name: {"value": c.value, "low": c.low, "high": c.high, "p": c.p}
            for name, c in (("FS", evidence.FS), ("negative_alignment", evidence.negative_alignment))
        },
        null={name: histogram(row) for name, row in zip(STATISTICS, values, strict=True)},
        memory=Remembered(value=memory.value, low=memory.low, high=memory.high) if memory else None,
    )


def histogram(values: np.ndarray) -> Histogram:
    """Of a contrast under all splits tried; the owner's own comes first."""
    counts, edges = np.histogram(values, bins=BINS)
    return Histogram(edges=edges.tolist(), counts=counts.tolist(), observed=float(values[0]))
