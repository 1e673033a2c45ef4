"""What a model answered: one signed file for each batch, so that a collection that was cut off loses nothing."""

import base64
import binascii
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from muc.audit.protocol.endpoint import About
from muc.audit.protocol.folder import AuditFolder, Commitment, Phase, Secret
from muc.audit.protocol.queries import Query, queries
from muc.audit.protocol.records import as_object, as_record, read_object, write_bytes
from muc.audit.protocol.signing import check_signature, signed
from muc.errors import UserError

ANSWERS = "muc-audit-answers"


@dataclass(frozen=True)
class Batch:
    """Answers to queries `first`, `first + 1`, …"""

    commitment_sha256: str
    phase: Phase
    first: int
    pixels_sha256: list[str]
    """Of what was sent."""
    dimension: int
    vectors: str
    """float32, little-endian, row by row, in base64."""
    model_sha256: str | None
    input: list[int]
    """Channels and side length of the pictures."""
    key_sha256: str | None
    """Of the endpoint's key that was asked with: answers to two keys have two rotations."""
    answered: str


@dataclass(frozen=True)
class Collected:
    """All of one model's answers so far, in the order of its queries."""

    folder: AuditFolder
    phase: Phase
    queries: list[Query]
    vectors: np.ndarray
    """(answered, d) float32"""
    pixels_sha256: list[str]
    model_sha256: str | None
    input: tuple[int, int] | None
    key_sha256: str | None
    files: list[Path]
    answered: list[str]

    @property
    def complete(self) -> bool:
        return len(self.vectors) == len(self.queries)

    def sent(self) -> dict[Query, str]:
        """The digest of each picture that was sent."""
        return dict(zip(self.queries, self.pixels_sha256, strict=False))


def write_batch(
    folder: AuditFolder,
    key: Ed25519PrivateKey,
    phase: Phase,
    first: int,
    digests: Sequence[str],
    vectors: np.ndarray,
    about: About,
) -> None:
    batch = Batch(
        commitment_sha256=folder.commitment_digest(),
        phase=phase,
        first=first,
        pixels_sha256=list(digests),
        dimension=vectors.shape[1],
        vectors=base64.b64encode(vectors.astype("<f4").tobytes()).decode(),
        model_sha256=about.model_sha256,
        input=[about.channels, about.size],
        key_sha256=about.key_sha256,
        answered=datetime.now(UTC).isoformat(timespec="seconds"),
    )
    write_bytes(folder.answers / f"{phase}-{first:06}.json", signed(as_object(ANSWERS, batch), key))


def read_answers(folder: AuditFolder, phase: Phase, commitment: Commitment, secret: Secret) -> Collected:
    """Every batch signed, of this audit, in its place; same pictures wherever the same were to be sent."""
    asked = queries(secret.seed, phase, commitment.terms)
    made: list[np.ndarray] = []
    digests: list[str] = []
    known: dict[Query, str] = {}
    times: list[str] = []
    files = sorted(folder.answers.glob(f"{phase}-*.json"), key=lambda path: (len(path.name), path.name))
    about: tuple[int, str | None, list[int]] | None = None
    key: str | None = None
    for path in files:
        values = check_signature(read_object(path, ANSWERS), commitment.public_key, path)
        batch = as_record(Batch, values, path)
        own = batch.commitment_sha256 == folder.commitment_digest() and batch.phase == phase
        if not own or batch.first != len(digests) or path.name != f"{phase}-{batch.first:06}.json":
            raise UserError(f"{path} does not follow the batch before it; a file is missing, or is of another audit")
        this = (batch.dimension, batch.model_sha256, batch.input)
        if about is not None and this != about:
            raise UserError(f"{path} is of another model than the batch before it; start another audit")
        about = this
        if None not in (key, batch.key_sha256) and key != batch.key_sha256:
            raise UserError(f"{path} was asked with another key than the batch before it; start another audit")
        key = batch.key_sha256 or key
        made.append(_vectors(batch, path))
        digests += batch.pixels_sha256
        times.append(batch.answered)
        if len(digests) > len(asked):
            raise UserError(f"{path} holds more answers than the audit has questions; restore it from a copy")
        _check_repeats(asked[batch.first : len(digests)], batch.pixels_sha256, known, path)
    dimension, model, shape = about or (0, None, None)
    vectors = np.concatenate(made) if made else np.zeros((0, dimension), np.float32)
    sides = (shape[0], shape[1]) if shape else None
    return Collected(folder, phase, asked, vectors, digests, model, sides, key, files, times)


def _vectors(batch: Batch, path: Path) -> np.ndarray:
    try:
        content = base64.b64decode(batch.vectors, validate=True)
        vectors = np.frombuffer(content, "<f4").reshape(len(batch.pixels_sha256), batch.dimension)
        if not vectors.size or not np.isfinite(vectors).all() or len(batch.input) != 2:
            raise ValueError
    except (ValueError, binascii.Error):
        raise UserError(f"{path} does not hold the vectors it says; restore it from a copy") from None
    return vectors


def _check_repeats(asked: Sequence[Query], digests: Sequence[str], known: dict[Query, str], path: Path) -> None:
    """A repeat is a repeat only if the same pixels were sent. `known`: by the batches before; these are added."""
    for query, digest in zip(asked, digests, strict=True):
        if known.setdefault(query, digest) != digest:
            raise UserError(f"{path} holds a repeated question with other pixels than at first; start another audit")


def check_shared(before: Collected, after: Collected) -> None:
    """Both models must have seen the same shared views, near-duplicates and decoys."""
    known = before.sent()
    for query, digest in after.sent().items():
        if query.kind != "fresh" and known.get(query, digest) != digest:
            raise UserError(
                "the two models were asked about different pixels where they should be the same; collect both with the "
                "same muc on the same machine, in a new audit"
            )
