"""Figure 7: what each method did to the similarities between the images and captions of 6 pairs to forget."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from muc.data.files import select
from muc.evaluation.pairs import look_at_pairs
from muc.models import CLIP
from muc.report.cells import Table
from muc.report.heatmaps import gap_grid, look_figure
from muc.report.sheet import Plot, Sheet, write_sheet
from muc.report.words import method_name
from muc.reproduce.clip_coco import ClipCoco, clip_trials
from muc.reproduce.from_models import FromModels, Opened, environments
from muc.reproduce.heatmaps import alignment_rows
from muc.reproduce.recipe import Options
from muc.reproduce.trial import AC, Trial

SHOWN = 6
SAID = (
    "Each matrix compares 6 images to forget with their captions, before unlearning minus after: a column for each "
    "image, a row for each pair's captions (of several, the mean), the framed diagonal for what belongs together. The "
    "models are those of 'muc reproduce clip-coco', which says how they differ from the paper's.",
    "The paper's figure 7 comes without numbers; which pairs it shows, and which axis is which, is not said.",
)


@dataclass(frozen=True)
class ClipHeatmaps(FromModels):
    """The models of table 7, the same pairs for every method; figures are of the first seed."""

    what: ClassVar = "image-text matrices"
    search: ClassVar[int] = ClipCoco.search
    default_methods: ClassVar[tuple[str, ...]] = ClipCoco.default_methods
    reads: ClassVar[tuple[str, ...]] = ClipCoco.reads

    def trials(self, options: Options) -> dict[str, list[Trial]]:
        return {"clip": clip_trials(options)}

    def measure(self, opened: Opened) -> dict[str, Any]:
        rows = opened.some_unlearn()[:SHOWN]
        pixels, captions = select(opened.images.train, rows), [opened.images.train_captions[i] for i in rows]
        # Keys, not captions: results are published, and captions may belong to somebody.
        keys = [str(opened.images.train_names[i]) for i in rows]
        before, looks = opened.model("pretrain"), {}
        for label in opened.runs:
            after = opened.model(label)
            if label != "pretrain" and isinstance(before, CLIP) and isinstance(after, CLIP):
                look = look_at_pairs(before, after, pixels, captions, opened.runtime)
                looks[label] = replace(look, names=keys).to_json()
        return {"training_images": rows.tolist(), "looks": looks}

    def write(self, options: Options, out: Path) -> tuple[Path, list[Table]]:
        found = self.found(options, out)
        first = found["clip"][0]
        table = tabulate(first)
        sheet = Sheet(self.heading(options), list(SAID), found, environments(found), [table], plots_of(first))
        return write_sheet(sheet, out), [table]


def tabulate(trial: dict[str, Any]) -> Table:
    """The mean of each matrix on and off the diagonal."""
    columns = (f"{w} {c}" for w in ("Own caption", "Another's") for c in ("before", "after", "gap"))
    return Table(
        title="What the heatmaps show: CLIP",
        caption=f"Means over {len(trial['training_images'])} pairs to forget (seed {trial['seed']}): an image with its "
        "own caption, and with those of the other pairs. So few pairs are no measure of a method.",
        columns=("Method", *columns),
        rows=alignment_rows(trial["looks"]),
    )


def plots_of(trial: dict[str, Any]) -> list[Plot]:
    looks, n = trial["looks"], len(trial["training_images"])
    where = f"{n} pairs to forget, seed {trial['seed']}"
    gaps = ", ".join(
        f"{method_name(label)} {own:+.3f} and {found['negative_alignment_gap']:+.3f}"
        for label, found in looks.items()
        for own in [found["positive_alignment_before"] - found["positive_alignment_after"]]
    )
    return [
        Plot(
            "figure7",
            gap_grid(looks),
            f"A heatmap of the change for each method. Mean on and off the diagonal: {gaps}.",
            f"Figure 7: similarity of images and captions before unlearning minus after. {where}.",
        ),
        Plot(
            "ac",
            look_figure(looks[AC]),
            "Three heatmaps of Alignment Calibration: before, after, and the change; the table has their means.",
            f"Alignment Calibration: before, after, and the change. {where}.",
        ),
    ]


RECIPES = {"clip-heatmaps": ClipHeatmaps("Image-text alignment gaps (the paper's figure 7)")}
