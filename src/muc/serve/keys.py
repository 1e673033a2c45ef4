"""Who may ask, and how many images: keys with budgets, in one file of the served run's folder.

A key is 256 random bits, and only its SHA-256 is kept. A slow hash (scrypt) protects what people choose and others can
guess; nobody guesses 256 bits, so it would add nothing here but a way to keep the server busy with wrong keys.

The server and `muc serve keys` share the file: each change is read, made and written under a lock, and the server looks
at the file for every request. So keys and budgets change while it runs, and two servers cannot spend a budget twice.
"""

import fcntl
import hmac
import os
import secrets
import tempfile
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from muc.errors import UserError
from muc.restoring import restore
from muc.storage import FORMAT_VERSION, PARTIAL, read_object, write_json

LONGEST_NAME = 64
MOST_IMAGES = 10**9
SECRET_BYTES = 32


@dataclass(frozen=True)
class Key:
    id: str
    """Public: picks the rotation."""
    name: str
    sha256: str
    budget: int
    """Images that may be embedded, both models together."""
    used: int
    created: str
    revoked: str | None = None

    @property
    def left(self) -> int:
        return max(0, self.budget - self.used)


class OverBudget(Exception):
    """More images than are left; nothing was charged."""

    def __init__(self, left: int) -> None:
        super().__init__(left)
        self.left = left


class UnknownKey(Exception):
    """There is no such key, or it was revoked."""


class KeyFile:
    """RUN/serve: keys.json, the secret that rotations are derived from, and the lock."""

    def __init__(self, run: Path) -> None:
        self.run, self.folder = run, run / "serve"
        self.path, self.secret_path = self.folder / "keys.json", self.folder / "secret"
        # The file as it was seen, and what it held: one attribute, because several threads look at it.
        self._cache: tuple[tuple[int, ...], list[Key]] = (), []

    def all(self) -> list[Key]:
        """All, revoked ones too. Read again only when the file changed: atomic writes give it a new inode."""
        try:
            status = self.path.stat()
        except FileNotFoundError:
            return []
        seen = (status.st_ino, status.st_mtime_ns, status.st_size)
        known, keys = self._cache
        if seen != known:
            keys = self._read()
            self._cache = seen, keys
        return keys

    def find(self, token: str) -> Key:
        """The key that was shown. Every stored hash is compared in constant time: time tells nothing about them."""
        digest, found = _hash(token), None
        for key in self.all():
            if hmac.compare_digest(key.sha256, digest) and key.revoked is None:
                found = key
        if found is None:
            raise UnknownKey
        return found

    def add(self, name: str, budget: int) -> str:
        """-> the new key, which is nowhere else."""
        if not name.isprintable() or not name.strip() or len(name) > LONGEST_NAME:
            raise UserError(f"--name {name!r} is no name for a key; give 1 to {LONGEST_NAME} printable characters")
        _check_budget(budget)
        token = "muc_" + secrets.token_urlsafe(32)
        with self._locked():
            keys = self._read()
            if any(key.name == name and key.revoked is None for key in keys):
                raise UserError(f"{self.run} has a key named '{name}'; give another --name, or revoke that one first")
            if keys or self.secret_path.exists():
                self.secret()  # a key that cannot be served is not handed out
            else:
                self._make_secret()
            self._write([*keys, Key(secrets.token_hex(8), name, _hash(token), budget, 0, _now())])
        return token

    def revoke(self, name: str) -> Key:
        """From now on the key opens nothing. It stays in the file: what was asked with it remains on record."""
        return self._change(name, revoked=_now())

    def set_budget(self, name: str, budget: int) -> Key:
        """How many images the key is for in all, those embedded already among them. The key stays, and its rotation:
        with a new one a collection under way could not go on."""
        _check_budget(budget)
        return self._change(name, budget=budget)

    def check(self, key_id: str, images: int) -> None:
        """Whether so many images can be charged now."""
        _afford(self.all(), key_id, images)

    def charge(self, key_id: str, images: int) -> int:
        """Take images off the budget, on disk when this returns; -> what is left. All of them or none."""
        with self._locked():
            keys = self._read()
            key = _afford(keys, key_id, images)
            key = replace(key, used=key.used + images)
            self._write([key if other.id == key.id else other for other in keys])
        return key.left

    def _change(self, name: str, **values: Any) -> Key:
        with self._locked():
            keys = self._read()
            chosen = [key for key in keys if key.name == name and key.revoked is None]
            if not chosen:
                names = ", ".join(key.name for key in keys if key.revoked is None) or "none"
                raise UserError(f"{self.run} has no key named '{name}'; its keys: {names}")
            key = replace(chosen[0], **values)
            self._write([key if other.id == key.id else other for other in keys])
        return key

    def secret(self) -> bytes:
        try:
            found = bytes.fromhex(self.secret_path.read_text())
        except (FileNotFoundError, ValueError):
            found = b""
        if len(found) != SECRET_BYTES:
            raise UserError(
                f"{self.secret_path} is missing or damaged, and no key's vectors can be made again without it; "
                f"restore it, or remove {self.folder} and add new keys"
            )
        return found

    def _make_secret(self) -> None:
        """Whole or not at all, under the lock, and from the first moment on for nobody else to read."""
        handle, partial = tempfile.mkstemp(dir=self.folder, prefix=".secret.", suffix=PARTIAL)  # has mode 0600
        try:
            with os.fdopen(handle, "w") as f:
                f.write(secrets.token_hex(SECRET_BYTES))
                f.flush()
                os.fsync(f.fileno())
            os.replace(partial, self.secret_path)
        except BaseException:
            Path(partial).unlink(missing_ok=True)
            raise

    def _read(self) -> list[Key]:
        if not self.path.exists():
            return []
        return restore(list[Key], read_object(self.path, "keys")["keys"], f"{self.path}: keys")

    def _write(self, keys: Sequence[Key]) -> None:
        write_json(self.path, {"format_version": FORMAT_VERSION, "keys": [asdict(key) for key in keys]})

    @contextmanager
    def _locked(self) -> Generator[None]:
        self.folder.mkdir(mode=0o700, exist_ok=True)
        with open(self.folder / "lock", "w") as f:
            fcntl.flock(f, fcntl.LOCK_EX)
            yield


def _afford(keys: Sequence[Key], key_id: str, images: int) -> Key:
    key = next((key for key in keys if key.id == key_id and key.revoked is None), None)
    if key is None:
        raise UnknownKey
    if images > key.left:
        raise OverBudget(key.left)
    return key


def _check_budget(budget: int) -> None:
    if not 1 <= budget <= MOST_IMAGES:
        raise UserError(f"--budget is {budget}; give how many images may be embedded, from 1 to {MOST_IMAGES:,}")


def _hash(token: str) -> str:
    return sha256(token.encode(errors="surrogatepass")).hexdigest()


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
