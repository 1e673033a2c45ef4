"""What may be said to a data owner. Pure: from numbers to one of three verdicts, in plain words."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Literal

from muc.audit.hold_back import ALPHA, Contrast, HoldBack
from muc.audit.power import ENOUGH, Effect
from muc.config import in_range
from muc.errors import UserError

Finding = Literal["changed as requested", "no change found", "inconclusive"]
CHANGED: Finding = "changed as requested"
NO_CHANGE: Finding = "no change found"
INCONCLUSIVE: Finding = "inconclusive"


@dataclass(frozen=True)
class Verdict:
    """A verdict with all that it rests on: p, effects with intervals, N and M are in `evidence`."""

    verdict: Finding
    words: str
    alpha: float
    power: float
    """Chance that this audit would have found a change as large as the reference's."""
    reference: str
    evidence: HoldBack

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def decide(evidence: HoldBack, power: float, reference: Effect, alpha: float = ALPHA) -> Verdict:
    """Changed, by the primary p alone. Otherwise "no change found" needs two things, or nothing follows:

    the power was there for the reference's effect, and the intervals rule that effect out. Power alone would let one in
    five model owners be accused who did as much as the reference: a change just missed is not a change ruled out.
    """
    if not 0 < alpha < 0.5:
        raise UserError(f"alpha is {alpha}; give the accepted rate of false alarms, above 0 and below 0.5")
    in_range("power", power, 0, 1)
    seen = f"p = {evidence.p:.2g}, {evidence.n_forget} images to forget, {evidence.n_control} held back"
    found = f"a change as large as {reference.name} would have been found with probability {power:.0%}"
    verdict = INCONCLUSIVE
    if evidence.p <= alpha:
        verdict = CHANGED
        words = (
            f"The model's treatment of your images changed more than chance allows ({seen}): "
            f"{_traces(evidence, alpha)}. Whether anything of them is left in the model, or a copy of the old model, "
            "no audit from outside can show."
        )
    elif power < ENOUGH:
        words = (
            f"Nothing follows from this audit: no change beyond chance was found ({seen}), but {found} only. "
            "Audit again with more images."
        )
    elif not ruled_out(reference, evidence):
        words = (
            f"Nothing follows from this audit: no change beyond chance was found ({seen}), but it does not rule out "
            f"a change as large as {reference.name} either; {found}. Audit again with more images."
        )
    else:
        verdict = NO_CHANGE
        words = (
            f"No change beyond chance was found in how the model treats your images ({seen}); {found}, and the "
            "intervals rule it out. A smaller change may have been missed."
        )
    return Verdict(verdict, words, alpha, power, reference.name, evidence)


def decide_by_all(evidence: HoldBack, references: Iterable[tuple[Effect, float]], alpha: float = ALPHA) -> Verdict:
    """`decide` where nobody knows what was done: "no change found" only if it is that by every reference, each with its
    power. The first doubt counts, that of the reference that is hardest to see before others."""
    by_power = sorted(references, key=lambda reference: reference[1])
    possible = [decide(evidence, power, effect, alpha) for effect, power in by_power]
    return next((verdict for verdict in possible if verdict.verdict == INCONCLUSIVE), possible[0])


def ruled_out(effect: Effect, evidence: HoldBack) -> bool:
    """Whether a trace that the effect leaves is larger than the interval allows."""
    return (effect.fs > 0 and effect.fs > evidence.FS.high) or (
        effect.negative_alignment > 0 and effect.negative_alignment > evidence.negative_alignment.high
    )


def _traces(evidence: HoldBack, alpha: float) -> str:
    """Which of the two statistics carry the change, by their corrected p-values."""
    shown = [
        f"{what} ({_range(contrast)})"
        for what, contrast in (
            ("views of one image are less alike than before", evidence.FS),
            ("different images are more alike than before", evidence.negative_alignment),
        )
        if contrast.p_holm <= alpha
    ]
    return " and ".join(shown) or "both statistics together show it, neither does alone"


def _range(contrast: Contrast) -> str:
    return f"by {contrast.value:.3f} in cosine beyond the controls, interval {contrast.low:.3f} to {contrast.high:.3f}"
