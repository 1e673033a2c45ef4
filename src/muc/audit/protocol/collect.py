"""Asking one model all its questions, once each, and going on where it was cut off."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from muc.audit.protocol.answers import Collected, check_shared, read_answers, write_batch
from muc.audit.protocol.endpoint import About, Endpoint, Reply, checked_vectors
from muc.audit.protocol.folder import PHASES, AuditFolder, Phase
from muc.audit.protocol.pictures import Pictures, pixel_digest, read_images, to_png
from muc.audit.protocol.queries import batch_size
from muc.audit.protocol.signing import load_key, public_hex
from muc.errors import UserError
from muc.storage import PARTIAL

Report = Callable[[int, int], None]
"""How many of how many questions are answered."""


def collect(
    folder: AuditFolder,
    phase: Phase,
    endpoint: Endpoint,
    paths: Sequence[Path] | None = None,
    report: Report = lambda done, total: None,
) -> Collected:
    """Ask what was not answered yet. Everything that can be refused is refused before the first question."""
    commitment, secret, key = folder.commitment(), folder.secret(), load_key(folder.key_file)
    if public_hex(key) != commitment.public_key:
        raise UserError(f"{folder.key_file} is not the key of {folder.commitment_file}; restore it from a copy")
    if folder.verdict_file.exists():
        raise UserError(f"{folder} has its verdict, and its secrets may be known by now; start another audit")
    for partial in folder.answers.glob(f".*{PARTIAL}"):
        partial.unlink(missing_ok=True)  # of a process that was killed
    done = read_answers(folder, phase, commitment, secret)
    if done.complete:
        report(len(done.queries), len(done.queries))
        return done
    other = read_answers(folder, PHASES[phase == "before"], commitment, secret)
    about = endpoint.about(phase)
    _check_endpoint(about, done, other, phase)
    images = read_images(secret, paths or folder.locations(), about.channels, about.size)
    pictures = Pictures(images, secret.seed, commitment.terms)
    _check_pixels(pictures, phase, done, other)
    total, first = len(done.queries), len(done.vectors)
    dimension = done.vectors.shape[1] if first else about.dimension
    step, left = batch_size(total, about.images_per_request), about.budget_left
    report(first, total)
    while first < total:
        pixels = [pictures.pixels(query, phase) for query in done.queries[first : first + step]]
        if left is not None and left < len(pixels):
            raise UserError(
                f"the query budget is used up: {left} left, {total - first} questions open; "
                "ask the operator for more, then run the same command again"
            )
        reply = endpoint.embed([_encoded(p, about) for p in pixels], phase)
        _check_model(reply, about, phase)
        vectors = checked_vectors(reply.vectors, len(pixels), dimension)
        digests = [pixel_digest(p) for p in pixels]
        shape = (about.channels, about.size)
        write_batch(folder, key, phase, first, digests, vectors, about.model_sha256, shape)
        dimension, left, first = vectors.shape[1], reply.budget_left, first + len(pixels)
        report(first, total)
    return read_answers(folder, phase, commitment, secret)


def _encoded(pixels: np.ndarray, about: About) -> bytes:
    png = to_png(pixels)
    if about.bytes_per_image is not None and len(png) > about.bytes_per_image:
        raise UserError(f"a picture takes {len(png)} bytes, the endpoint allows {about.bytes_per_image}; ask for more")
    return png


def _check_endpoint(about: About, done: Collected, other: Collected, phase: Phase) -> None:
    shape = (about.channels, about.size)
    for answers in (done, other):
        if answers.input is not None and answers.input != shape:
            raise UserError(
                f"the endpoint takes {shape} pictures (channels, side), but the model '{answers.phase}' was asked with "
                f"{answers.input}; audit a model and its own successor"
            )
    if len(done.vectors) and done.model_sha256 != about.model_sha256:
        raise UserError(_changed(phase, done.model_sha256, about.model_sha256))
    open_questions = len(done.queries) - len(done.vectors)
    if about.budget_left is not None and about.budget_left < open_questions:
        raise UserError(
            f"the audit has {open_questions} questions for the model '{phase}', the budget has {about.budget_left} "
            "left; ask the operator for more, or start an audit with fewer --views"
        )


def _check_model(reply: Reply, about: About, phase: Phase) -> None:
    if reply.model_sha256 != about.model_sha256:
        raise UserError(_changed(phase, about.model_sha256, reply.model_sha256))


def _changed(phase: Phase, first: str | None, now: str | None) -> str:
    return (
        f"the model '{phase}' changed during the collection (its hash was {str(first)[:12]}, now {str(now)[:12]}); "
        "answers of two models cannot be put together: ask the operator for the first one, or start another audit"
    )


def _check_pixels(pictures: Pictures, phase: Phase, done: Collected, other: Collected) -> None:
    """Views that were sent before must come out the same here and now, or the two models would be asked differently."""
    for answers in (done, other):
        for query, digest in answers.sent().items():
            known = answers.phase == phase or query.kind != "fresh"
            if known and pixel_digest(pictures.pixels(query, phase)) != digest:
                raise UserError(
                    "the views come out with other pixels than when they were first sent; "
                    "collect with the muc and on the machine that the collection began with"
                )


def check_complete(before: Collected, after: Collected) -> None:
    for answers in (before, after):
        if not answers.complete:
            raise UserError(
                f"the model '{answers.phase}' has answered {len(answers.vectors)} of {len(answers.queries)} questions; "
                f"first: muc audit collect AUDIT --model {answers.phase}"
            )
    if before.vectors.shape[1] != after.vectors.shape[1]:
        raise UserError(
            f"the model before answers with {before.vectors.shape[1]} numbers, the model after with "
            f"{after.vectors.shape[1]}; audit a model and its own successor"
        )
    check_shared(before, after)
