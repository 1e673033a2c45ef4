"""Keys, budgets and rotations; and the commands that manage keys."""

import json
import os
import shutil
import stat
import subprocess
import sys
import threading
from pathlib import Path

import httpx
import numpy as np
import pytest
from live_server import CPU, form, picture, running

from muc.__main__ import main
from muc.errors import UserError
from muc.run_folder import RunFolder
from muc.serve.keys import KeyFile, OverBudget, UnknownKey
from muc.serve.pair import Pair
from muc.serve.rotation import rotation
from muc.serve.server import bind, is_loopback, serve

Runs = tuple[RunFolder, RunFolder]


@pytest.fixture
def original(runs: Runs, tmp_path: Path) -> Path:
    """A copy of the run before, without keys."""
    shutil.copytree(runs[0].path, tmp_path / "run", ignore=shutil.ignore_patterns("serve"))
    return tmp_path / "run"


def test_only_a_hash_of_the_key_is_kept(keys: KeyFile) -> None:
    token = keys.add("alice", 5)
    assert len(token) >= 43
    for path in keys.folder.iterdir():
        assert token not in path.read_text()
        assert token.removeprefix("muc_") not in path.read_text()
    assert stat.S_IMODE(keys.folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(keys.secret_path.stat().st_mode) == 0o600
    assert keys.find(token).name == "alice"
    for wrong in ("", token[:-1], token.upper(), keys.all()[0].sha256, "é\ud800"):
        with pytest.raises(UnknownKey):
            keys.find(wrong)


def test_charging_is_all_or_nothing_and_on_disk(keys: KeyFile) -> None:
    keys.add("alice", 5)
    key = keys.all()[0]
    assert keys.charge(key.id, 3) == 2
    with pytest.raises(OverBudget) as over:
        keys.charge(key.id, 3)
    assert over.value.left == 2
    assert KeyFile(keys.run).all()[0].used == 3
    keys.revoke("alice")
    with pytest.raises(UnknownKey):
        keys.charge(key.id, 1)


def test_adding_while_charging_loses_neither(keys: KeyFile) -> None:
    """The command line and a server write the same file."""
    keys.add("alice", 1000)
    alice = keys.all()[0].id

    def charge() -> None:
        for _ in range(30):
            KeyFile(keys.run).charge(alice, 1)

    threads = [threading.Thread(target=charge) for _ in range(2)]
    for thread in threads:
        thread.start()
    for i in range(15):
        KeyFile(keys.run).add(f"key {i}", 1)
    for thread in threads:
        thread.join()
    assert len(keys.all()) == 16
    assert keys.all()[0].used == 60


def test_a_budget_can_be_raised_and_the_key_stays_the_same(
    original: Path, pair: Pair, capsys: pytest.CaptureFixture[str]
) -> None:
    """On a running server too: a new key would have another rotation, and spoil a collection under way."""
    keys = KeyFile(original)
    token = keys.add("alice", 2)
    with running(pair, keys) as live, live.client(token) as client:

        def ask() -> httpx.Response:
            return client.post("/v1/embed?model=before", files=form(picture(), picture(1)))

        first = ask().json()
        assert first["budget_left"] == 0
        assert ask().status_code == 403
        assert main(["serve", "keys", "budget", str(original), "--name", "alice", "--budget", "5"]) == 0
        assert "alice: 3 of 5 images left" in capsys.readouterr().err
        again = ask().json()
    assert again["budget_left"] == 1
    assert again["vectors"] == first["vectors"]
    key = keys.find(token)
    assert (key.budget, key.used) == (5, 4)
    assert keys.set_budget("alice", 3).left == 0  # what was embedded stays embedded
    keys.revoke("alice")
    with pytest.raises(UserError, match="has no key named 'alice'"):
        keys.set_budget("alice", 9)


def test_raising_a_budget_while_charging_loses_neither(keys: KeyFile) -> None:
    keys.add("alice", 100)
    alice = keys.all()[0].id
    thread = threading.Thread(target=lambda: [KeyFile(keys.run).charge(alice, 1) for _ in range(30)])
    thread.start()
    for budget in range(101, 131):
        KeyFile(keys.run).set_budget("alice", budget)
    thread.join()
    assert (keys.all()[0].budget, keys.all()[0].used) == (130, 30)


KEY = '{"id": "a", "name": "x", "sha256": "b", "budget": "10", "used": 0, "created": "c", "revoked": null}'


@pytest.mark.parametrize(
    "damage",
    ["", "{}", "[]", '{"format_version": 1, "keys": [{"name": "x"}]}', f'{{"format_version": 1, "keys": [{KEY}]}}'],
)
def test_a_damaged_key_file_lets_nobody_in(pair: Pair, keys: KeyFile, alice: str, damage: str) -> None:
    with running(pair, keys) as live, live.client(alice) as client:
        assert client.get("/v1/about").status_code == 200
        keys.path.write_text(damage)
        answer = client.get("/v1/about")
        assert answer.status_code == 503
        assert str(keys.run) not in answer.text
    with pytest.raises(UserError):
        keys.all()


def test_a_lost_secret_is_not_made_anew_in_silence(pair: Pair, keys: KeyFile, alice: str) -> None:
    keys.secret_path.unlink()
    with pytest.raises(UserError, match="secret is missing"), running(pair, keys):
        pass


@pytest.mark.parametrize("text", ["", "ab" * 31, "ab" * 33, "zz" * 32])
def test_a_damaged_secret_is_not_taken_for_one(pair: Pair, keys: KeyFile, alice: str, text: str) -> None:
    keys.secret_path.write_text(text)
    with pytest.raises(UserError, match="secret is missing or damaged"), running(pair, keys):
        pass
    with pytest.raises(UserError, match="secret is missing or damaged"):
        keys.add("bob", 1)
    assert keys.secret_path.read_text() == text
    assert [key.name for key in keys.all()] == ["alice"]


def test_a_key_is_not_added_under_another_secret_than_those_before(keys: KeyFile, alice: str) -> None:
    keys.secret_path.unlink()
    with pytest.raises(UserError, match="secret is missing or damaged"):
        keys.add("bob", 1)
    assert not keys.secret_path.exists()


def test_a_secret_is_written_whole_or_not_at_all(keys: KeyFile, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(_: int) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", killed)
        with pytest.raises(KeyboardInterrupt):
            keys.add("alice", 1)
    assert [path.name for path in keys.folder.iterdir()] == ["lock"]
    keys.add("alice", 1)
    assert len(keys.secret()) == 32
    assert stat.S_IMODE(keys.secret_path.stat().st_mode) == 0o600
    assert {path.name for path in keys.folder.iterdir()} == {"keys.json", "lock", "secret"}


def test_rotations_are_orthogonal_and_depend_on_secret_and_key() -> None:
    one, other = b"a" * 32, b"b" * 32
    q = rotation(one, "k1", 50)
    assert np.allclose(q @ q.T, np.eye(50), atol=1e-12)
    assert np.array_equal(q, rotation(one, "k1", 50))
    for different in (rotation(one, "k2", 50), rotation(other, "k1", 50)):
        assert np.abs(q @ different.T).max() < 0.8


def test_rotations_prefer_no_direction() -> None:
    """Of uniformly distributed rotations, each entry has mean 0 and variance 1/d; plain QR fixes signs of a corner."""
    corner = np.array([rotation(b"s" * 32, str(i), 3) for i in range(2000)])
    assert np.abs(corner.mean(axis=0)).max() < 4 / np.sqrt(3 * 2000)
    assert np.abs((corner**2).mean(axis=0) - 1 / 3).max() < 0.03


def test_the_commands_add_list_and_revoke(original: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "keys", "add", str(original), "--name", "alice", "--budget", "7"]) == 0
    token = capsys.readouterr().out.strip()
    assert KeyFile(original).find(token).budget == 7
    assert main(["serve", "keys", "list", str(original), "--json"]) == 0
    assert [(k["name"], k["used"]) for k in json.loads(capsys.readouterr().out)] == [("alice", 0)]
    assert main(["serve", "keys", "add", str(original), "--name", "alice"]) == 2
    assert main(["serve", "keys", "revoke", str(original), "--name", "alice"]) == 0
    assert main(["serve", "keys", "revoke", str(original), "--name", "alice"]) == 2
    assert main(["serve", "keys", "list", str(original)]) == 0
    assert "revoked" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["keys"], "add, budget, list, revoke"),
        (["keys", "ad"], "did you mean 'add'"),
        (["keys", "add", "nowhere", "--name", "x"], "muc resume|no run|not finished"),
        (["keys", "add", "RUN", "--name", "x", "--budget", "0"], "--budget is 0"),
        (["keys", "add", "RUN", "--name", "a\nb"], "--name"),
        (["keys", "budget", "nowhere", "--name", "x", "--budget", "5"], "muc resume|no run|not finished"),
        (["keys", "budget", "RUN", "--name", "x", "--budget", "0"], "--budget is 0"),
        (["RUN"], "muc serve keys add"),
        (["RUN", "--after", "RUN"], "muc serve keys add"),
    ],
)
def test_bad_commands_are_one_sentence(
    original: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], sentence: str
) -> None:
    capsys.readouterr()
    assert main(["serve", *(str(original) if a == "RUN" else a for a in arguments)]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert any(part in said for part in sentence.split("|")), said
    assert not (original / "serve").exists()


def test_revoked_keys_do_not_let_a_server_start(runs: Runs, original: Path) -> None:
    KeyFile(original).add("alice", 1)
    KeyFile(original).revoke("alice")
    with pytest.raises(UserError, match="has no keys"):
        serve(RunFolder(original), runs[1], "127.0.0.1", 0, CPU, print)


def test_addresses() -> None:
    with bind("127.0.0.1", 0) as taken:
        taken.listen()
        with pytest.raises(UserError, match="give another"):
            bind("127.0.0.1", taken.getsockname()[1])
    with pytest.raises(UserError, match="--port is 70000"):
        bind("127.0.0.1", 70000)
    with pytest.raises(UserError, match="--host"):
        bind("no.such.host.invalid", 0)
    assert is_loopback("127.0.0.1")
    assert is_loopback("::1")
    assert not is_loopback("0.0.0.0")


def test_other_addresses_come_with_a_warning(runs: Runs, original: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    KeyFile(original).add("alice", 1)
    monkeypatch.setattr("uvicorn.Server.run", lambda *_, **__: None)
    said: list[str] = []
    serve(RunFolder(original), runs[1], "0.0.0.0", 0, CPU, said.append)
    assert "TLS" in " ".join(said)
    said.clear()
    for after in (runs[1], None):
        serve(RunFolder(original), after, "127.0.0.1", 0, CPU, said.append)
    assert len(said) == 2  # where it listens; RUN was made from RUN0, so no note
    assert said[0].startswith(f"serving {original} and {runs[1]} on http://127.0.0.1:")
    assert said[1].startswith(f"serving {original}, as before and after, on http://127.0.0.1:")


def test_help_loads_neither_torch_nor_the_server() -> None:
    code = (
        "import sys; from muc.__main__ import main\n"
        "try: main(['serve', '--help'])\n"
        "except SystemExit: pass\n"
        "assert not {'torch', 'fastapi', 'uvicorn'} & set(sys.modules)"
    )
    path = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "src")}
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, env=path)
