"""The red team for people: what each test and counter-measure is worth, and who gets through all of them."""

from muc.audit_lab.redteam import DEFENCES, RedTeam, Row

THROUGH = 0.1
"""A cheat who is accepted this often, twice the promised rate, is said to get through."""
FITTED = (
    "The thresholds of the near-duplicate and decoy checks were set after trial rounds against these cheats on the "
    "first two glyph encoders: a cheat who knows the thresholds may do better than this table."
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
        parts += [accepted_table(rows, n), verdict_table(rows, n), through(rows, n)]
    return "\n\n".join(parts) + "\n"


def accepted_table(rows: list[Row], n: int) -> str:
    trials = rows[0].accepted["hold_back"].trials
    lines = [
        f"Accepted as changed, in % of {trials} audits, N = M = {n}. The first three tests have no controls; those "
        "with + are the hold-back test on fresh crops with one check more.",
        "",
        "| model owner | " + " | ".join(DEFENCES[name] for name in rows[0].accepted) + " |",
        "|---" * (len(rows[0].accepted) + 1) + "|",
    ]
    for row in rows:
        cells = [f"{100 * rate.rate:.0f}" for rate in row.accepted.values()]
        lines.append(f"| {name_of(row)} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def verdict_table(rows: list[Row], n: int) -> str:
    kinds = list(rows[0].verdicts)
    lines = [
        f"Verdicts with all counter-measures, in %, N = M = {n} (reference: Alignment Calibration), and the 95 % "
        "interval of 'changed as requested'.",
        "",
        "| model owner | " + " | ".join(kinds) + " | interval |",
        "|---" * (len(kinds) + 2) + "|",
    ]
    for row in rows:
        rate = row.accepted["all"]
        shares = " | ".join(f"{100 * row.verdicts[kind]:.0f}" for kind in kinds)
        lines.append(f"| {name_of(row)} | {shares} | {100 * rate.low:.0f} to {100 * rate.high:.0f} |")
    return "\n".join(lines)


def through(rows: list[Row], n: int) -> str:
    """Who gets through, in plain words."""
    passed = [row for row in rows if not row.honest and row.accepted["all"].rate > THROUGH]
    if not passed:
        return f"**At N = M = {n} no cheat gets through all counter-measures.**"
    names = "; ".join(f"{row.model_owner} ({100 * row.accepted['all'].rate:.0f} %)" for row in passed)
    return f"**At N = M = {n} these cheats get through all counter-measures:** {names}."


def name_of(row: Row) -> str:
    return f"*honest:* {row.model_owner}" if row.honest else row.model_owner
