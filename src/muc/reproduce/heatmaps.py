"""Figures 3 and 6: alignment matrices of 8 images to forget, before and after AC, and the gap that each method made."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from muc.audit.look import look
from muc.data.files import select
from muc.report.cells import Cell, Table
from muc.report.heatmaps import gap_grid, look_figure, similarity_grid
from muc.report.sheet import Plot, Sheet, write_sheet
from muc.report.words import method_name
from muc.reproduce.from_models import FromModels, Opened, environments
from muc.reproduce.recipe import Options
from muc.reproduce.trial import AC

VIEW_PAIRS = 8


@dataclass(frozen=True)
class Heatmaps(FromModels):
    """The same images and views for every method; figures are of the first seed."""

    what: ClassVar = "alignment matrices"

    def measure(self, opened: Opened) -> dict[str, Any]:
        rows, before = opened.some_unlearn(), opened.embedder("pretrain")
        images, names = select(opened.images.train, rows)[:], [str(i + 1) for i in range(len(rows))]
        looks = {
            label: look(
                before, opened.embedder(label), images, opened.settings.views, names, VIEW_PAIRS, opened.split.seed
            ).to_json()
            for label in opened.runs
            if label != "pretrain"
        }
        return {"training_images": rows.tolist(), "looks": looks}

    def write(self, options: Options, out: Path) -> tuple[Path, list[Table]]:
        found = self.found(options, out)
        tables = [tabulate(trials[0]) for trials in found.values()]
        plots = [p for algorithm, trials in found.items() for p in plots_of(algorithm, trials[0])]
        said = [
            "An alignment matrix (AM) holds the similarity of every first view with every second view of a few images "
            "to forget; the framed diagonal is that of two views of one image. The alignment gap matrix (AGM) is the "
            f"AM before unlearning minus that after. Each entry is the mean over {VIEW_PAIRS} pairs of views, which "
            "are the same for every method; the paper has one pair.",
            "The paper's figures 3 and 6 come without numbers, and which images they show is not said.",
            *self.settings_told(options),
        ]
        sheet = Sheet(self.heading(options), said, found, environments(found), tables, plots)
        return write_sheet(sheet, out), tables


def tabulate(trial: dict[str, Any]) -> Table:
    """The mean of each matrix on and off the diagonal."""
    n = len(trial["training_images"])
    return Table(
        title=f"What the heatmaps show: {trial['setting']}",
        caption=f"Means over {n} images to forget (seed {trial['seed']}): the diagonals ('same image') and the rest "
        "('different images') of the matrices. With so few images these are no measure of a method; "
        "'muc reproduce negative-alignment' has all of them.",
        columns=(
            "Method",
            *(f"{w} {c}" for w in ("Same image", "Different images") for c in ("before", "after", "gap")),
        ),
        rows=alignment_rows(trial["looks"]),
    )


def alignment_rows(looks: dict[str, Any]) -> tuple[tuple[Cell, ...], ...]:
    """Of each method: the means on and off the diagonal, before, after, and what changed."""
    rows = []
    for label, found in looks.items():
        positive, negative = (
            [found[f"{kind}_alignment_{when}"] for when in ("before", "after")] for kind in ("positive", "negative")
        )
        values = (*positive, positive[0] - positive[1], *negative, found["negative_alignment_gap"])
        rows.append((Cell(method_name(label)), *(Cell(f"{value:.4f}") for value in values)))
    return tuple(rows)


def plots_of(algorithm: str, trial: dict[str, Any]) -> list[Plot]:
    looks, n = trial["looks"], len(trial["training_images"])
    where = f"{trial['setting']}, {n} images to forget, seed {trial['seed']}"
    gaps = ", ".join(f"{method_name(label)} {found['negative_alignment_gap']:+.3f}" for label, found in looks.items())
    ac = looks[AC]
    return [
        Plot(
            f"ac-{algorithm}",
            look_figure(ac),
            f"Three heatmaps for Alignment Calibration: similarity before, similarity after, and the change. The mean "
            f"on the diagonal goes from {ac['positive_alignment_before']:.3f} to {ac['positive_alignment_after']:.3f}, "
            f"off it from {ac['negative_alignment_before']:.3f} to {ac['negative_alignment_after']:.3f}.",
            f"Alignment Calibration (figure 3). {where}.",
        ),
        Plot(
            f"methods-{algorithm}",
            gap_grid(looks),
            f"A heatmap of the change for each method. Mean off the diagonal: {gaps}.",
            f"The alignment gap matrix of each method for the same images and views (figure 6). {where}.",
        ),
        Plot(
            f"models-{algorithm}",
            similarity_grid(looks),
            "A heatmap of similarities for the original and for each method; the table holds their means.",
            f"The alignment matrix of each model, for the same images and views. {where}.",
        ),
    ]


RECIPES = {"heatmaps": Heatmaps("Alignment matrices (the paper's figures 3 and 6)")}
