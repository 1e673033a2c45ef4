"""Places by average gap: ours, and the paper's in brackets. Equal gaps share a place."""

from collections.abc import Hashable, Mapping
from typing import TypeVar

from muc.report.cells import NOT_MEANT, Cell, Mark
from muc.report.group import REFERENCES, Comparison, Entry
from muc.report.words import entry_name

K = TypeVar("K", bound=Hashable)
MARKS: dict[int, Mark] = {1: "best", 2: "second"}


def rank_name(printed: Mapping[str, object]) -> str:
    return "Rank (paper)" if printed else "Rank"


def ranks(gaps: Mapping[K, float], digits: int = 2) -> dict[K, int]:
    """1 for the smallest; gaps that look equal in the table, which shows so many digits, are."""
    shown = {key: round(gap, digits) for key, gap in gaps.items()}
    return {key: 1 + sum(other < own for other in shown.values()) for key, own in shown.items()}


def places(comparison: Comparison, average: str = "AG") -> dict[int, int]:
    """{position of an approximate method's entry: its place by that average gap}"""
    known = {i: gap.mean for i, e in enumerate(comparison.entries) if e.approximate and (gap := e.gap(average))}
    return ranks(known)


def marked(places: Mapping[K, int]) -> dict[K, Mark]:
    """The mark of a place; none where all are tied, for then none is better than another."""
    tied = len(places) > 1 and set(places.values()) == {1}
    return {key: "" if tied else MARKS.get(place, "") for key, place in places.items()}


def marks(comparison: Comparison, average: str = "AG") -> list[Mark]:
    """Of every entry."""
    found = marked(places(comparison, average))
    return [found.get(i, "") for i in range(len(comparison.entries))]


def at_place(comparison: Comparison, place: int, average: str = "AG") -> list[Entry]:
    """The methods that share a place."""
    return [comparison.entries[i] for i, own in places(comparison, average).items() if own == place]


def rank_cells(comparison: Comparison, printed: Mapping[str, float | None]) -> list[Cell]:
    """Of every entry; `printed` are the paper's average gaps by method."""
    own = places(comparison)
    theirs = ranks({m: gap for m, gap in printed.items() if gap is not None and m not in REFERENCES})
    return [
        Cell(str(own[i]), str(theirs[e.method]) if e.method in theirs else None) if i in own else Cell(NOT_MEANT)
        for i, e in enumerate(comparison.entries)
    ]


def rank_note(comparison: Comparison, printed: Mapping[str, object]) -> str:
    """For a caption; also where AG of means over seeds puts methods into another order than the mean of seeds' AGs."""
    text = f" Ranks are by AG, equal gaps share one{'; in brackets those of the paper' if printed else ''}."
    known = [
        (e, g.mean, of_means)
        for e in comparison.ranked()
        if (g := e.gap("AG")) and (of_means := e.average_gap_of_means()) is not None
    ]
    by_mean = ranks({i: mean for i, (_, mean, _) in enumerate(known)})
    by_means = ranks({i: of_means for i, (*_, of_means) in enumerate(known)})
    if by_mean == by_means:
        return text
    order = ", ".join(f"{by_means[i]} {entry_name(known[i][0])}" for i in sorted(by_means, key=by_means.__getitem__))
    return f"{text} By AG of means the ranks are others: {order}."
