"""One key pair for each audit (Ed25519). Signatures tie its files to its commitment; the key has no other use."""

from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

from muc.audit.protocol.records import canonical, read_bytes, write_new_secret
from muc.errors import UserError


def new_key(path: Path) -> Ed25519PrivateKey:
    """Made here, kept here, readable by its owner alone."""
    key = Ed25519PrivateKey.generate()
    write_new_secret(path, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return key


def load_key(path: Path) -> Ed25519PrivateKey:
    try:
        key = load_pem_private_key(read_bytes(path), password=None)
    except (ValueError, TypeError):
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise UserError(f"{path} is not the audit's private key; restore it from a copy, or start another audit")
    return key


def public_hex(key: Ed25519PrivateKey) -> str:
    return key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw).hex()


def signed(values: dict[str, Any], key: Ed25519PrivateKey) -> bytes:
    """The file's content: the object with a signature over everything else in it."""
    return canonical({**values, "signature": key.sign(canonical(values)).hex()})


def check_signature(values: dict[str, Any], public_key: str, path: Path) -> dict[str, Any]:
    """-> the object without its signature, which must be that key's."""
    plain = {name: value for name, value in values.items() if name != "signature"}
    try:
        key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(public_key))
        key.verify(bytes.fromhex(values.get("signature", "")), canonical(plain))
    except (InvalidSignature, ValueError, TypeError):
        raise UserError(f"the signature of {path} is wrong: it was changed, or is of another audit") from None
    if values["signature"] != values["signature"].lower():  # the same bytes, spelled otherwise
        raise UserError(f"{path} was changed after it was written; restore the file from a copy")
    return plain
