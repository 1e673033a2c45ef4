"""The paper's numbers as tables for people; `load` has them for programs."""

from typing import Any

from muc.paper import load
from muc.paper.t_tests import t_tests
from muc.report.cells import Cell, Table

UNSHOWN = ("gaps", "bold", "p_relation", "mark")


def t_test_table() -> Table:
    rows = [
        (
            Cell(row["test"]),
            Cell(str(row["N"])),
            Cell(f"{row['ours']:.4f}" if row["ours"] >= 1e-4 else f"{row['ours']:.1e}"),
            Cell(f"{'≤ ' if row['relation'] == '<=' else ''}{row['printed']:.4f}"),
        )
        for row in t_tests()
    ]
    return Table(
        title="The paper's t-tests, from its summary statistics",
        caption="Two-sided Student tests with pooled variance; N values in each arm for FS, N(N-1)/2 for the negative "
        "alignment. Do not rely on them: pairs that share an image are not independent, and a data owner has no null "
        "arm of a model that cheats.",
        columns=("Test", "N", "Computed", "Printed"),
        rows=tuple(rows),
    )


def printed_tables() -> list[Table]:
    """All 15, in the paper's order; what the errata say stands below each."""
    paper = load()
    named = sorted(paper["tables"].items(), key=lambda item: item[1]["number"])
    return [_printed(name, table, paper["errata"]) for name, table in named]


def _printed(name: str, table: dict[str, Any], errata: list[dict[str, Any]]) -> Table:
    rows = table["rows"]
    keys = [key for key in dict.fromkeys(k for row in rows for k in row) if key not in UNSHOWN]
    # What all rows share goes into the caption; the method leads.
    shared = [key for key in keys if key != "method" and len({str(row.get(key)) for row in rows}) == 1]
    columns = ["method", *(key for key in keys if key != "method" and key not in shared)]
    known = [f"{key} {rows[0][key]}" for key in shared if rows[0].get(key) is not None]
    wrong = [e["note"] for e in errata if f"tables.{name}" in e["where"]]
    return Table(
        title=f"Table {table['number']}: {table['caption']}",
        caption=" ".join([f"For all rows: {', '.join(known)}." if known else "", *wrong]).strip(),
        columns=tuple(columns),
        rows=tuple(tuple(_cell(row, key) for key in columns) for row in rows),
    )


def _cell(row: dict[str, Any], key: str) -> Cell:
    value, gap = row.get(key), (row.get("gaps") or {}).get(key)
    bound = "≤ " if key == "p_value" and row["p_relation"] == "<=" else ""
    return Cell("–" if value is None else f"{bound}{value}", None if gap is None else str(gap))
