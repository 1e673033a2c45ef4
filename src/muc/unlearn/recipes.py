"""Hyper-parameters to start from: the methods' own defaults are the paper's, the embedded sets need larger steps."""

from dataclasses import replace
from typing import Any

from muc.errors import check_name
from muc.unlearn import METHODS, Method

# Chosen on the glyphs of seeds 10 and 11 by average gap to Retrain on validation images (docs/log.md has the trials).
EMBEDDED: dict[str, dict[str, Any]] = {
    "finetune": {"epochs": 25, "learning_rate": 0.8},
    "gradient_ascent": {"epochs": 12, "learning_rate": 0.1},
    "neggrad": {"epochs": 25, "learning_rate": 0.11},
    "l1_sparsity": {"epochs": 25, "learning_rate": 0.5, "l1": 1e-5},
    "alignment_calibration": {"epochs": 25, "learning_rate": 0.02, "paper_beta": 6.0},
}


def default_method(name: str, data: str) -> Method:
    """The method with the defaults for a data set."""
    kind = METHODS[check_name("method", name, METHODS)]
    return replace(kind(), **EMBEDDED.get(name, {})) if data in ("glyphs", "digits") else kind()
