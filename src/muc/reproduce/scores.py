"""A score by which methods are compared: ours and the paper's, their ranks, and what chance makes of it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import fmean

from muc.evaluation.gaps import METRICS, Distance, apart, of_means
from muc.report.cells import NOT_MEANT, Cell, number
from muc.report.group import REFERENCES, Comparison, Entry, stat
from muc.report.ranks import marked, ranks
from muc.report.words import listing
from muc.reproduce.from_records import Found


@dataclass(frozen=True)
class Score:
    """How far a method is from Retrain in some sense; the smallest is the best."""

    of: Distance
    digits: int
    printed: Callable[[Found], Mapping[str, float | None]]
    """{method: the paper's score}"""

    def cells(self, found: Found, entry: Entry) -> list[Cell]:
        """Mean ± SD of the seeds' scores, with the score of means over seeds (the paper's kind); and the rank."""
        if entry.method == "retrain":
            return [Cell(NOT_MEANT), Cell(NOT_MEANT)]
        printed, below = self.printed(found), self.of_means(entry)
        ours = self.ranked({e.method: self.mean(e) for e in found.comparison.entries if e.method != "retrain"})
        theirs, value = self.ranked(printed), printed.get(entry.method)
        rank = ours.get(entry.method)
        return [
            Cell(
                number(stat(self.by_seed(entry)), self.digits),
                None if below is None else f"of means {below:.{self.digits}f}",
                None if value is None else f"{value:.{self.digits}f}",
                marked(ours).get(entry.method, ""),
            ),
            Cell(str(rank or NOT_MEANT), paper=str(theirs[entry.method]) if entry.method in theirs else None),
        ]

    def ranked(self, scores: Mapping[str, float | None]) -> dict[str, int]:
        """Of the approximate methods; scores that look equal in the table share a rank."""
        known = {m: score for m, score in scores.items() if score is not None and m not in REFERENCES}
        return ranks(known, self.digits)

    def by_seed(self, entry: Entry) -> list[float]:
        return [self.of(r["metrics"], t["metrics"]) for r, t in zip(entry.records, entry.retrains, strict=True) if t]

    def mean(self, entry: Entry) -> float | None:
        return fmean(scores) if (scores := self.by_seed(entry)) else None

    def of_means(self, entry: Entry) -> float | None:
        pairs = [(r["metrics"], t["metrics"]) for r, t in zip(entry.records, entry.retrains, strict=True) if t]
        return of_means(pairs, (*METRICS, "FS"), self.of)

    def note(self, found: list[Found]) -> str:
        """For a caption: what marks and ranks mean, what stands below a score, and what chance alone makes of it."""
        text = "The smallest is bold; ranks are by it, equal ones share a rank."
        apart = [
            f"{floor:.{self.digits}f} ({f.name})" for f in found if (floor := self.floor(f.comparison)) is not None
        ]
        if not apart:  # one seed
            return text
        return (
            f"{text} Below: between means over seeds, as the paper has it. "
            f"Two Retrains of different seeds are {listing(apart)} apart by the same measure."
        )

    def floor(self, comparison: Comparison) -> float | None:
        retrain = comparison.entry("retrain")
        return apart([record["metrics"] for record in retrain.records] if retrain else [], self.of)
