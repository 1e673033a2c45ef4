"""From the stored answers to the verdict: pure functions of vectors, split and terms, for owner and verifiers alike."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np

from muc.audit.contrasts import FEWEST, contrasts
from muc.audit.equivalence import Equivalence, equivalence_test
from muc.audit.hold_back import hold_back_test
from muc.audit.memory import Memory, memory_of
from muc.audit.power import EFFECTS, Effect, planted_power
from muc.audit.protocol.answers import Collected
from muc.audit.protocol.checks import (
    Check,
    decoys_changed_too,
    near_duplicates_agree,
    nothing_changed,
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
from muc.audit.verdict import CHANGED, INCONCLUSIVE, Finding, Verdict, decide, decide_by_memory, same_model
from muc.audit.without_controls import GapTest, disjoint_pairs_test, jackknife_test, pair_t_test

Reference = Literal["ac", "retrain", "memory"]
"""What a change is compared with: what a method does in the paper, if the model owner says that it was done, or what
this model remembers."""


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
    memory: Memory | None
    """Of the model before; None without withheld images."""
    like_withheld: Equivalence | None
    """Whether the model after treats deleted images like withheld ones. Secondary: the finding does not hang on it."""
    without_controls: list[GapTest]
    """What owners without controls would have seen. For comparison only."""
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
    reference: Reference = "memory",
    power_repetitions: int = 500,
) -> Judgement:
    """The verdict that the answers allow. Where they contradict themselves, none: no p-value mends that."""
    check_complete(before, after)
    terms, forget = commitment.terms, secret.mask
    everything = matrices_of(before, after, terms)
    matrices = everything.first(terms.n_images)
    decoys_before, decoys_after = (cosines(decoys_of(answers, terms)) for answers in (before, after))
    seed = permutation_seed(secret)
    evidence = hold_back_test(matrices.gap, forget, terms.draws, seed, terms.confidence)

    @cache
    def power_of(effect: Effect) -> float:
        return planted_power(matrices.gap, terms.n_forget, effect, terms.alpha, power_repetitions, seed)

    memory = _memory(everything.before.diagonal(), terms) if terms.n_withheld else None
    if reference == "memory":
        verdict = decide_by_memory(evidence, memory, power_of, terms.alpha)
    else:
        verdict = decide(evidence, power_of(EFFECTS[reference]), EFFECTS[reference], terms.alpha)
    if nothing_changed(everything):
        verdict = same_model(verdict)
    stated = _stated_models(before, after, verdict)
    checks = [
        *(repeats_agree(answers) for answers in (before, after)),
        *(pictures_told_apart(answers, terms) for answers in (before, after)),
        near_duplicates_agree(before, after),
        views_agree(matrices, forget),
        decoys_changed_too(matrices, decoys_before, decoys_after),
        *stated,
    ]
    finding, words = _conclusion(verdict, checks, stated)
    return Judgement(
        finding=finding,
        words=words,
        verdict=verdict,
        memory=memory,
        like_withheld=_like_withheld(everything.after, secret, terms) if terms.n_withheld else None,
        without_controls=_without_controls(matrices.gap[np.ix_(forget, forget)]),
        powers={name: power_of(effect) for name, effect in EFFECTS.items()},
        checks=checks,
        to_forget=_alignment(matrices, forget),
        controls=_alignment(matrices, ~forget),
        background_change=float(np.abs(decoys_before - decoys_after)[off_diagonal(len(decoys_before))].mean()),
        model_before=before.model_sha256,
        model_after=after.model_sha256,
    )


def _memory(alignment: np.ndarray, terms: Terms) -> Memory:
    """(n,): positive alignment by the model before, withheld images last."""
    return memory_of(alignment[: terms.n_images], alignment[terms.n_images :], terms.confidence)


def _stated_models(before: Collected, after: Collected, verdict: Verdict) -> list[Check]:
    """One check where the endpoint states one hash for both models, otherwise none."""
    if before.model_sha256 is None or before.model_sha256 != after.model_sha256:
        return []
    return [stated_hash(before.model_sha256, verdict.verdict == CHANGED)]


def _conclusion(verdict: Verdict, checks: Sequence[Check], stated: Sequence[Check]) -> tuple[Finding, str]:
    """The verdict, unless a check failed: then nothing follows. Said first is what the endpoint itself `stated`."""
    failed = [check.what for check in checks if not check.held]
    if not failed:
        return verdict.verdict, " ".join([*(check.what for check in stated), verdict.words])
    return INCONCLUSIVE, (
        f"Nothing follows from this audit, because the answers contradict themselves: {' '.join(failed)} "
        f"Taken at face value they would say: {verdict.words}"
    )


def _like_withheld(am_after: np.ndarray, secret: Secret, terms: Terms) -> Equivalence:
    rows = np.concatenate([secret.forget, np.arange(terms.n_images, terms.n_asked)])
    deleted = np.arange(len(rows)) < terms.n_forget
    return equivalence_test(am_after[np.ix_(rows, rows)], deleted, terms.margin, terms.margin, terms.alpha)


def _without_controls(agm: np.ndarray) -> list[GapTest]:
    pairs = [disjoint_pairs_test(agm)] if len(agm) > FEWEST else []
    return [jackknife_test(agm), *pairs, pair_t_test(agm)]


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
