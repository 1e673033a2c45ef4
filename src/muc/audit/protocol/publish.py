"""The verdict as a signed file that names every file it rests on, and the page that goes with it."""

from collections.abc import Callable
from dataclasses import dataclass

from muc.audit.protocol.answers import read_answers
from muc.audit.protocol.folder import VERDICT, AuditFolder, Commitment, Secret
from muc.audit.protocol.judge import Judgement, Reference, judge
from muc.audit.protocol.matrices import Matrices, matrices_of
from muc.audit.protocol.records import as_object, as_record, digest, read_bytes, read_object, write_bytes
from muc.audit.protocol.signing import check_signature, load_key, public_hex, signed
from muc.errors import UserError


@dataclass(frozen=True)
class Published:
    """What verdict.json holds."""

    reference: Reference
    judgement: Judgement
    files: dict[str, str]
    """SHA-256 of every other file of the audit that may be handed on."""


@dataclass(frozen=True)
class Case:
    """All that a report is made from."""

    folder: AuditFolder
    commitment: Commitment
    secret: Secret
    matrices: Matrices
    judgement: Judgement
    reference: Reference
    queries: int
    collected: dict[str, tuple[str, str]]
    """When each model was asked: first and last answer."""


Render = Callable[[Case], str]


def evaluate(folder: AuditFolder, reference: Reference = "memory") -> Case:
    """The verdict from the files, not yet written."""
    commitment, secret = folder.commitment(), folder.secret()
    before, after = (read_answers(folder, phase, commitment, secret) for phase in ("before", "after"))
    judgement = judge(before, after, commitment, secret, reference)
    return Case(
        folder=folder,
        commitment=commitment,
        secret=secret,
        matrices=matrices_of(before, after, commitment.terms).first(commitment.terms.n_images),
        judgement=judgement,
        reference=reference,
        queries=len(before.queries) + len(after.queries),
        collected={answers.phase: (answers.answered[0], answers.answered[-1]) for answers in (before, after)},
    )


def publish(folder: AuditFolder, render: Render, reference: Reference = "memory") -> Published:
    """Write report.html, then verdict.json, which holds the report's hash among the others."""
    if folder.verdict_file.exists():
        raise UserError(f"{folder.verdict_file} exists; an audit has one verdict; check it: muc audit verify {folder}")
    case = evaluate(folder, reference)
    key = load_key(folder.key_file)
    if public_hex(key) != case.commitment.public_key:
        raise UserError(f"{folder.key_file} is not the key of {folder.commitment_file}; restore it from a copy")
    write_bytes(folder.report_file, render(case).encode(errors="replace"))
    published = Published(reference, case.judgement, file_digests(folder))
    write_bytes(folder.verdict_file, signed(as_object(VERDICT, published), key))
    return published


def read_verdict(folder: AuditFolder) -> Published:
    """Whose signature is that of the audit's key."""
    if not folder.verdict_file.is_file():
        raise UserError(f"{folder} has no verdict yet; first: muc audit verdict {folder}")
    values = read_object(folder.verdict_file, VERDICT)
    plain = check_signature(values, folder.commitment().public_key, folder.verdict_file)
    return as_record(Published, plain, folder.verdict_file)


def file_digests(folder: AuditFolder) -> dict[str, str]:
    files = [folder.commitment_file, folder.secret_file, folder.forget_file, folder.report_file]
    files += sorted(folder.answers.glob("*.json"))
    return {path.relative_to(folder.path).as_posix(): digest(read_bytes(path)) for path in files}
