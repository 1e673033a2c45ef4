"""Checking an audit from its files alone, without the private key: anybody can, and any change is found and named."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from muc.audit.protocol.answers import read_answers
from muc.audit.protocol.collect import check_complete
from muc.audit.protocol.folder import PHASES, AuditFolder, Phase
from muc.audit.protocol.publish import evaluate, file_digests, read_verdict
from muc.audit.protocol.records import digest, read_bytes
from muc.errors import UserError

CLOSE = 1e-6
"""Numbers made from the same vectors on another machine differ by less."""


@dataclass(frozen=True)
class Result:
    """One check: what was looked at, whether it holds, and in a sentence what was found."""

    file: str
    held: bool
    what: str


def verify(folder: AuditFolder, published: Path | None = None) -> list[Result]:
    """Every check, also after one fails; the numbers only where the files under them hold.

    `published` is the commitment as it was made public before the audit.
    """
    if not folder.path.is_dir():
        raise UserError(f"there is no folder '{folder}'; give the folder of an audit")
    results = [
        _check("commitment.json", "whole, and signed with the key it names", folder.commitment),
    ]
    if published is not None:
        results.append(_check("commitment.json", "the one that was published", lambda: _same(folder, published)))
    results += [
        _check("secret.json", "what the commitment's hash stands for", folder.secret),
        _check("forget.txt", "exactly the images that the split says", lambda: _forget_text(folder)),
        *(_check(f"answers/{p}-*.json", "complete, signed, in order", lambda p=p: _answers(folder, p)) for p in PHASES),
        _check("answers", "both models saw the same shared views, near-duplicates and decoys", lambda: _pair(folder)),
        _check("verdict.json", "whole, and signed with the audit's key", lambda: read_verdict(folder)),
        *_file_results(folder),
    ]
    if not all(result.held for result in results):
        return [*results, Result("verdict.json", False, "verdict.json is not computed again: what it rests on fails")]
    return [*results, _check("verdict.json", "what follows from the answers, computed again", lambda: _again(folder))]


def _check(file: str, what: str, run: Callable[[], object]) -> Result:
    try:
        run()
    except UserError as error:
        return Result(file, False, str(error))
    return Result(file, True, what)


def _same(folder: AuditFolder, published: Path) -> None:
    try:
        announced = published.read_bytes()
    except OSError as error:
        raise UserError(f"the published commitment '{published}' cannot be read ({error.strerror})") from None
    if digest(announced) != folder.commitment_digest():
        raise UserError(f"{folder.commitment_file} is not {published}; the audit is not the one that was announced")


def _forget_text(folder: AuditFolder) -> None:
    if read_bytes(folder.forget_file) != folder.secret().forget_text().encode(errors="surrogateescape"):
        raise UserError(f"{folder.forget_file} does not list the images that the split says; restore it from a copy")


def _answers(folder: AuditFolder, phase: Phase) -> None:
    found = read_answers(folder, phase, folder.commitment(), folder.secret())
    if not found.complete:
        raise UserError(f"{folder.answers} holds {len(found.vectors)} of {len(found.queries)} answers of '{phase}'")


def _pair(folder: AuditFolder) -> None:
    commitment, secret = folder.commitment(), folder.secret()
    before, after = (read_answers(folder, phase, commitment, secret) for phase in PHASES)
    check_complete(before, after)


def _file_results(folder: AuditFolder) -> list[Result]:
    """The hash of every file, as verdict.json has it; a file too many or too few counts as changed."""
    try:
        named = read_verdict(folder).files
    except UserError:
        return []  # said already
    try:
        found = file_digests(folder)
    except UserError as error:
        return [Result("verdict.json", False, str(error))]
    results = []
    for name in sorted(named.keys() | found.keys()):
        held = named.get(name) == found.get(name)
        trouble = "not among the audit's files" if name not in named else "missing" if name not in found else "changed"
        results.append(Result(name, held, "unchanged since the verdict" if held else f"{name} is {trouble}"))
    return results


def unlisted(folder: AuditFolder) -> list[str]:
    """Files in the folder that the audit does not know, and that nothing vouches for."""
    found = {path.relative_to(folder.path) for path in folder.path.rglob("*") if not path.is_dir()}
    known = {folder.verdict_file.name, *read_verdict(folder).files}
    return sorted(path.as_posix() for path in found if path.parts[0] != "private" and path.as_posix() not in known)


def _again(folder: AuditFolder) -> None:
    """Verdict, p-values, powers and checks of consistency once more, from the vectors."""
    said = read_verdict(folder)
    found = evaluate(folder, said.reference).judgement
    if (field := _difference(asdict(said.judgement), asdict(found))) is not None:
        raise UserError(f"{folder.verdict_file} says something else about '{field}' than follows from the answers")


def _difference(said: Any, found: Any, field: str = "") -> str | None:
    """The first field that differs by more than rounding."""
    if isinstance(said, dict) and isinstance(found, dict) and said.keys() == found.keys():
        inner = [_difference(said[key], found[key], f"{field}.{key}".strip(".")) for key in said]
        return next((name for name in inner if name is not None), None)
    if isinstance(said, list) and isinstance(found, list) and len(said) == len(found):
        inner = [_difference(a, b, f"{field}[{i}]") for i, (a, b) in enumerate(zip(said, found, strict=True))]
        return next((name for name in inner if name is not None), None)
    if isinstance(said, float) and isinstance(found, float):
        return None if abs(said - found) <= CLOSE else field
    return None if said == found else field
