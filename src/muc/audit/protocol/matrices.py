"""From answers to alignment matrices."""

from dataclasses import dataclass

import numpy as np

from muc.audit.protocol.answers import Collected
from muc.audit.protocol.folder import Terms
from muc.audit.protocol.queries import Query


@dataclass(frozen=True)
class Matrices:
    """(n, n) alignment matrices: all views, and the halves that contradict each other where somebody cheats.

    Of all images asked about, the withheld ones last.
    """

    before: np.ndarray
    after: np.ndarray
    shared_gap: np.ndarray
    fresh_gap: np.ndarray

    @property
    def gap(self) -> np.ndarray:
        """The AGM."""
        return self.before - self.after

    def first(self, n: int) -> "Matrices":
        """Of the first n images: those that the model owner had."""
        return Matrices(*(matrix[:n, :n] for matrix in (self.before, self.after, self.shared_gap, self.fresh_gap)))


def alignment_of(vectors: np.ndarray) -> np.ndarray:
    """(n, v, d) vectors of v views of each image -> (n, n) mean cosine over all pairs of views of the two images.

    On the diagonal, pairs of different views. All pairs cost no more queries than one, and are less noisy.
    """
    views = vectors.shape[1]
    exact = vectors.astype(np.float64)
    total = (exact / np.linalg.norm(exact, axis=2, keepdims=True)).sum(axis=1)
    matrix = total @ total.T / views**2
    np.fill_diagonal(matrix, ((total**2).sum(axis=1) - views) / (views * (views - 1)))
    return matrix


def matrices_of(before: Collected, after: Collected, terms: Terms) -> Matrices:
    first, second = (views_of(answers, terms) for answers in (before, after))
    shared, fresh = slice(None, terms.shared_views), slice(terms.shared_views, None)
    return Matrices(
        before=alignment_of(first),
        after=alignment_of(second),
        shared_gap=alignment_of(first[:, shared]) - alignment_of(second[:, shared]),
        fresh_gap=alignment_of(first[:, fresh]) - alignment_of(second[:, fresh]),
    )


def views_of(answers: Collected, terms: Terms) -> np.ndarray:
    """(n, views, d): the first answer to each view."""
    at = places(answers)
    kinds = ["shared" if view < terms.shared_views else "fresh" for view in range(terms.views)]
    rows = [
        [at[Query(kind, image, view)][0] for view, kind in enumerate(kinds)]  # ty: ignore[invalid-argument-type]
        for image in range(terms.n_asked)
    ]
    return answers.vectors[np.array(rows)]


def decoys_of(answers: Collected, terms: Terms) -> np.ndarray:
    """(decoys, d)"""
    at = places(answers)
    return answers.vectors[[at[Query("decoy", -1, number)][0] for number in range(terms.decoys)]]


def places(answers: Collected) -> dict[Query, list[int]]:
    """Where in the order each question was asked; twice for repeats."""
    at: dict[Query, list[int]] = {}
    for place, query in enumerate(answers.queries):
        at.setdefault(query, []).append(place)
    return at


def cosines(vectors: np.ndarray) -> np.ndarray:
    exact = vectors.astype(np.float64)
    unit = exact / np.linalg.norm(exact, axis=1, keepdims=True)
    return unit @ unit.T


def off_diagonal(n: int) -> np.ndarray:
    return ~np.eye(n, dtype=bool)
