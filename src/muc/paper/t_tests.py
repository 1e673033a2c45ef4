"""The paper's p-values again, from the means and deviations that it prints.

Its recipe is not stated; a two-sided Student test with pooled variance gives its numbers. `docs` say why a data owner
must not rely on it: the N(N-1)/2 pairs share images, and a real owner has no null arm.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from scipy.stats import ttest_ind_from_stats

from muc.paper import load


class Hypotheses(NamedTuple):
    """One row of p-values: which printed rows, between which arms, with how many values per arm."""

    name: str
    table: str
    metric: str
    null: str
    alternative: str
    per_arm: Callable[[int], int]


def images(n: int) -> int:
    return n


def pairs(n: int) -> int:
    return n * (n - 1) // 2


TESTS = (
    Hypotheses("FS, exact unlearning", "t_test_exact_unlearning", "FS", "H0_fs", "H1_fs", images),
    Hypotheses("FS, alignment calibration", "t_test_ac", "FS", "H0_fs", "H1_fs_ac", images),
    Hypotheses(
        "negative alignment, alignment calibration",
        "t_test_ac",
        "negative_alignment_gap",
        "H0_neg_align",
        "H1_neg_align_ac",
        pairs,
    ),
)


def p_value(null: dict[str, float], alternative: dict[str, float], per_arm: int) -> float:
    """Two-sided, pooled variance; each arm is {mu, sigma} of `per_arm` values."""
    result: Any = ttest_ind_from_stats(
        null["mu"], null["sigma"], per_arm, alternative["mu"], alternative["sigma"], per_arm, equal_var=True
    )
    return float(result.pvalue)


def t_tests() -> list[dict[str, Any]]:
    """-> rows {test, N, ours, printed, relation}; relation is "<=" where the paper prints only a bound."""
    paper = load()
    facts = paper["text_facts"]["t_test"]
    return [
        {
            "test": test.name,
            "N": row["N"],
            "ours": p_value(facts[test.null], facts[test.alternative], test.per_arm(row["N"])),
            "printed": row["p_value"],
            "relation": row["p_relation"],
        }
        for test in TESTS
        for row in paper["tables"][test.table]["rows"]
        if row["metric"] == test.metric
    ]
