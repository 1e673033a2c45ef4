"""No file of an audit can be changed, taken away, added or swapped without `verify` naming it."""

import json
import shutil
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from owner_world import Models, begin, write_images

from muc.__main__ import main
from muc.audit.protocol.answers import ANSWERS
from muc.audit.protocol.collect import collect
from muc.audit.protocol.folder import COMMITMENT, PHASES, AuditFolder
from muc.audit.protocol.publish import publish
from muc.audit.protocol.records import canonical, digest
from muc.audit.protocol.signing import load_key, public_hex, signed
from muc.audit.protocol.verify import Result, verify
from muc.errors import UserError

Edit = tuple[str, ...]


@pytest.fixture(scope="module")
def audit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished audit of six images."""
    root = tmp_path_factory.mktemp("tampering")
    made = begin(root / "audit", write_images(root / "mine", 6))
    for phase in PHASES:
        collect(made, phase, Models())
    publish(made, lambda case: f"<p>{case.judgement.words}</p>")
    assert all(result.held for result in verify(made))
    return made.path


@pytest.fixture
def copied(audit: Path, tmp_path: Path) -> AuditFolder:
    shutil.copytree(audit, tmp_path / "copy")
    return AuditFolder(tmp_path / "copy")


def handed_on(audit: Path) -> list[Path]:
    """The files that others get: all but those in private/."""
    return sorted(p for p in audit.rglob("*") if p.is_file() and p.parent.name != "private")


class Changed:
    """A file with other content, for as long as it is looked at."""

    def __init__(self, path: Path, content: bytes) -> None:
        self.path, self.content, self.kept = path, content, path.read_bytes()

    def __enter__(self) -> None:
        self.path.write_bytes(self.content)

    def __exit__(self, *_: object) -> None:
        self.path.write_bytes(self.kept)


def blamed(results: list[Result]) -> str:
    return " ".join(f"{result.file} {result.what}" for result in results if not result.held)


def test_a_flip_in_every_region_of_every_file_is_found(audit: Path) -> None:
    for path in handed_on(audit):
        content = path.read_bytes()
        for position in {*range(0, len(content), max(1, len(content) // 12)), len(content) - 1}:
            flipped = bytearray(content)
            flipped[position] ^= 1
            with Changed(path, bytes(flipped)):
                found = blamed(verify(AuditFolder(audit)))
            assert path.name in found, (path.name, position)


@settings(max_examples=60)
@given(data=st.data())
def test_any_other_bytes_are_found(audit: Path, data: st.DataObject) -> None:
    path = data.draw(st.sampled_from(handed_on(audit)))
    content = path.read_bytes()
    start = data.draw(st.integers(0, len(content)))
    stop = data.draw(st.integers(start, min(len(content), start + 20)))
    other = content[:start] + data.draw(st.binary(max_size=20)) + content[stop:]
    with Changed(path, other):
        results = verify(AuditFolder(audit))
    assert (path.name in blamed(results)) == (other != content)


def leaves(values: Any, at: tuple[Any, ...] = ()) -> Generator[tuple[Any, ...]]:
    inner = values.items() if isinstance(values, dict) else enumerate(values) if isinstance(values, list) else ()
    empty = True
    for key, value in inner:
        empty = False
        yield from leaves(value, (*at, key))
    if empty:
        yield at


def other_value(value: Any) -> Any:
    if isinstance(value, bool) or value is None:
        return not value
    if isinstance(value, int | float):
        return value + 1
    return value + "0" if isinstance(value, str) else ["more"]


def edited(values: Any, at: tuple[Any, ...]) -> Any:
    copy = json.loads(json.dumps(values))
    inner = copy
    for key in at[:-1]:
        inner = inner[key]
    inner[at[-1]] = other_value(inner[at[-1]])
    return copy


def test_an_edit_of_any_field_is_found(audit: Path) -> None:
    """Written as muc writes it, so that only the content can give it away. Of lists, first and last."""
    files = [p for p in handed_on(audit) if p.suffix == ".json" and not p.name.endswith(("2.json", "4.json", "6.json"))]
    for path in files:
        values = json.loads(path.read_bytes())
        places = [at for at in leaves(values) if all(key in (0, 1) for key in at if isinstance(key, int))]
        assert len(places) > 8
        for at in places:
            with Changed(path, canonical(edited(values, at))):
                assert path.name in blamed(verify(AuditFolder(audit))), at


def test_a_missing_added_or_swapped_file_is_found(copied: AuditFolder) -> None:
    for path in handed_on(copied.path):
        content = path.read_bytes()
        path.unlink()
        assert not all(result.held for result in verify(copied)), path
        path.write_bytes(content)
    first, second = sorted(copied.answers.glob("after-*.json"))[:2]
    a, b = first.read_bytes(), second.read_bytes()
    with Changed(first, b), Changed(second, a):
        assert first.name in blamed(verify(copied))
    (copied.answers / "after-999999.json").write_bytes(a)
    assert "after-999999.json" in blamed(verify(copied))


def test_answers_of_one_model_cannot_pass_for_the_other_s(copied: AuditFolder) -> None:
    before, after = (copied.answers / f"{phase}-000000.json" for phase in PHASES)
    with Changed(after, before.read_bytes()):
        assert "after-000000.json" in blamed(verify(copied))


def test_a_better_p_is_found_even_if_the_owner_signs_it(copied: AuditFolder) -> None:
    """The owner has the key: what protects the verdict then is that it follows from the answers."""
    key = load_key(copied.key_file)
    values = json.loads(copied.verdict_file.read_bytes())
    del values["signature"]
    for at in (("judgement", "verdict", "evidence", "p"), ("judgement", "words"), ("judgement", "powers", "ac")):
        with Changed(copied.verdict_file, signed(edited(values, at), key)):
            assert f"says something else about '{'.'.join(at[1:])}'" in blamed(verify(copied))


def test_another_split_is_found_by_the_published_commitment(copied: AuditFolder, tmp_path: Path) -> None:
    """With the key one can commit anew, but not take back what was published."""
    published = tmp_path / "published.json"
    published.write_bytes(copied.commitment_file.read_bytes())
    secret = json.loads(copied.secret_file.read_bytes())
    secret["forget"] = sorted(set(range(6)) - set(secret["forget"]))
    copied.secret_file.write_bytes(canonical(secret))
    assert "secret.json is not what" in blamed(verify(copied))
    values = json.loads(copied.commitment_file.read_bytes())
    del values["signature"]
    values["secret_sha256"] = digest(canonical(secret))
    copied.commitment_file.write_bytes(signed(values, load_key(copied.key_file)))
    assert copied.secret().forget == secret["forget"]
    assert "is not the one that was announced" in blamed(verify(copied, published))


def test_the_command_names_the_file_and_ends_with_code_2(
    copied: AuditFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    with open(copied.report_file, "a") as f:
        f.write("\nYour data was forgotten.")
    assert main(["audit", "verify", str(copied)]) == 2
    said = capsys.readouterr()
    assert "FAILS  report.html: report.html is changed" in said.out
    assert "the first: report.html is changed" in said.err


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda v: v.update(version=1), "has version 1, this muc reads 2"),
        (lambda v: v.update(version=True), "has version True"),
        (lambda v: v.update(format="other"), f"is not a '{COMMITMENT}' file"),
        (lambda v: v.pop("created"), "has no 'created'"),
        (lambda v: v["terms"].pop("alpha"), "has no 'terms.alpha'"),
        (lambda v: v.update(created=5), "'created' is 5; expected a text"),
        (lambda v: v["terms"].update(draws=1.5), "'terms.draws' is 1.5; expected a whole number"),
        (lambda v: v["terms"].update(draws=True), "'terms.draws' is True; expected a whole number"),
        (lambda v: v["terms"].update(alpha="small"), "'terms.alpha' is 'small'; expected a number"),
        (lambda v: v["terms"].update(alpha=0.9), "alpha is 0.9; give a number from"),
        (lambda v: v["terms"].update(augmentation=[]), "'terms.augmentation' is \\[\\]; expected an object"),
        (lambda v: v.update(more=1), "has a field 'more' that this version does not know"),
    ],
)
def test_a_signed_file_with_wrong_content_is_one_sentence(change: Any, words: str, copied: AuditFolder) -> None:
    values = json.loads(copied.commitment_file.read_bytes())
    del values["signature"]
    change(values)
    copied.commitment_file.write_bytes(signed(values, load_key(copied.key_file)))
    with pytest.raises(UserError, match=words) as said:
        copied.commitment()
    assert "\n" not in str(said.value)


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"\xff\xfe", b"[" * 100_000, b'{"format": NaN}', b'"muc-audit-commitment"']
)
def test_what_is_no_file_of_an_audit_is_one_sentence(content: bytes, copied: AuditFolder) -> None:
    for path in (copied.commitment_file, copied.verdict_file, copied.answers / "before-000000.json"):
        with Changed(path, content):
            found = [result for result in verify(copied) if not result.held]
            assert found
            assert not any("\n" in result.what for result in found)


def test_vectors_that_are_not_what_they_say_are_refused_even_if_signed(copied: AuditFolder) -> None:
    path, key = copied.answers / "before-000000.json", load_key(copied.key_file)
    values = json.loads(path.read_bytes())
    assert values["format"] == ANSWERS
    del values["signature"]
    for wrong in ({"vectors": "AAAA"}, {"vectors": "!"}, {"dimension": 0}, {"dimension": -1}, {"input": [3]}):
        with Changed(path, signed({**values, **wrong}, key)):
            assert "before-000000.json" in blamed(verify(copied))


def test_another_key_signs_nothing(copied: AuditFolder, tmp_path: Path) -> None:
    other = begin(tmp_path / "other", write_images(tmp_path / "others", 6, seed=5))
    key = load_key(other.key_file)
    assert public_hex(key) != copied.commitment().public_key
    values = json.loads(copied.verdict_file.read_bytes())
    del values["signature"]
    copied.verdict_file.write_bytes(signed(values, key))
    assert "the signature of" in blamed(verify(copied))
    shutil.copy(other.key_file, copied.key_file)
    copied.verdict_file.unlink()
    with pytest.raises(UserError, match="is not the key of"):
        publish(copied, lambda case: "")
