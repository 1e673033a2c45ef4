"""From the stored answers to the verdict: pure functions of vectors, split and terms, for owner and verifiers alike."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from muc.audit.contrasts import contrasts
from muc.audit.hold_back import hold_back_test
from muc.audit.power import EFFECTS, planted_power
from muc.audit.protocol.answers import Collected
from muc.audit.protocol.checks import (
    Check,
    decoys_changed_too,
    near_duplicates_agree,
    pictures_told_apart,
    repeats_agree,
    stated_hash,
    views_agree,
)
from muc.audit.protocol.collect import check_complete
from muc.audit.protocol.folder import Commitment, Secret, Terms
from muc.audit.protocol.matrices import Matrices, cosines, decoys_of, matrices_of, off_diagonal
from muc.audit.protocol.queries import derived
from muc.audit.splits import possible_splits
from muc.audit.verdict import CHANGED, INCONCLUSIVE, Finding, Verdict, decide_by_all

Reference = Literal["ac", "retrain", "smaller"]


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
    decoys_before, decoys_after = (cosines(decoys_of(answers, terms)) for answers in (before, after))
    seed = permutation_seed(secret)
    evidence = hold_back_test(matrices.gap, forget, terms.draws, seed, terms.confidence)
    powers = {
        name: planted_power(matrices.gap, terms.n_forget, effect, terms.alpha, power_repetitions, seed)
        for name, effect in EFFECTS.items()
    }
    asked = EFFECTS if reference == "smaller" else [reference]
    verdict = decide_by_all(evidence, [(EFFECTS[name], powers[name]) for name in asked], terms.alpha)
    checks = [
        *(repeats_agree(answers) for answers in (before, after)),
        *(pictures_told_apart(answers, terms) for answers in (before, after)),
        near_duplicates_agree(before, after),
        views_agree(matrices, forget),
        decoys_changed_too(matrices, decoys_before, decoys_after),
    ]
    words = verdict.words
    if before.model_sha256 is not None and before.model_sha256 == after.model_sha256:
        checks.append(stated_hash(before.model_sha256, verdict.verdict == CHANGED))
        words = f"{checks[-1].what} {words}"
    failed = [check.what for check in checks if not check.held]
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
        background_change=float(np.abs(decoys_before - decoys_after)[off_diagonal(len(decoys_before))].mean()),
        model_before=before.model_sha256,
        model_after=after.model_sha256,
    )


def permutation_seed(secret: Secret) -> int:
    return derived(secret.seed, "permutations")


def null_distribution(gap: np.ndarray, terms: Terms, secret: Secret) -> np.ndarray:
    """(2, s): FS and negative-alignment contrast of every split that was looked at, the owner's first."""
    rows = possible_splits(secret.mask, terms.draws, permutation_seed(secret))
    return contrasts((gap + gap.T) / 2, rows)


def _alignment(matrices: Matrices, group: np.ndarray) -> Alignment:
    before, after = (m[np.ix_(group, group)] for m in (matrices.before, matrices.after))
    off = off_diagonal(len(before))
    means = (before.diagonal().mean(), after.diagonal().mean(), before[off].mean(), after[off].mean())
    return Alignment(*map(float, means))
