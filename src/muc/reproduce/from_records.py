"""What tables share that need no more than the records of the white-box tables."""

import re
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from muc import paper
from muc.report.cells import Cell, Table
from muc.report.group import ORDER, Comparison, Entry, compare, without_samples
from muc.report.sheet import Sheet, write_sheet
from muc.report.words import ALGORITHMS, DATA, method_name, percent, seed_count
from muc.reproduce.choices import write_choices
from muc.reproduce.provenance import where_settings_come_from
from muc.reproduce.recipe import FIVE, UNIMODAL, Options, Recipe, Step, algorithms_for
from muc.reproduce.trial import Trial
from muc.reproduce.white_box import WhiteBox


@dataclass(frozen=True)
class Found:
    """What is known of one of the paper's settings. (In a smoke test the records are of other data.)"""

    data: str
    algorithm: str
    fraction: float
    comparison: Comparison

    @property
    def name(self) -> str:
        return f"{ALGORITHMS[self.algorithm]} {percent(self.fraction)}"

    def printed(self, table: str) -> dict[str, dict[str, Any]]:
        """{method: the row of that table of the paper}; empty where it has none."""
        where = (self.data, self.algorithm, self.fraction)
        rows = paper.load()["tables"][table]["rows"]
        return {r["method"]: r for r in rows if (r["dataset"], r["algorithm"], r["forget_fraction"]) == where}


@dataclass(frozen=True)
class FromRecords(Recipe):
    """A table of one data set, for both shares to forget; all is trained and evaluated as for the white-box tables."""

    seeds: ClassVar[tuple[int, ...]] = FIVE

    data: str = "cifar10"
    default: tuple[str, ...] = UNIMODAL
    """The algorithms that the paper has."""

    def trials(self, options: Options) -> list[list[Trial]]:
        """Of each algorithm and share one a seed."""
        shares = [(a, f) for a in algorithms_for(options, self.default) for f in (0.1, 0.5)]
        return [WhiteBox(self.title, self.data, fraction).trials(algorithm, options) for algorithm, fraction in shares]

    def steps(self, options: Options, out: Path) -> list[Step]:
        return [step for own in self.trials(options) for trial in own for step in trial.steps()]

    def found(self, options: Options) -> list[Found]:
        return [
            Found(self.data, own[0].settings.model.algorithm, own[0].fraction, compare(records)[0])
            for own in self.trials(options)
            if (records := [record for trial in own for record in trial.records(options.methods)])
        ]

    def write(self, options: Options, out: Path) -> tuple[Path, list[Table]]:
        found, trials = self.found(options), self.trials(options)
        write_choices([own[0] for own in trials], options.methods, out)
        records = [r for f in found for e in f.comparison.entries for r in e.records]
        tables = self.tables(found)
        kept = [without_samples(record) for record in records]
        whence = where_settings_come_from(options, [trial for own in trials for trial in own])
        said = [*self.paragraphs(found), whence]
        sheet = Sheet(self.heading(options), said, kept, [r["env"] for r in records], tables)
        return write_sheet(sheet, out), tables

    @abstractmethod
    def tables(self, found: list[Found]) -> list[Table]:
        """What the records show, beside the paper's."""

    def paragraphs(self, found: list[Found]) -> list[str]:
        entries = [entry for f in found for entry in f.comparison.entries]
        epochs = sorted({f.comparison.setting.epochs for f in found})
        text = f"Over {seed_count(max(len(e.seeds) for e in entries))}, {' and '.join(map(str, epochs))} epochs. "
        return [text + f"The paper trained for {paper.EPOCHS} epochs; its values are those marked 'paper'."]


def methods_of(found: list[Found], *without: str) -> list[str]:
    present = {entry.method for f in found for entry in f.comparison.entries}
    return [m for m in (*ORDER, *sorted(present - set(ORDER))) if m in present and m not in without]


def rows_of(
    found: list[Found], methods: list[str], cells: Callable[[Found, Entry], list[Cell]]
) -> tuple[tuple[Cell, ...], ...]:
    """A row for each method: the cells of all settings side by side, empty ones where a setting has no such method."""
    rows = []
    for method in methods:
        entries = [f.comparison.entry(method) for f in found]
        made = [cells(f, e) if e else [] for f, e in zip(found, entries, strict=True)]
        width = max(map(len, made))
        rows.append((Cell(method_name(method)), *(c for own in made for c in own or [Cell("")] * width)))
    return tuple(rows)


def errata(table: str, data: str) -> str:
    """What is known to be wrong in a table of the paper, unless it is of other data sets alone."""
    told = []
    for erratum in paper.load()["errata"]:
        where, note = erratum["where"], erratum["note"]
        named = {d for d in paper.TRAINING_IMAGES if f"{d}_" in where or re.search(rf"{DATA[d]}\b", note)}
        wrong = f"tables.{table}" in where and erratum["category"] != "caption"
        if wrong and (not named or data in named):
            told.append(f"{erratum['id']}: {note}")
    return " ".join(told)
