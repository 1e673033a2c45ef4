"""Table 14: the mean gap over RA, TA, UA and CMIA, with hyper-parameters chosen by this mean.

Where settings were searched for, the trials are looked at again: on the first seed the one with the smallest
classifier-level gap on validation images counts, and later seeds get its settings.
"""

from dataclasses import dataclass
from statistics import fmean
from typing import ClassVar

from muc.evaluation.gaps import Metrics, gaps
from muc.report.cells import NOT_MEANT, Cell, Table
from muc.report.group import Entry
from muc.reproduce.from_records import Found, FromRecords, errata, methods_of, rows_of
from muc.reproduce.recipe import READ, Options
from muc.reproduce.scores import Score
from muc.reproduce.trial import Trial

METRICS = ("RA", "TA", "UA", "CMIA")


def classifier_gap(metrics: Metrics, retrain: Metrics) -> float:
    return gaps(metrics, retrain)["AG_classifier"]


@dataclass(frozen=True)
class Reselected(Trial):
    """A trial whose methods have the settings with the smallest classifier-level gap."""

    criterion = "AG_classifier"


@dataclass(frozen=True)
class ClassifierGaps(FromRecords):
    """Table 14."""

    reads: ClassVar = tuple(option for option in READ if option != "criterion")
    gap: ClassVar = Score(
        classifier_gap, 2, lambda f: {m: row["avg_gap_cls"] for m, row in f.printed("classifier_level_gap").items()}
    )

    def trials(self, options: Options) -> list[list[Trial]]:
        return [
            list(Reselected.of_seeds([trial.settings for trial in own], own[0].fraction, options))
            for own in super().trials(options)
        ]

    def tables(self, found: list[Found]) -> list[Table]:
        def cells(f: Found, entry: Entry) -> list[Cell]:
            theirs = f.printed("classifier_level_gap").get(entry.method, {}).get("avg_std_cls")
            deviation = Cell(_mean_deviation(entry), paper=None if theirs is None else f"{theirs:.2f}")
            return [*self.gap.cells(f, entry), deviation]

        caption = (
            "Mean gap to Retrain over RA, TA, UA and CMIA; where settings were searched for, they were chosen by this "
            f"mean on validation images. {self.gap.note(found)} "
            f"SD: mean over the four metrics of their deviation over seeds. {errata('classifier_level_gap', self.data)}"
        )
        return [
            Table(
                title="Average gap without EMIA",
                caption=caption.strip(),
                columns=("Method", *(f"{f.name} {what}" for f in found for what in ("AG cls", "rank", "SD"))),
                rows=rows_of(found, methods_of(found, "retrain"), cells),
            )
        ]


def _mean_deviation(entry: Entry) -> str:
    deviations = [found.sd for m in METRICS if (found := entry.metric(m)) and found.sd is not None]
    return f"{fmean(deviations):.2f}" if deviations else NOT_MEANT


RECIPES = {
    "classifier-gaps": ClassifierGaps("Gaps without EMIA on CIFAR-10 (the paper's table 14)"),
    "classifier-gaps-cifar100": ClassifierGaps("Gaps without EMIA on CIFAR-100 (the paper's table 14)", "cifar100"),
}
