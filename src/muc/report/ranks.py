"""Places by average gap: ours, and the paper's in brackets. Equal gaps share a place."""

from collections.abc import Hashable, Mapping
from typing import TypeVar

from muc.report.cells import NOT_MEANT, Cell
from muc.report.group import REFERENCES, Comparison
from muc.report.words import entry_name

K = TypeVar("K", bound=Hashable)


def rank_name(printed: Mapping[str, object]) -> str:
    return "Rank (paper)" if printed else "Rank"


def ranks(gaps: Mapping[K, float], digits: int = 2) -> dict[K, int]:
    """1 for the smallest; gaps that look equal in the table, which shows so many digits, are."""
    shown = {key: round(gap, digits) for key, gap in gaps.items()}
    return {key: 1 + sum(other < own for other in shown.values()) for key, own in shown.items()}


def rank_cells(comparison: Comparison, printed: Mapping[str, float | None]) -> list[Cell]:
    """Of every entry; `printed` are the paper's average gaps by method."""
    own = ranks({i: g.mean for i, e in enumerate(comparison.entries) if e.approximate and (g := e.gap("AG"))})
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
