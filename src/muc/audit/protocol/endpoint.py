"""What an audit needs from whatever embeds pictures: a few facts, and vectors for pictures."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from muc.audit.protocol.folder import Phase
from muc.config import Views
from muc.errors import UserError


@dataclass(frozen=True)
class About:
    """What an endpoint says of itself; None where it does not."""

    channels: int
    size: int
    model_sha256: str | None = None
    dimension: int | None = None
    budget_left: int | None = None
    images_per_request: int = 16
    bytes_per_image: int | None = None
    views: Views | None = None
    """That the model before was trained with."""
    key_sha256: str | None = None
    """Of the key it is asked with. Public in the end, and as good as the key's 256 random bits."""
    before_sha256: str | None = None
    """Of the model that is served as the one before, whichever is asked about."""


@dataclass(frozen=True)
class Reply:
    """To one batch of pictures."""

    vectors: Any
    model_sha256: str | None = None
    budget_left: int | None = None


class Endpoint(Protocol):
    def about(self, phase: Phase) -> About: ...

    def embed(self, pngs: Sequence[bytes], phase: Phase) -> Reply: ...


def checked_vectors(vectors: Any, n: int, dimension: int | None) -> np.ndarray:
    """(n, d) float32. Anything but one finite vector a picture, all of one length, is refused."""
    made: np.ndarray
    try:
        made = np.asarray(vectors, dtype=np.float64)
    except (ValueError, TypeError):
        made = np.zeros((0, 0))
    if made.ndim != 2 or len(made) != n or not made.shape[1]:
        raise UserError(
            f"the endpoint answered with something other than {n} vectors of one length to {n} pictures; "
            "ask its operator what went wrong, then collect again"
        )
    if dimension is not None and made.shape[1] != dimension:
        raise UserError(
            f"the endpoint answered with vectors of {made.shape[1]} numbers instead of {dimension}; "
            "ask its operator whether the model was changed"
        )
    with np.errstate(over="ignore"):
        single = made.astype("<f4")
    if not np.isfinite(single).all() or not (np.linalg.norm(single, axis=1) > 0).all():
        raise UserError(
            "the endpoint answered with vectors that are zero or hold NaN or infinite values; "
            "ask its operator what went wrong, then collect again"
        )
    return single
