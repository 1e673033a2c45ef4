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
from muc.storage import PARTIAL, Hold

Report = Callable[[int, int], None]
"""How many of how many questions are answered."""


def collect(
    folder: AuditFolder,
    phase: Phase,
    endpoint: Endpoint,
    paths: Sequence[Path] | None = None,
    report: Report = lambda done, total: None,
) -> Collected:
    """Ask what was not answered yet. Everything that can be refused is refused before the first question.

    Who asks several models calls `check_endpoint` with all of them first.
    """
    folder.commitment()  # says where there is no audit
    with Hold(folder.path):  # two at once would pay twice for each question
        return _collect(folder, phase, endpoint, paths, report)


def _collect(
    folder: AuditFolder, phase: Phase, endpoint: Endpoint, paths: Sequence[Path] | None, report: Report
) -> Collected:
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
    about = check_endpoint(folder, (phase,), endpoint)[phase]
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
        write_batch(folder, key, phase, first, digests, vectors, about)
        dimension, left, first = vectors.shape[1], reply.budget_left, first + len(pixels)
        report(first, total)
    return read_answers(folder, phase, commitment, secret)


def _encoded(pixels: np.ndarray, about: About) -> bytes:
    png = to_png(pixels)
    if about.bytes_per_image is not None and len(png) > about.bytes_per_image:
        raise UserError(f"a picture takes {len(png)} bytes, the endpoint allows {about.bytes_per_image}; ask for more")
    return png


def check_endpoint(folder: AuditFolder, phases: Sequence[Phase], endpoint: Endpoint) -> dict[Phase, About]:
    """What the endpoint says of each model that has questions open; refused where the answers could not be used."""
    commitment, secret = folder.commitment(), folder.secret()
    answers = {phase: read_answers(folder, phase, commitment, secret) for phase in PHASES}
    abouts = {phase: endpoint.about(phase) for phase in phases if not answers[phase].complete}
    for phase, about in abouts.items():
        _check_going_on(about, answers[phase])
    before, after = (_stated(answers[phase], abouts.get(phase)) for phase in PHASES)
    if before and after:
        _check_successor(before, after, asked_after="after" in abouts)
        _check_predecessor(before[1], abouts.get("after"))
    _check_budget(answers, abouts)
    return abouts


def _check_going_on(about: About, done: Collected) -> None:
    """Answers so far and answers to come must be of one model, to one key."""
    if not len(done.vectors):
        return
    if done.input != (shape := (about.channels, about.size)):
        raise UserError(
            f"the endpoint takes {shape} pictures (channels, side) now, but the model '{done.phase}' was asked with "
            f"{done.input}; ask the operator for the first one, or start another audit"
        )
    if done.model_sha256 != about.model_sha256:
        raise UserError(_changed(done.phase, done.model_sha256, about.model_sha256))
    if None not in (done.key_sha256, about.key_sha256) and done.key_sha256 != about.key_sha256:
        raise UserError(
            f"the model '{done.phase}' was asked with another key so far, and each key's answers are turned in a way "
            "of their own; go on with the first key, with a larger budget if need be, or start another audit"
        )


def _stated(done: Collected, about: About | None) -> tuple[tuple[int, int], str | None] | None:
    """Shape of the pictures and hash, as the model was asked or will be."""
    if about is not None:
        return (about.channels, about.size), about.model_sha256
    return None if done.input is None else (done.input, done.model_sha256)


def _check_successor(
    before: tuple[tuple[int, int], str | None], after: tuple[tuple[int, int], str | None], asked_after: bool
) -> None:
    if before[0] != after[0]:
        raise UserError(
            f"the model before takes {before[0]} pictures (channels, side), the model after {after[0]}; "
            "audit a model and its own successor"
        )
    if asked_after and after[1] is not None and before[1] == after[1]:
        raise UserError(
            f"the endpoint still serves the model of before as 'after' (hash {after[1][:12]}); collect again when the "
            "deletion is done, and if the operator says that it is, this is your answer: the model is the same"
        )


def _check_predecessor(asked: str | None, about: About | None) -> None:
    """The endpoint may be another one than was asked about the model before."""
    stated = about.before_sha256 if about else None
    if None not in (asked, stated) and asked != stated:
        raise UserError(
            f"the endpoint serves another model as 'before' (hash {str(stated)[:12]}) than the one that was asked "
            f"(hash {str(asked)[:12]}); ask the operator for the endpoint of that model and its successor"
        )


def _check_budget(answers: dict[Phase, Collected], abouts: dict[Phase, About]) -> None:
    """One budget is for both models."""
    left = min((about.budget_left for about in abouts.values() if about.budget_left is not None), default=None)
    questions = sum(len(answers[phase].queries) - len(answers[phase].vectors) for phase in abouts)
    if left is not None and left < questions:
        models = " and ".join(f"'{phase}'" for phase in abouts)
        raise UserError(
            f"the audit has {questions} questions for the model {models}, the budget has {left} "
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
                f"first: muc audit collect {answers.folder} --model {answers.phase} …"
            )
    if before.vectors.shape[1] != after.vectors.shape[1]:
        raise UserError(
            f"the model before answers with {before.vectors.shape[1]} numbers, the model after with "
            f"{after.vectors.shape[1]}; audit a model and its own successor"
        )
    check_shared(before, after)
