"""Figure 8: the alignment matrix of Retrain minus that of AC. What AC leaves in the images is not what Retrain leaves.

Over all images to forget, and over as many test images, which neither model has seen: what is larger on the first than
on the second tells members from others.
"""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from muc.audit.look import look
from muc.data.files import select
from muc.evaluation.alignment_gaps import gap_statistics
from muc.report.cells import Cell, Table, number
from muc.report.group import stat
from muc.report.model_charts import difference_chart
from muc.report.sheet import Plot, Sheet, write_sheet
from muc.report.words import method_name, seed_count
from muc.reproduce.from_models import FromModels, Opened, environments
from muc.reproduce.heatmaps import VIEW_PAIRS
from muc.reproduce.recipe import Options
from muc.reproduce.trial import AC


@dataclass(frozen=True)
class Privacy(FromModels):
    """The heatmap of AC, and the numbers of all methods."""

    what: ClassVar = "gaps between Retrain's alignment matrix and others"

    def measure(self, opened: Opened) -> dict[str, Any]:
        sets = {"unlearn": opened.unlearn, "test": opened.test}
        exact = {name: opened.two_views("retrain", pixels) for name, pixels in sets.items()}
        others = [label for label in opened.runs if label != "retrain"]
        gaps = {
            name: {label: asdict(gap_statistics(exact[name], opened.two_views(label, pixels))) for label in others}
            for name, pixels in sets.items()
        }
        rows = opened.some_unlearn()
        found = look(
            opened.embedder("retrain"),
            opened.embedder(AC),
            select(opened.images.train, rows)[:],
            opened.settings.views,
            view_pairs=VIEW_PAIRS,
            seed=opened.split.seed,
        )
        shown = {"training_images": rows.tolist(), "retrain_minus_ac": found.gap}
        return {"images": {name: len(pixels) for name, pixels in sets.items()}, "gaps": gaps, "shown": shown}

    def write(self, options: Options, out: Path) -> tuple[Path, list[Table]]:
        found = self.found(options, out)
        tables = [tabulate(trials) for trials in found.values()]
        plots = [plot(algorithm, trials[0]) for algorithm, trials in found.items()]
        said = [
            "Retrain never saw the images to forget. Where a method treats them otherwise than Retrain does, and does "
            "not treat test images so, the difference gives away that they were members: to those who have the images "
            "and a Retrain (the paper's point), but without a Retrain also to those who compare with other images.",
            "The paper shows its figure 8 without numbers and without the sign of the difference; "
            "here it is Retrain's matrix minus the method's, below zero where the method has the images closer.",
            *self.settings_told(options),
        ]
        sheet = Sheet(self.heading(options), said, found, environments(found), tables, plots)
        return write_sheet(sheet, out), tables


def tabulate(trials: list[dict[str, Any]]) -> Table:
    """Means over all images and pairs; ± SD over seeds."""
    rows = []
    for label in trials[0]["gaps"]["unlearn"]:
        cells = [
            Cell(number(stat(t["gaps"][name][label][kind]["mean"] for t in trials), 4))
            for kind in ("negative", "positive")
            for name in ("unlearn", "test")
        ]
        rows.append((Cell(method_name(label)), *cells))
    n = trials[0]["images"]
    return Table(
        title=f"Alignment of Retrain minus that of each method: {trials[0]['setting']}",
        caption=f"Mean over all pairs of {n['unlearn']:,} images to forget and of {n['test']:,} test images, one pair "
        f"of views each, over {seed_count(len(trials))}. Where the columns of images to forget and of test images "
        "differ by more than chance (which is not tested here), these can be told apart.",
        columns=(
            "Method",
            "Different images: to forget",
            "Different images: test",
            "Same image: to forget",
            "Same image: test",
        ),
        rows=tuple(rows),
    )


def plot(algorithm: str, trial: dict[str, Any]) -> Plot:
    matrix = np.array(trial["shown"]["retrain_minus_ac"])
    off = matrix[~np.eye(len(matrix), dtype=bool)]
    names = [str(i + 1) for i in range(len(matrix))]
    return Plot(
        f"retrain-minus-ac-{algorithm}",
        difference_chart(matrix.tolist(), names, "Retrain − AC", "more alike for AC  ←  0  →  more alike for Retrain"),
        f"Heatmap of Retrain's alignment matrix minus AC's for {len(matrix)} images to forget: mean on the diagonal "
        f"{matrix.diagonal().mean():+.3f}, off it {off.mean():+.3f}.",
        f"{trial['setting']}, {len(matrix)} images to forget, seed {trial['seed']}; each entry is the mean over "
        f"{VIEW_PAIRS} pairs of views (figure 8).",
    )


RECIPES = {"privacy": Privacy("Retrain against AC (the paper's figure 8)")}
