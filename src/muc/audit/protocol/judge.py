"""From the stored answers to the verdict: pure functions of vectors, split and terms, for owner and verifiers alike."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from muc.audit.contrasts import contrasts
from muc.audit.hold_back import estimates, hold_back_test
from muc.audit.power import AC, RETRAIN, Effect, planted_power
from muc.audit.protocol.answers import Collected
from muc.audit.protocol.collect import check_complete
from muc.audit.protocol.folder import Commitment, Secret, Terms
from muc.audit.protocol.queries import Query, derived
from muc.audit.splits import possible_splits
from muc.audit.verdict import INCONCLUSIVE, Finding, Verdict, decide

Reference = Literal["ac", "retrain", "smaller"]
EFFECTS: dict[str, Effect] = {"ac": AC, "retrain": RETRAIN}
SAME = 1e-3
"""Cosine distance up to which two answers to the same pixels are the same: arithmetic on GPUs differs by less, and a
tenth of the smallest effect in the paper is as large."""
INDISTINCT = 1e-6
CONTRADICTION = 0.9995
"""Confidence of each of the two intervals that would show shared and fresh views at odds: one wrong alarm in 1,000."""


@dataclass(frozen=True)
class Check:
    """Whether the answers can be believed in one respect, in a sentence."""

    name: str
    held: bool
    what: str


@dataclass(frozen=True)
class Alignment:
    """Means of the alignment matrices, for those who read no matrices."""

    positive_before: float
    positive_after: float
    negative_before: float
    negative_after: float


@dataclass(frozen=True)
class Judgement:
    """All that a verdict says, as it is stored."""

    finding: Finding
    """The verdict's, unless the answers contradict themselves."""
    words: str
    verdict: Verdict
    powers: dict[str, float]
    checks: list[Check]
    to_forget: Alignment
    controls: Alignment
    background_change: float
    """Mean absolute change in the similarity of two decoys: how much the model changed for what nobody asked about."""
    model_before: str | None
    model_after: str | None


@dataclass(frozen=True)
class Matrices:
    """(n, n) alignment matrices: all views, and the halves that contradict each other where somebody cheats."""

    before: np.ndarray
    after: np.ndarray
    shared_gap: np.ndarray
    fresh_gap: np.ndarray

    @property
    def gap(self) -> np.ndarray:
        """The AGM."""
        return self.before - self.after


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
    at = _places(answers)
    kinds = ["shared" if view < terms.shared_views else "fresh" for view in range(terms.views)]
    rows = [
        [at[Query(kind, image, view)][0] for view, kind in enumerate(kinds)]  # ty: ignore[invalid-argument-type]
        for image in range(terms.n_images)
    ]
    return answers.vectors[np.array(rows)]


def decoys_of(answers: Collected, terms: Terms) -> np.ndarray:
    """(decoys, d)"""
    at = _places(answers)
    return answers.vectors[[at[Query("decoy", -1, number)][0] for number in range(terms.decoys)]]


def _places(answers: Collected) -> dict[Query, list[int]]:
    """Where in the order each question was asked; twice for repeats."""
    at: dict[Query, list[int]] = {}
    for place, query in enumerate(answers.queries):
        at.setdefault(query, []).append(place)
    return at


def judge(
    before: Collected,
    after: Collected,
    commitment: Commitment,
    secret: Secret,
    reference: Reference = "smaller",
    power_repetitions: int = 500,
) -> Judgement:
    """The verdict that the answers allow. Where they contradict themselves, none: no p-value mends that."""
    check_complete(before, after)
    terms, forget = commitment.terms, secret.mask
    matrices = matrices_of(before, after, terms)
    seed = permutation_seed(secret)
    evidence = hold_back_test(matrices.gap, forget, terms.draws, seed, terms.confidence)
    powers = {
        name: planted_power(matrices.gap, terms.n_forget, effect, terms.alpha, power_repetitions, seed)
        for name, effect in EFFECTS.items()
    }
    asked = sorted(powers, key=lambda name: powers[name]) if reference == "smaller" else [reference]
    possible = [decide(evidence, powers[name], EFFECTS[name], terms.alpha) for name in asked]
    # Who knows of no method must not be told "no change" unless both are ruled out: the first doubt counts.
    verdict = next((v for v in possible if v.verdict == INCONCLUSIVE), possible[0])
    checks = [
        *(repeats_agree(answers) for answers in (before, after)),
        *(pictures_told_apart(answers, terms) for answers in (before, after)),
        views_agree(matrices, forget),
    ]
    decoys_before, decoys_after = (_cosines(decoys_of(answers, terms)) for answers in (before, after))
    failed = [check.what for check in checks if not check.held]
    words = verdict.words
    if failed:
        words = (
            f"Nothing follows from this audit, because the answers contradict themselves: {' '.join(failed)} "
            f"Taken at face value they would say: {verdict.words}"
        )
    return Judgement(
        finding=INCONCLUSIVE if failed else verdict.verdict,
        words=words,
        verdict=verdict,
        powers=powers,
        checks=checks,
        to_forget=_alignment(matrices, forget),
        controls=_alignment(matrices, ~forget),
        background_change=float(np.abs(decoys_before - decoys_after)[_off(len(decoys_before))].mean()),
        model_before=before.model_sha256,
        model_after=after.model_sha256,
    )


def permutation_seed(secret: Secret) -> int:
    return derived(secret.seed, "permutations")


def null_distribution(gap: np.ndarray, terms: Terms, secret: Secret) -> np.ndarray:
    """(2, s): FS and negative-alignment contrast of every split that was looked at, the owner's first."""
    rows = possible_splits(secret.mask, terms.draws, permutation_seed(secret))
    return contrasts((gap + gap.T) / 2, rows)


def repeats_agree(answers: Collected) -> Check:
    """Noise, a rotation that changes, or another model behind the same address would show here."""
    name, worst = f"repeated questions to the model {answers.phase}", 0.0
    pairs = [places for places in _places(answers).values() if len(places) > 1]
    for first, *again in pairs:
        worst = max(worst, *(1 - _cosines(answers.vectors[[first, place]])[0, 1] for place in again))
    if worst <= SAME:
        return Check(name, True, f"{len(pairs)} pictures were sent twice and answered alike.")
    return Check(
        name,
        False,
        f"The model {answers.phase} answered the same picture differently when asked again "
        f"(cosine distance {worst:.2g}, expected at most {SAME:g}).",
    )


def pictures_told_apart(answers: Collected, terms: Terms) -> Check:
    """One answer to everything is no embedding."""
    name = f"decoys to the model {answers.phase}"
    cosines = _cosines(decoys_of(answers, terms))
    if float(cosines[_off(len(cosines))].min()) < 1 - INDISTINCT:
        return Check(name, True, f"{len(cosines)} decoys were answered, and told apart.")
    return Check(name, False, f"The model {answers.phase} gave the same answer to different pictures.")


def views_agree(matrices: Matrices, forget: np.ndarray) -> Check:
    """Whether pictures that were seen before show the same change as new ones."""
    name = "known and fresh views"
    differences = estimates(matrices.shared_gap - matrices.fresh_gap, forget)
    for statistic, difference in zip(("FS", "negative alignment"), differences, strict=True):
        low, high = difference.interval(CONTRADICTION)
        if low > INDISTINCT or high < -INDISTINCT:
            return Check(
                name,
                False,
                f"Pictures that the service had seen before show another change in {statistic} than fresh ones "
                f"(by {difference.value:+.3f}, interval {low:.3f} to {high:.3f}), as prepared answers would.",
            )
    return Check(name, True, "Pictures that the service had seen before and fresh ones show the same change.")


def _alignment(matrices: Matrices, group: np.ndarray) -> Alignment:
    before, after = (m[np.ix_(group, group)] for m in (matrices.before, matrices.after))
    off = _off(len(before))
    means = (before.diagonal().mean(), after.diagonal().mean(), before[off].mean(), after[off].mean())
    return Alignment(*map(float, means))


def _cosines(vectors: np.ndarray) -> np.ndarray:
    exact = vectors.astype(np.float64)
    unit = exact / np.linalg.norm(exact, axis=1, keepdims=True)
    return unit @ unit.T


def _off(n: int) -> np.ndarray:
    return ~np.eye(n, dtype=bool)
