"""What may be said to a data owner. Pure: from numbers to one of three verdicts, in plain words."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from muc.audit.hold_back import ALPHA, Contrast, HoldBack
from muc.audit.memory import Memory, effect_of_forgetting
from muc.audit.power import EFFECTS, ENOUGH, Effect
from muc.config import in_range
from muc.errors import UserError

Finding = Literal["changed as requested", "no change found", "inconclusive"]
CHANGED: Finding = "changed as requested"
NO_CHANGE: Finding = "no change found"
INCONCLUSIVE: Finding = "inconclusive"
UNCHANGED = 1e-5
"""Cosines of a model with other weights, however little it was trained, differ by more."""


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


def decide(evidence: HoldBack, power: float, reference: Effect, alpha: float = ALPHA) -> Verdict:
    """Changed, by the primary p alone. Otherwise "no change found" needs two things, or nothing follows:

    the power was there for the reference's effect, and the intervals rule that effect out. Power alone would let one in
    five model owners be accused who did as much as the reference: a change just missed is not a change ruled out.
    """
    if not 0 < alpha < 0.5:
        raise UserError(f"alpha is {alpha}; give the accepted rate of false alarms, above 0 and below 0.5")
    in_range("power", power, 0, 1)
    seen, found = _seen(evidence), _found(reference, power)
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


def decide_by_memory(
    evidence: HoldBack, memory: Memory | None, power_of: Callable[[Effect], float], alpha: float = ALPHA
) -> Verdict:
    """`decide` where the model owner's word is not taken for what should have changed.

    "No change found" then needs to know what this model remembered, and so withheld images: a model that remembers
    little changes little when it honestly forgets. Without them (None) the paper's effects tell how much the audit
    would have seen, and that is all they are good for.
    """
    if memory is not None:
        own = effect_of_forgetting(memory)
        if own is not None:
            return decide(evidence, power_of(own), own, alpha)
    # The one that is hardest to see counts.
    power, reference = min(((power_of(effect), effect) for effect in EFFECTS.values()), key=lambda pair: pair[0])
    found = decide(evidence, power, reference, alpha)
    if found.verdict == CHANGED:
        return found
    why = (
        "how much this model remembers of them is not known, and one that remembers little changes little when it "
        "forgets. Withheld images, which the model owner never had, would tell"
        if memory is None
        else "the model before treated them hardly otherwise than your withheld images, which it never saw (views of "
        f"one image are more alike by {memory.value:.3f}, interval {memory.low:.3f} to {memory.high:.3f}): there was "
        "nothing that could be seen to go. More images, of both kinds, may show it"
    )
    words = (
        f"Nothing follows from this audit: no change beyond chance was found in how the model treats your images "
        f"({_seen(evidence)}; {_found(reference, power)}), but {why}."
    )
    return replace(found, verdict=INCONCLUSIVE, words=words)


def same_model(found: Verdict) -> Verdict:
    """Where answers are the same to the last digits: no test is needed."""
    words = (
        "The model answers every picture that was sent before and after exactly as before: as far as it was asked, it "
        "is the same model, and nothing was unlearned from it."
    )
    return replace(found, verdict=NO_CHANGE, words=words)


def ruled_out(effect: Effect, evidence: HoldBack) -> bool:
    """Whether a trace that the effect leaves is larger than the interval allows."""
    return (effect.fs > 0 and effect.fs > evidence.FS.high) or (
        effect.negative_alignment > 0 and effect.negative_alignment > evidence.negative_alignment.high
    )


def _seen(evidence: HoldBack) -> str:
    return f"p = {evidence.p:.2g}, {evidence.n_forget} images to forget, {evidence.n_control} held back"


def _found(reference: Effect, power: float) -> str:
    return f"a change as large as {reference.name} would have been found with probability {power:.0%}"


def _traces(evidence: HoldBack, alpha: float) -> str:
    """Which of the two statistics carry the change, by their corrected p-values."""
    shown = [
        f"{what} ({_range(contrast)})"
        for what, contrast in (
            ("views of one image are less alike than before", evidence.FS),
            ("different images are more alike than before", evidence.negative_alignment),
        )
        if contrast.p_holm <= alpha and contrast.low > 0  # p is one-sided: an interval across zero would read as a no
    ]
    return " and ".join(shown) or "both statistics together show it, neither does alone"


def _range(contrast: Contrast) -> str:
    return f"by {contrast.value:.3f} in cosine beyond the controls, interval {contrast.low:.3f} to {contrast.high:.3f}"
