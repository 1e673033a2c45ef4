"""Tables of text: what every renderer draws."""

from collections.abc import Container
from dataclasses import dataclass, replace
from typing import Literal

from muc.report.group import Stat

MISSING = "n/a"
NOT_MEANT = "–"

Mark = Literal["", "best", "second"]


@dataclass(frozen=True)
class Cell:
    """One value: its text, its gap to Retrain, what the paper prints there, and its rank among the methods."""

    text: str
    gap: str | None = None
    paper: str | None = None
    mark: Mark = ""


@dataclass(frozen=True)
class Table:
    """Columns and rows of equal length; the first column names the row."""

    title: str
    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]


def number(stat: Stat | None, digits: int) -> str:
    """Mean ± SD; the mean alone where there is one trial."""
    if stat is None:
        return MISSING
    mean = f"{stat.mean:.{digits}f}"
    return mean if stat.sd is None else f"{mean} ± {stat.sd:.{digits}f}"


def without_unknown(table: Table, columns: Container[str]) -> Table:
    """Without those of these columns in which nothing is known of any row."""
    unknown = [all(row[i].text in (MISSING, NOT_MEANT) for row in table.rows) for i in range(len(table.columns))]
    kept = [i for i, name in enumerate(table.columns) if not (unknown[i] and name in columns)]
    rows = tuple(tuple(row[i] for i in kept) for row in table.rows)
    return replace(table, columns=tuple(table.columns[i] for i in kept), rows=rows)


def brief_number(stat: Stat | None, digits: int) -> str:
    """The same; of fast methods on small data, of whom 0.00 minutes say nothing, the mean alone by two digits."""
    if stat is None:
        return MISSING
    needed = 1 - int(f"{stat.mean:.1e}".partition("e")[2])
    return number(stat, digits) if needed <= digits else f"{stat.mean:.{needed}f}"
