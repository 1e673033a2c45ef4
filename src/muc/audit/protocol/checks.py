"""Whether the answers can be believed: what no single model that was trained on would answer like."""

from dataclasses import dataclass, replace

import numpy as np

from muc.audit.hold_back import estimates
from muc.audit.protocol.answers import Collected
from muc.audit.protocol.folder import Terms
from muc.audit.protocol.matrices import Matrices, cosines, decoys_of, off_diagonal, places
from muc.audit.verdict import UNCHANGED

SAME = 1e-3
"""Cosine distance up to which two answers to the same pixels are the same: arithmetic on GPUs differs by less, and a
tenth of the smallest effect in the paper is as large."""
STEEPER = 3
"""Deep networks are steep in places, and trained on the same data, in much the same ones: a model may answer pictures
that hardly differ so many times as differently as the model before did, when nobody knew yet what would be listed."""
TOO_MANY = 0.1
"""Of the pairs of decoys, at most so many may be as similar as before, to within `UNCHANGED`."""
INDISTINCT = 1e-6
CONTRADICTION = 0.9995
"""Confidence of each of the two intervals that would show shared and fresh views at odds: one wrong alarm in 1,000."""


@dataclass(frozen=True)
class Check:
    """Whether the answers can be believed in one respect, in a sentence."""

    name: str
    held: bool
    what: str


def repeats_agree(answers: Collected) -> Check:
    """Noise, a rotation that changes, or another model behind the same address would show here."""
    name, worst = f"repeated questions to the model {answers.phase}", 0.0
    pairs = [places for places in places(answers).values() if len(places) > 1]
    for first, *again in pairs:
        worst = max(worst, *(1 - cosines(answers.vectors[[first, place]])[0, 1] for place in again))
    if worst <= SAME:
        return Check(name, True, f"{len(pairs)} pictures were sent twice and answered alike.")
    return Check(
        name,
        False,
        f"The model {answers.phase} answered the same picture differently when asked again "
        f"(cosine distance {worst:.2g}, expected at most {SAME:g}).",
    )


def near_duplicates_agree(before: Collected, after: Collected) -> Check:
    """Answers that hang on exact pixels, prepared ones or a disturbance, would show here."""
    name, asked = "near-duplicates", near_distances(after)
    usual, found = float(near_distances(before).mean()), float(asked.mean())
    if found <= (most := allowed(usual)):
        return Check(name, True, f"{len(asked)} pictures were sent again hardly changed, and answered alike.")
    return Check(
        name,
        False,
        "The model after answered pictures that differ by single grey levels very differently (mean cosine distance "
        f"{found:.2g}, before {usual:.2g}, expected at most {most:.2g}).",
    )


def allowed(usual: np.ndarray | float) -> np.ndarray:
    """How far apart a model may answer pictures that hardly differ, by how far the model before did."""
    return np.maximum(SAME, STEEPER * usual)


def near_distances(answers: Collected) -> np.ndarray:
    """1 - cosine between each near-duplicate and the view it is one of."""
    at = places(answers)
    pairs = [[at[query][0], at[replace(query, kind="shared")][0]] for query in at if query.kind == "near"]
    return np.array([1 - cosines(answers.vectors[pair])[0, 1] for pair in pairs])


def decoys_changed_too(matrices: Matrices, before: np.ndarray, after: np.ndarray) -> Check:
    """Training moves every answer a little. The old answers to decoys and new ones to the owner's images come from a
    filter before the old model, not from a model that was trained."""
    name = "change of decoys"
    unmoved = float((np.abs(before - after)[off_diagonal(len(before))] < UNCHANGED).mean())
    if unmoved <= TOO_MANY:
        return Check(name, True, "Pictures that nobody listed changed too, as they do when a model is trained.")
    if nothing_changed(matrices):
        return Check(name, True, "Nothing changed at all, neither the images nor the decoys: it is the old model.")
    return Check(
        name,
        False,
        f"The images changed, but of the decoys' similarities {unmoved:.0%} are exactly what they were (a trained "
        f"model leaves at most {TOO_MANY:.0%}), as behind a filter that gives some pictures special treatment.",
    )


def nothing_changed(matrices: Matrices) -> bool:
    """By the views that both models saw: fresh ones differ in any case."""
    return float(np.abs(matrices.shared_gap).max()) < UNCHANGED


def stated_hash(sha256: str, changed: bool) -> Check:
    """Where the endpoint states one hash for both models. Then nothing was deleted, or the hash is not the model's."""
    same = (
        f"The endpoint stated the same model hash before and after ({sha256[:12]}), so by its own word it is one model"
    )
    return Check(
        "stated models", not changed, f"{same}, which treats the images differently." if changed else f"{same}."
    )


def pictures_told_apart(answers: Collected, terms: Terms) -> Check:
    """One answer to everything is no embedding."""
    name = f"decoys to the model {answers.phase}"
    alike = cosines(decoys_of(answers, terms))
    if float(alike[off_diagonal(len(alike))].min()) < 1 - INDISTINCT:
        return Check(name, True, f"{len(alike)} decoys were answered, and told apart.")
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
