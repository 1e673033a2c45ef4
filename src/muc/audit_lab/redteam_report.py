"""The red team for people: what each test and counter-measure is worth, and who gets through all of them."""

from collections.abc import Callable, Sequence

from muc.audit_lab.redteam import DEFENCES, RedTeam, Row
from muc.report import render
from muc.report.cells import Cell, Table

THROUGH = 0.1
"""A cheat who is accepted this often, twice the promised rate, is said to get through."""
FITTED = (
    "The threshold of the decoy check was set after trial rounds against these cheats on the first two glyph encoders, "
    "those of near-duplicates and borders after honest rounds on a CIFAR-10 encoder: a cheat who knows the thresholds "
    "may do better than this table."
)


def markdown(found: RedTeam) -> str:
    about = (
        f"{found.encoders} encoders of {found.data}, {found.rounds} rounds each, {found.owners} owners a round. Cheats "
        f"recognise {found.recognised:.0%} of fresh crops of listed images, and take {found.mistaken:.0%} of controls "
        "for listed."
    )
    made = [make(rows) for rows in sizes(found) for make in (accepted_table, caught_table, verdict_table)]
    return "\n".join([f"{about}\n", f"{FITTED}\n", *map(render.markdown, made)])


def sizes(found: RedTeam) -> list[list[Row]]:
    """Rows of small audits, then of large ones."""
    return [[row for row in found.rows if row.n == n] for n in sorted({row.n for row in found.rows})]


def accepted_table(rows: list[Row]) -> Table:
    trials = rows[0].accepted["hold_back"].trials
    return table(
        f"Accepted as changed, in % of {trials} audits",
        "The first three tests have no controls; + is the hold-back test on fresh crops with one check more.",
        [DEFENCES[name] for name in rows[0].accepted],
        rows,
        lambda row: [percent(rate.rate) for rate in row.accepted.values()],
    )


def caught_table(rows: list[Row]) -> Table:
    return table(
        "Caught by each check, in % of the same audits",
        "An honest model owner should be caught by none.",
        [DEFENCES[name].removeprefix("+ ") for name in rows[0].caught],
        rows,
        lambda row: [percent(share) for share in row.caught.values()],
    )


def verdict_table(rows: list[Row]) -> Table:
    return table(
        "Verdicts with all counter-measures, in %",
        f"'No change found': forgetting what the model before remembers is ruled out, by {rows[0].n} withheld images, "
        "or it is the same model. Interval: 95 %, of "
        f"'changed as requested'. {through(rows)}",
        [*rows[0].verdicts, "interval"],
        rows,
        lambda row: [*map(percent, row.verdicts.values()), interval(row)],
    )


def table(
    title: str, caption: str, columns: list[str], rows: Sequence[Row], values: Callable[[Row], list[str]]
) -> Table:
    return Table(
        title=f"{title}, N = M = {rows[0].n}",
        caption=caption,
        columns=("model owner", *columns),
        rows=tuple(tuple(map(Cell, [name_of(row), *values(row)])) for row in rows),
    )


def interval(row: Row) -> str:
    rate = row.accepted["all"]
    return f"{percent(rate.low)} to {percent(rate.high)}"


def percent(share: float) -> str:
    return f"{100 * share:.0f}"


def through(rows: list[Row]) -> str:
    """Who gets through, in plain words."""
    passed = [row for row in rows if not row.honest and row.accepted["all"].rate > THROUGH]
    if not passed:
        return "No cheat gets through all counter-measures."
    names = "; ".join(f"{row.model_owner} ({percent(row.accepted['all'].rate)} %)" for row in passed)
    return f"These cheats get through all counter-measures: {names}."


def name_of(row: Row) -> str:
    return f"honest: {row.model_owner}" if row.honest else row.model_owner
