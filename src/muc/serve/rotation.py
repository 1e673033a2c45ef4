"""Each key sees the vectors in coordinates of its own: all cosines are as they were, but what two keys were told cannot
be put together to copy the model."""

from functools import lru_cache
from hashlib import shake_256

import numpy as np
from threadpoolctl import ThreadpoolController

CACHE_BYTES = 256_000_000


class Rotations:
    """Orthogonal matrices by key, the same for both models: the owner compares before with after."""

    def __init__(self, secret: bytes, dimension: int) -> None:
        made = lru_cache(maxsize=max(2, CACHE_BYTES // (8 * dimension**2)))
        self._of = made(lambda key_id: rotation(secret, key_id, dimension))
        self._threads = ThreadpoolController()

    def apply(self, key_id: str, vectors: np.ndarray) -> np.ndarray:
        """(n, d) in the key's coordinates, as float32."""
        # OpenBLAS threads spin while they wait: on a busy machine a 512 x 512 QR took seconds instead of 0.1.
        with self._threads.limit(limits=1, user_api="blas"):
            return (vectors @ self._of(key_id)).astype(np.float32)


def rotation(secret: bytes, key_id: str, dimension: int) -> np.ndarray:
    """(d, d) orthogonal, uniformly distributed, a function of secret and key alone.

    Not from numpy's generators: their numbers can be predicted, and may change with numpy's version.
    """
    # The secret has a fixed length, so no two pairs of secret and key give the same text.
    bits = shake_256(b"muc rotation" + secret + key_id.encode()).digest(16 * dimension**2)
    u, v = (np.frombuffer(bits, "<u8") >> 11).reshape(2, dimension, dimension) * 2.0**-53
    normal = np.sqrt(-2 * np.log1p(-u)) * np.cos(2 * np.pi * v)  # Box and Muller
    q, r = np.linalg.qr(normal)
    return q * np.where(np.diag(r) < 0, -1.0, 1.0)  # without this, QR prefers some rotations to others
