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
            "others": {"test": gaps_of(opened.test), "retained": gaps_of(opened.retained)},
        }

    def write(self, options: Options, out: Path) -> tuple[Path, list[Table]]:
        found = self.found(options, out)
        tables = [t for algorithm, trials in found.items() for t in (tabulate(algorithm, trials), beside(trials))]
        plots = [plot(algorithm, trials) for algorithm, trials in found.items()]
        said = [
            "The alignment gap matrix (AGM) is the similarity of two views of each pair of images to forget before "
            "unlearning, minus that after. Here is the mean of its entries off the diagonal: below zero, the images "
            "have become more alike to each other, which is the trace that AC is made to leave. What other "
            "images show, too, does not come from forgetting these.",
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
        gaps = [trial["gaps"][label] for trial in trials]
        theirs = label == AC and algorithm == "moco"
        rows.append(
            (
                Cell(method_name(label)),
                Cell(number(stat(g["negative"]["mean"] for g in gaps), 4), paper=f"{fact['mu']}" if theirs else None),
                Cell(f"{fmean(g['negative']['sd'] for g in gaps):.4f}", paper=f"{fact['sigma']}" if theirs else None),
                Cell(number(stat(g["positive"]["mean"] for g in gaps), 4)),
                Cell(f"{fmean(g['positive']['sd'] for g in gaps):.4f}"),
            )
        )
    n = trials[0]["images"]
    return Table(
        title=f"Alignment gaps of the images to forget: {trials[0]['setting']}",
        caption=f"{n:,} images, {n * (n - 1):,} ordered pairs of different ones, one pair of views each; over "
        f"{seed_count(len(trials))}{' (mean ± SD over seeds)' if len(trials) > 1 else ''}. Negative: pairs of "
        "different images. Positive: two views of one image (the forgetting score).",
        columns=("Method", "Negative mean", "SD over pairs", "Positive mean", "SD over images"),
        rows=tuple(rows),
    )


def beside(trials: list[dict[str, Any]]) -> Table:
    """The same means of images that nobody asked to forget: test images, and retained ones, as an audit's controls."""
    rows = []
    for label in trials[0]["gaps"]:
        sets = [[t["gaps"] for t in trials], *([t["others"][name] for t in trials] for name in ("test", "retained"))]
        cells = [
            Cell(number(stat(gaps[label][kind]["mean"] for gaps in own), 4))
            for kind in ("negative", "positive")
            for own in sets
        ]
        rows.append((Cell(method_name(label)), *cells))
    return Table(
        title=f"The same of other images: {trials[0]['setting']}",
        caption="Means as above. What images to forget show beyond test images, which no model saw, or beyond retained "
        "ones, which are what an audit holds back, is due to their being forgotten.",
        columns=(
            "Method",
            "Negative: to forget",
            "Negative: test",
            "Negative: retained",
            "Positive: to forget",
            "Positive: test",
            "Positive: retained",
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
