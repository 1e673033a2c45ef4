"""What a model is asked, and in which order: a function of the secret seed, and never of the split.

Of the views of an image, half are the same pixels for both models ("shared"): what the views have in common cancels.
The other half are new each time ("fresh"): who prepared answers for pictures seen before cannot have prepared these,
and shared and fresh views must tell the same story.
"""

from dataclasses import dataclass
from hashlib import sha256
from random import Random
from typing import Literal

from muc.audit.protocol.folder import Phase, Terms


@dataclass(frozen=True)
class Query:
    """One picture to ask about. `number` is the view's, or the decoy's. "near" is a shared view, hardly changed."""

    kind: Literal["shared", "fresh", "decoy", "near"]
    image: int
    number: int


def derived(seed: str, purpose: str) -> int:
    """A seed of its own for every use: what one of them shows tells nothing of the others."""
    return int.from_bytes(sha256(f"{purpose}\0{seed}".encode()).digest()[:8]) >> 1


def queries(seed: str, phase: Phase, terms: Terms) -> list[Query]:
    """All pictures for one model in the order they are sent; those that are sent twice stand there twice.

    The repeats are of the first quarter and come in the second half, so that first and second time are never close.
    """
    draw = Random(derived(seed, f"order/{phase}"))
    asked = [
        Query("shared" if view < terms.shared_views else "fresh", image, view)
        for image in range(terms.n_asked)
        for view in range(terms.views)
    ]
    asked += [Query("decoy", -1, number) for number in range(terms.decoys)]
    asked += near_duplicates(seed, terms)
    draw.shuffle(asked)
    half = len(asked) // 2
    repeated = draw.sample(asked[: max(terms.repeats, len(asked) // 4)], terms.repeats)
    later = asked[half:] + repeated
    draw.shuffle(later)
    return asked[:half] + later


def near_duplicates(seed: str, terms: Terms) -> list[Query]:
    """Which shared views are also sent hardly changed; the same for both models."""
    shared = [Query("near", image, view) for image in range(terms.n_asked) for view in range(terms.shared_views)]
    return Random(derived(seed, "near")).sample(shared, terms.near_duplicates)


def batch_size(total: int, most: int) -> int:
    """Small, and never so large that a picture and its repeat come together."""
    return max(1, min(most, 16, total // 8))
