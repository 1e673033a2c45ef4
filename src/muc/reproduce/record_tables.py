"""Tables 8, 11 and 13: forgetting scores, gaps in per cent, and deviations over seeds."""

from dataclasses import dataclass
from typing import ClassVar

from muc.evaluation.gaps import METRICS, Metrics, gaps
from muc.report.cells import Cell, Table, number
from muc.report.group import Entry
from muc.report.words import seed_count
from muc.reproduce.from_records import Found, FromRecords, errata, methods_of, rows_of
from muc.reproduce.scores import Score


def fs_gap(metrics: Metrics, retrain: Metrics) -> float:
    return abs(metrics["FS"] - retrain["FS"])


def agp(metrics: Metrics, retrain: Metrics) -> float:
    return gaps(metrics, retrain)["AGP"]


@dataclass(frozen=True)
class ForgettingScores(FromRecords):
    """Table 8."""

    gap: ClassVar = Score(
        fs_gap, 4, lambda f: {m: (row["gaps"] or {}).get("FS") for m, row in f.printed("forgetting_score").items()}
    )

    def tables(self, found: list[Found]) -> list[Table]:
        def cells(f: Found, entry: Entry) -> list[Cell]:
            row = f.printed("forgetting_score").get(entry.method)
            fs = Cell(number(entry.metric("FS"), 4), paper=f"{row['FS']:.4f}" if row else None)
            return [fs, *self.gap.cells(f, entry)]

        return [
            Table(
                title="Forgetting score and its gap to Retrain",
                caption="FS: how much less alike two views of an image to forget are than before. The gap is that to "
                f"Retrain of the same seed. {self.gap.note(found)}",
                columns=("Method", *(f"{f.name} {what}" for f in found for what in ("FS", "gap", "rank"))),
                rows=rows_of(found, methods_of(found, "pretrain"), cells),
            )
        ]


@dataclass(frozen=True)
class AverageGapPercentage(FromRecords):
    """Table 11."""

    gap: ClassVar = Score(agp, 2, lambda f: {m: row["agp"] for m, row in f.printed("agp").items()})

    def tables(self, found: list[Found]) -> list[Table]:
        return [
            Table(
                title="Average gap percentage (AGP)",
                caption="Mean over EMIA, RA, TA, UA and CMIA of the gap to Retrain, in % of Retrain's value. "
                f"{self.gap.note(found)}",
                columns=("Method", *(f"{f.name} {what}" for f in found for what in ("AGP", "rank"))),
                rows=rows_of(found, methods_of(found, "retrain"), self.gap.cells),
            )
        ]


@dataclass(frozen=True)
class Deviations(FromRecords):
    """Table 13."""

    def tables(self, found: list[Found]) -> list[Table]:
        return [self.table(f) for f in found]

    def paragraphs(self, found: list[Found]) -> list[str]:
        """What is wrong in the paper's table is said once for all of ours."""
        wrong = errata("standard_deviation", self.data)
        return [*super().paragraphs(found), *([f"In the paper's table: {wrong}"] if wrong else [])]

    def table(self, found: Found) -> Table:
        printed, seeds = found.printed("standard_deviation"), max(len(e.seeds) for e in found.comparison.entries)

        def cells(f: Found, entry: Entry) -> list[Cell]:
            row = printed.get(entry.method)
            theirs = {m: f"{row[m]:.2f} ± {row[f'{m}_std']:.2f}" for m in METRICS} if row else {}
            return [Cell(number(entry.metric(m), 2), paper=theirs.get(m)) for m in METRICS]

        deviation = f"Mean ± standard deviation over {seeds} seeds" if seeds > 1 else f"{seed_count(1)}, no deviation"
        return Table(
            title=f"Deviations over seeds: {found.name}",
            caption=f"{deviation}; the paper's over 5.",
            columns=("Method", *METRICS),
            rows=rows_of([found], methods_of([found]), cells),
        )


RECIPES = {
    "fs": ForgettingScores("Forgetting scores on CIFAR-10 (the paper's table 8)", default=("moco",)),
    "agp": AverageGapPercentage("Average gap percentage on CIFAR-10 (the paper's table 11)"),
    "sd": Deviations("Deviations over seeds on CIFAR-10 (the paper's table 13)"),
    "sd-cifar100": Deviations("Deviations over seeds on CIFAR-100 (the paper's table 13)", "cifar100"),
}
