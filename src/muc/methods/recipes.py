"""Hyper-parameters to start from: the methods' own defaults are the paper's, the embedded sets need larger steps."""

from dataclasses import replace
from typing import Any

from muc.errors import check_name
from muc.methods import METHODS, Method, Range

EMBEDDED_SETS = ("glyphs", "digits")

# Chosen on the glyphs of seeds 10 and 11 by average gap to Retrain on validation images (docs/log.md has the trials).
EMBEDDED: dict[str, dict[str, Any]] = {
    "finetune": {"epochs": 25, "learning_rate": 0.8},
    "gradient_ascent": {"epochs": 12, "learning_rate": 0.1},
    "neggrad": {"epochs": 25, "learning_rate": 0.11},
    "l1_sparsity": {"epochs": 25, "learning_rate": 0.5, "l1": 1e-5},
    "alignment_calibration": {"epochs": 25, "learning_rate": 0.02, "paper_beta": 6.0},
}


def search_ranges(method: Method, data: str) -> dict[str, Range]:
    """Where to search: the paper's ranges; for the embedded sets, learning rates around what works there."""
    rate = method.learning_rate
    if data not in EMBEDDED_SETS or rate is None or "learning_rate" not in method.search:
        return method.search
    return {**method.search, "learning_rate": Range(rate / 4, rate * 2)}


def default_method(name: str, data: str) -> Method:
    """The method with the defaults for a data set."""
    kind = METHODS[check_name("method", name, METHODS)]
    return replace(kind(), **EMBEDDED.get(name, {})) if data in EMBEDDED_SETS else kind()
