"""Black-box audit: sees only `embed(images) -> vectors`; never imports models or training code."""

from muc.audit.equivalence import Equivalence, equivalence_test
from muc.audit.hold_back import HoldBack, hold_back_test
from muc.audit.look import Embed, Look, look
from muc.audit.memory import Memory, effect_of_forgetting, memory_of
from muc.audit.power import (
    AC,
    EFFECTS,
    MEASURED,
    RETRAIN,
    Effect,
    Plan,
    enough_images,
    minimal_effect,
    model_power,
    plan,
    planted_power,
)
from muc.audit.verdict import Verdict, decide, decide_by_memory
from muc.audit.without_controls import GapTest, disjoint_pairs_test, jackknife_test, pair_t_test

__all__ = [
    "AC",
    "EFFECTS",
    "MEASURED",
    "RETRAIN",
    "Effect",
    "Embed",
    "Equivalence",
    "GapTest",
    "HoldBack",
    "Look",
    "Memory",
    "Plan",
    "Verdict",
    "decide",
    "decide_by_memory",
    "disjoint_pairs_test",
    "effect_of_forgetting",
    "enough_images",
    "equivalence_test",
    "hold_back_test",
    "jackknife_test",
    "look",
    "memory_of",
    "minimal_effect",
    "model_power",
    "pair_t_test",
    "plan",
    "planted_power",
]
