"""Where there is no Retrain: average gaps to the stand-in that `muc compare` ranks by then."""

from muc.evaluation.gaps import gaps_to_held_out
from muc.report.cells import number
from muc.report.group import Comparison, Entry, Record, Stat, stat
from muc.report.ranks import ranks
from muc.report.words import entry_name, listing

HELD_OUT = "AG held-out"


def held_out_gaps(comparison: Comparison) -> list[Stat | None]:
    """Of every entry; None where there is a Retrain to measure by, or no original's record to measure with."""
    original = comparison.entry("pretrain")
    if comparison.judged or original is None:
        return [None] * len(comparison.entries)
    originals = {_request(r): r for r in original.records}
    return [stat(_average_gap(r, originals.get(_request(r))) for r in e.records) for e in comparison.entries]


def _request(record: Record) -> tuple[object, object]:
    return record["seed"], record.get("request_sha256")


def _average_gap(record: Record, original: Record | None) -> float | None:
    if original is None:
        return None
    try:
        return gaps_to_held_out(record["metrics"], original["metrics"])["AG"]
    except (KeyError, TypeError):  # without values of held-out images, or with unknown ones
        return None


def results_title(comparison: Comparison) -> str:
    return "How close to Retrain" if comparison.judged else "What was measured"


def held_out_note(comparison: Comparison) -> str:
    """For the caption of a table without gaps to Retrain."""
    text = " No Retrain is among these runs, so there are no gaps to it."
    if not any(held_out_gaps(comparison)):
        return text
    what = "pairs" if comparison.of_pairs else "images"
    return (
        f"{text} {HELD_OUT} is the average gap to a stand-in, a model that treats the {what} to forget as held-out "
        f"{what} and the others as the original does; smaller is closer."
    )


def held_out_order(comparison: Comparison) -> str | None:
    """Who is closest by it, in a sentence; None where it is not known."""
    found = zip(comparison.entries, held_out_gaps(comparison), strict=True)
    known: list[tuple[Entry, Stat]] = [(e, gap) for e, gap in found if gap]
    places = ranks({i: gap.mean for i, (e, gap) in enumerate(known) if e.approximate})
    first = [known[i] for i, place in places.items() if place == 1]
    if not first:
        return None
    names, best = listing([entry_name(e) for e, _ in first]), first[0][1]
    at = number(best if len(first) == 1 else Stat(best.mean, None, best.n), 2)
    untouched = next(gap for e, gap in known if e.method == "pretrain")
    text = f"By {HELD_OUT}, the average gap to a stand-in for Retrain, "
    if best.mean >= untouched.mean:
        return f"{text}no method is closer than the original as it is ({number(untouched, 2)}; {names}: {at})."
    who = "is closest" if len(first) == 1 else "are tied as the closest"
    return f"{text}{names} {who} at {at}; the original as it is: {number(untouched, 2)}."
