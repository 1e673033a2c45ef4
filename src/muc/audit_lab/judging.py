"""Every test of the audit on one alignment gap matrix, side by side."""

import numpy as np

from muc.audit import HoldBack, disjoint_pairs_test, hold_back_test, jackknife_test, pair_t_test
from muc.audit.contrasts import checked_matrix

DRAWS = 999
"""Splits drawn by the hold-back test: valid for any number, and ten times as fast as an owner's 9,999."""

WITH_CONTROLS = {
    "hold_back": "hold-back test (primary)",
    "FS": "FS contrast alone",
    "negative_alignment": "negative-alignment contrast alone",
}
WITHOUT_CONTROLS = {
    "jackknife": "jackknife, no controls",
    "disjoint_pairs": "disjoint pairs, no controls",
    "pair_t": "t-test over pairs (the paper's)",
}
TESTS = WITH_CONTROLS | WITHOUT_CONTROLS
"""Key in the results -> name in tables."""


def all_p_values(agm: np.ndarray, forget: np.ndarray, seed: int) -> dict[str, float]:
    """(n, n), (n,) -> p of each test. Owners without controls see the images to forget only, in either direction."""
    return controlled_p_values(hold_back_test(agm, forget, DRAWS, seed)) | {
        name: p for name, (p, _) in uncontrolled(agm, forget).items()
    }


def controlled_p_values(evidence: HoldBack) -> dict[str, float]:
    return {"hold_back": evidence.p, "FS": evidence.FS.p, "negative_alignment": evidence.negative_alignment.p}


def uncontrolled(agm: np.ndarray, forget: np.ndarray) -> dict[str, tuple[float, float]]:
    """-> two-sided p of each test without controls, and the gap, which unlearning makes negative."""
    mine = checked_matrix(agm)[np.ix_(forget, forget)]
    tests = {"jackknife": jackknife_test, "disjoint_pairs": disjoint_pairs_test, "pair_t": pair_t_test}
    found = {name: test(mine) for name, test in tests.items()}
    return {name: (test.p, test.gap) for name, test in found.items()}
