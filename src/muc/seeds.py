"""Seeds for everything random, from labels that say what they are for."""

from hashlib import sha256


def derive_seed(*parts: int | str) -> int:
    """A 63-bit seed from any labels: streams for different purposes never overlap."""
    return int.from_bytes(sha256(repr(parts).encode()).digest()[:8], "little") >> 1
