"""The red team for people: what each test and counter-measure is worth, and who gets through all of them."""

from muc.audit_lab.redteam import DEFENCES, RedTeam, Row

THROUGH = 0.1
"""A cheat who is accepted this often, twice the promised rate, is said to get through."""
FITTED = (
    "The thresholds of the near-duplicate and decoy checks were set after trial rounds against these cheats on the "
    "first two glyph encoders, that of borders after honest rounds on a CIFAR-10 encoder: a cheat who knows the "
    "thresholds may do better than this table."
)


def markdown(found: RedTeam) -> str:
    sizes = sorted({row.n for row in found.rows})
    parts = [
        f"{found.encoders} encoders of {found.data}, {found.rounds} rounds each, {found.owners} owners a round. Cheats "
        f"recognise {found.recognised:.0%} of fresh crops of listed images, and take {found.mistaken:.0%} of controls "
        "for listed.",
        FITTED,
    ]
    for n in sizes:
        rows = [row for row in found.rows if row.n == n]
        parts += [accepted_table(rows, n), caught_table(rows, n), verdict_table(rows, n), through(rows, n)]
    return "\n\n".join(parts) + "\n"


def accepted_table(rows: list[Row], n: int) -> str:
    trials = rows[0].accepted["hold_back"].trials
    return table(
        f"Accepted as changed, in % of {trials} audits, N = M = {n}. The first three tests have no controls; those "
        "with + are the hold-back test on fresh crops with one check more.",
        [DEFENCES[name] for name in rows[0].accepted],
        {name_of(row): [percent(rate.rate) for rate in row.accepted.values()] for row in rows},
    )


def caught_table(rows: list[Row], n: int) -> str:
    return table(
        f"Caught by each check, in % of the same audits, N = M = {n}; an honest model owner should be by none.",
        [DEFENCES[name].removeprefix("+ ") for name in rows[0].caught],
        {name_of(row): [percent(share) for share in row.caught.values()] for row in rows},
    )


def verdict_table(rows: list[Row], n: int) -> str:
    return table(
        f"Verdicts with all counter-measures, in %, N = M = {n} (reference: Alignment Calibration), and the 95 % "
        "interval of 'changed as requested'.",
        [*rows[0].verdicts, "interval"],
        {
            name_of(row): [*map(percent, row.verdicts.values()), f"{percent(rate.low)} to {percent(rate.high)}"]
            for row in rows
            for rate in [row.accepted["all"]]
        },
    )


def table(caption: str, columns: list[str], rows: dict[str, list[str]]) -> str:
    head = [f"| model owner | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]
    return "\n".join([caption, "", *head, *(f"| {name} | {' | '.join(cells)} |" for name, cells in rows.items())])


def percent(share: float) -> str:
    return f"{100 * share:.0f}"


def through(rows: list[Row], n: int) -> str:
    """Who gets through, in plain words."""
    passed = [row for row in rows if not row.honest and row.accepted["all"].rate > THROUGH]
    if not passed:
        return f"**At N = M = {n} no cheat gets through all counter-measures.**"
    names = "; ".join(f"{row.model_owner} ({percent(row.accepted['all'].rate)} %)" for row in passed)
    return f"**At N = M = {n} these cheats get through all counter-measures:** {names}."


def name_of(row: Row) -> str:
    return f"*honest:* {row.model_owner}" if row.honest else row.model_owner
