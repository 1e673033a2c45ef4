"""Figure 2: how much more or less alike the images to forget are to each other after each method."""

from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, ClassVar

from muc import paper
from muc.data.files import Pixels
from muc.evaluation.alignment_gaps import gap_statistics
from muc.report.cells import Cell, Table, number
from muc.report.group import stat
from muc.report.model_charts import negative_alignment_chart
from muc.report.sheet import Plot, Sheet, write_sheet
from muc.report.words import method_name, seed_count
from muc.reproduce.from_models import FromModels, Opened, environments
from muc.reproduce.recipe import Options
from muc.reproduce.trial import AC


@dataclass(frozen=True)
class NegativeAlignment(FromModels):
    """A bar for each method: the mean over all pairs of images to forget, and its deviation."""

    what: ClassVar = "negative alignment"

    def measure(self, opened: Opened) -> dict[str, Any]:
        def gaps_of(pixels: Pixels) -> dict[str, Any]:
            before = opened.two_views("pretrain", pixels)
            labels = [label for label in opened.runs if label != "pretrain"]
            return {label: asdict(gap_statistics(before, opened.two_views(label, pixels))) for label in labels}

        return {
            "images": len(opened.unlearn),
            "gaps": gaps_of(opened.unlearn),
            "test_images": len(opened.test),
            "test_gaps": gaps_of(opened.test),
        }

    def write(self, options: Options, out: Path) -> tuple[Path, list[Table]]:
        found = self.found(options, out)
        tables = [tabulate(algorithm, trials) for algorithm, trials in found.items()]
        plots = [plot(algorithm, trials) for algorithm, trials in found.items()]
        said = [
            "The alignment gap matrix (AGM) is the similarity of two views of each pair of images to forget before "
            "unlearning, minus that after. Here is the mean of its entries off the diagonal: below zero, the images "
            "have become more alike to each other, which is the trace that AC is made to leave. What test images show, "
            "too, does not come from forgetting these images.",
            "The paper shows this figure without numbers; the value beside AC's is from its t-test (seed 11, β = 8).",
            *self.settings_told(options),
        ]
        sheet = Sheet(self.heading(options), said, found, environments(found), tables, plots)
        return write_sheet(sheet, out), tables


def tabulate(algorithm: str, trials: list[dict[str, Any]]) -> Table:
    """Over seeds: of both parts of the AGM the mean, and its deviation over images or pairs."""
    fact = paper.load()["text_facts"]["t_test"]["H1_neg_align_ac"]
    rows = []
    for label in trials[0]["gaps"]:
        gaps, of_test = ([trial[kind][label] for trial in trials] for kind in ("gaps", "test_gaps"))
        theirs = label == AC and algorithm == "moco"
        rows.append(
            (
                Cell(method_name(label)),
                Cell(number(stat(g["negative"]["mean"] for g in gaps), 4), paper=f"{fact['mu']}" if theirs else None),
                Cell(f"{fmean(g['negative']['sd'] for g in gaps):.4f}", paper=f"{fact['sigma']}" if theirs else None),
                Cell(number(stat(g["negative"]["mean"] for g in of_test), 4)),
                Cell(number(stat(g["positive"]["mean"] for g in gaps), 4)),
                Cell(f"{fmean(g['positive']['sd'] for g in gaps):.4f}"),
                Cell(number(stat(g["positive"]["mean"] for g in of_test), 4)),
            )
        )
    n = trials[0]["images"]
    return Table(
        title=f"Alignment gaps of the images to forget: {trials[0]['setting']}",
        caption=f"{n:,} images, {n * (n - 1):,} ordered pairs of different ones, one pair of views each; over "
        f"{seed_count(len(trials))}{' (mean ± SD over seeds)' if len(trials) > 1 else ''}. Negative: pairs of "
        "different images. Positive: two views of one image (the forgetting score). Of test images: the same of "
        f"{trials[0]['test_images']:,} that nobody asked to forget.",
        columns=(
            "Method",
            "Negative mean",
            "SD over pairs",
            "Negative of test images",
            "Positive mean",
            "SD over images",
            "Positive of test images",
        ),
        rows=tuple(rows),
    )


def plot(algorithm: str, trials: list[dict[str, Any]]) -> Plot:
    bars = {
        label: (
            fmean(t["gaps"][label]["negative"]["mean"] for t in trials),
            fmean(t["gaps"][label]["negative"]["sd"] for t in trials),
        )
        for label in trials[0]["gaps"]
    }
    values = ", ".join(f"{method_name(label)} {mean:+.4f} ± {sd:.4f}" for label, (mean, sd) in bars.items())
    return Plot(
        f"negative-alignment-{algorithm}",
        negative_alignment_chart(bars, AC),
        f"Bar chart of the mean gap of negative alignment with its standard deviation over pairs: {values}.",
        f"{trials[0]['setting']}: mean off-diagonal entry of the AGM over {trials[0]['images']:,} images to forget, "
        f"bars ± SD over pairs, over {seed_count(len(trials))}. (The paper's figure 2 has no numbers.)",
    )


RECIPES = {"negative-alignment": NegativeAlignment("Negative alignment by method (the paper's figure 2)")}
