"""Which training images serve for what."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from muc.errors import UserError
from muc.restoring import restore
from muc.run_files import SplitFile
from muc.storage import FORMAT_VERSION


@dataclass(frozen=True)
class Split:
    """Which training images serve for what, by index into the data set's training part."""

    seed: int
    validation: np.ndarray
    retain: np.ndarray
    unlearn: np.ndarray

    @property
    def train(self) -> np.ndarray:
        """D = R and U together: what the model before unlearning was trained on."""
        return np.concatenate([self.unlearn, self.retain])

    @property
    def kept(self) -> np.ndarray:
        """What later requests need: all but what was forgotten."""
        return np.concatenate([self.retain, self.validation])

    @property
    def all(self) -> np.ndarray:
        return np.concatenate([self.unlearn, self.kept])

    def to_json(self) -> dict[str, Any]:
        parts = {name: getattr(self, name).tolist() for name in ("validation", "retain", "unlearn")}
        return {"format_version": FORMAT_VERSION, "seed": self.seed, **parts}

    @staticmethod
    def from_json(values: dict[str, Any], where: Path) -> "Split":
        saved = restore(SplitFile, values, str(where))
        try:
            parts = {n: np.array(getattr(saved, n), dtype=np.int64) for n in ("validation", "retain", "unlearn")}
            rows = np.concatenate(list(parts.values()))
            if rows.min(initial=0) < 0 or len(np.unique(rows)) < len(rows):
                raise ValueError("an index is negative or comes twice")
            return Split(seed=saved.seed, **parts)
        except (ValueError, OverflowError) as error:
            raise UserError(f"{where} is not a split file ({error}); restore it or make the run again") from None
