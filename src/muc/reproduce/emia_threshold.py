"""Why EMIA jumps: the attack's accuracy hardly depends on its threshold, and EMIA does."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from muc.evaluation import membership
from muc.evaluation.white_box import membership_scores
from muc.report.cells import Cell, Table, number
from muc.report.group import stat
from muc.report.model_charts import threshold_chart
from muc.report.sheet import Plot, Sheet, write_sheet
from muc.report.words import method_name, seed_count
from muc.reproduce.from_models import FromModels, Opened, environments
from muc.reproduce.recipe import Options

COLUMNS = {
    "EMIA": ("EMIA", 2),
    "Threshold": ("EMIA_threshold", 3),
    "Attack accuracy": ("EMIA_accuracy", 2),
    "Kept vs test AUC": ("EMIA_AUC", 3),
    "To forget vs test AUC": ("unlearn_AUC", 3),
}


@dataclass(frozen=True)
class EmiaThreshold(FromModels):
    """Accuracy and EMIA as functions of the threshold, for every model, beside the AUC that needs none."""

    what: ClassVar = "the attack's thresholds"

    def measure(self, opened: Opened) -> dict[str, Any]:
        return {"attacks": {label: attack(opened, label) for label in opened.runs}}

    def write(self, options: Options, out: Path) -> tuple[Path, list[Table]]:
        found = self.found(options, out)
        tables = [tabulate(trials) for trials in found.values()]
        plots = [plot(algorithm, trials) for algorithm, trials in found.items()]
        said = [
            "EMIA is the share of the images to forget that fall below one threshold on the alignment of their views: "
            "the one that tells kept images from test images best. Where the attack is weak its accuracy is almost "
            "the same for many thresholds, chance decides between them, and EMIA moves with the choice.",
            "'As good' is the range of EMIA over all thresholds whose attack accuracy is within one standard error of "
            "the highest: the data do not say which of them to take. A gap of EMIA smaller than this range may come "
            "from that choice alone. 'At one threshold' is the gap to Retrain where both models have the same "
            "threshold, from the smallest to the largest over all that are as good for Retrain; the AUC has no "
            "threshold. The paper has no such figure; it prints deviations of EMIA over seeds of up to 17 points.",
            *self.settings_told(options),
        ]
        sheet = Sheet(self.heading(options), said, found, environments(found), tables, plots)
        return write_sheet(sheet, out), tables


def attack(opened: Opened, label: str) -> dict[str, Any]:
    """EMIA of one model, and its curve (rounded: the file is for eyes)."""
    scores = membership_scores(
        opened.model(label), opened.images, opened.split, opened.settings, opened.runtime, seed=opened.split.seed
    )
    members, others, unlearned = (scores[name] for name in ("retain", "test", "unlearn"))
    curve = membership.threshold_curve(members, others, unlearned)
    accuracy = [point["accuracy"] for point in curve]
    emia = np.array([point["emia"] for point in curve])
    as_good = emia[membership.as_good(accuracy, len(members) + len(others))]
    return {
        **membership.emia(members, others, unlearned, scores["held_out"]),
        "unlearn_AUC": membership.auc(unlearned, others),
        "images": len(members) + len(others),
        "as_good": [as_good.min(), as_good.max()],
        "accuracy": [round(share, 6) for share in accuracy],
        "emia": emia.round(3),
    }


def tabulate(trials: list[dict[str, Any]]) -> Table:
    rows = []
    for label in trials[0]["attacks"]:
        attacks = [trial["attacks"][label] for trial in trials]
        lows, highs = ([a["as_good"][side] for a in attacks] for side in (0, 1))
        width = number(stat(high - low for low, high in zip(lows, highs, strict=True)), 2)
        values = [Cell(number(stat(a[key] for a in attacks), digits)) for key, digits in COLUMNS.values()]
        as_good = Cell(f"{np.mean(lows):.1f} to {np.mean(highs):.1f}", gap=width)
        shared = np.mean([gaps_at_one_threshold(trial["attacks"], label) for trial in trials], axis=0)
        at_one = Cell("–" if label == "retrain" else f"{shared[0]:.1f} to {shared[1]:.1f}")
        rows.append((Cell(method_name(label)), values[0], as_good, at_one, *values[1:]))
    first, *others = COLUMNS
    return Table(
        title=f"EMIA and its threshold: {trials[0]['setting']}",
        caption=f"Over {seed_count(len(trials))}{', mean ± SD' if len(trials) > 1 else ''}. As good: EMIA at all "
        "thresholds whose accuracy is within one standard error of the best; in brackets the width of this range.",
        columns=("Method", first, "As good", "Gap at one threshold", *others),
        rows=tuple(rows),
    )


def gaps_at_one_threshold(attacks: dict[str, Any], label: str) -> tuple[float, float]:
    """The smallest and the largest gap in EMIA to Retrain, over thresholds that are as good as the best for Retrain."""
    exact = attacks["retrain"]
    shared = membership.as_good(exact["accuracy"], exact["images"])
    gaps = np.abs(np.array(attacks[label]["emia"]) - np.array(exact["emia"]))[shared]
    return float(gaps.min()), float(gaps.max())


def plot(algorithm: str, trials: list[dict[str, Any]]) -> Plot:
    def curve(found: dict[str, Any]) -> dict[str, Any]:
        return {
            "threshold": membership.THRESHOLDS,
            "accuracy": 100 * np.array(found["accuracy"]),
            "emia": np.array(found["emia"]),
            "as_good": membership.as_good(found["accuracy"], found["images"]),
            "taken": (found["EMIA_threshold"], found["EMIA"]),
        }

    curves = {label: [curve(t["attacks"][label]) for t in trials] for label in trials[0]["attacks"]}
    ranges = "; ".join(
        f"{method_name(label)} {found['as_good'][0]:.0f} to {found['as_good'][1]:.0f} %"
        for label, found in trials[0]["attacks"].items()
    )
    best = max(max(trial["attacks"][label]["accuracy"]) for trial in trials for label in curves)
    return Plot(
        f"thresholds-{algorithm}",
        threshold_chart(curves),
        "A panel for each model: EMIA rises from 0 to 100 % with the threshold; the attack's accuracy is nowhere above "
        f"{100 * best:.1f} %. EMIA at thresholds that are as good as the best (first seed): {ranges}.",
        f"{trials[0]['setting']}, {seed_count(len(trials))}. Solid: EMIA. Dashed: accuracy of the attack on kept and "
        "test images. Broad: EMIA at thresholds as good as the one taken (the dot).",
    )


RECIPES = {"emia-threshold": EmiaThreshold("EMIA and its threshold")}
