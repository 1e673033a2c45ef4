"""The numbers that the MUC paper (TMLR 2025) prints, to put beside ours. Facts only, misprints listed as errata."""

import json
from copy import deepcopy
from functools import cache
from importlib.resources import files
from typing import Any

from muc.evaluation.gaps import METRICS, gaps

EPOCHS = 800
TRAINING_IMAGES = {"cifar10": 45_000, "cifar100": 45_000, "svhn": 65_931}
"""What the paper trains on: the training part less 10 % for validation."""

# E02 and E11: the results table prints 62.66, the standard-deviation table 62.56, and only 62.56 fits the printed gap.
_CORRECTED = {("cifar100_10pct", "moco", "gradient_ascent", "RA"): 62.56}


def load() -> dict[str, Any]:
    """The whole file, values as printed. A copy: change it as you like."""
    return deepcopy(_load())


@cache
def _load() -> dict[str, Any]:
    return json.loads((files("muc.paper") / "tables.json").read_text(encoding="utf-8"))


def reference_rows(data: str, algorithm: str, architecture: str, forget_fraction: float) -> dict[str, dict[str, Any]]:
    """{method: row} of the white-box table of a setting; empty where the paper has none.

    A row holds the five metrics, `gaps`, `avg_gap`, `agp` and `rte_minutes` (None where not printed) and `table`, the
    table's number. Gaps and averages are the printed ones, except where the errata say that these do not follow from
    the metrics: there they are computed from the metrics, and `corrected` is {column: the erratum}. Gaps are also
    computed where none is printed; then `gaps_printed` is False.
    """
    for name, table in _load()["tables"].items():
        found = {r["method"]: r for r in table["rows"] if _is(r, data, algorithm, architecture, forget_fraction)}
        if "retrain" in found and "avg_gap" in found["retrain"] and "EMIA" in found["retrain"]:
            rows = _with_gaps(name, table["number"], deepcopy(found))
            return {method: row | _corrections(name, found[method], row) for method, row in rows.items()}
    return {}


def forgetting_scores(data: str, algorithm: str, architecture: str, forget_fraction: float) -> dict[str, float]:
    """{method: FS} of a setting; empty where the paper prints none."""
    rows = _load()["tables"]["forgetting_score"]["rows"]
    return {r["method"]: r["FS"] for r in rows if _is(r, data, algorithm, architecture, forget_fraction)}


def pair_rows(data: str, forget_fraction: float) -> dict[str, dict[str, Any]]:
    """{method: row} of the image-text table, for any rendering of MS-COCO ("coco", "coco64", …); else empty.

    A row holds the two similarities x 100, `gaps` and `avg_gap` (None for the original, 0 for Retrain) and `table`.
    """
    table = _load()["tables"]["clip_coco_10pct"]
    if not data.lower().removeprefix("ms").startswith("coco"):
        return {}
    found = [row for row in table["rows"] if abs(row["forget_fraction"] - forget_fraction) < 0.001]
    return {row["method"]: {**deepcopy(row), "table": table["number"]} for row in found}


def print_t_tests() -> None:
    """Onto standard output: the paper's p-values and what its summary statistics give."""
    from muc.paper.show import t_test_table
    from muc.report.render import print_terminal

    print_terminal(t_test_table())


def print_tables() -> None:
    """Onto standard output: every table as printed, each with what is wrong in it."""
    from muc.paper.show import printed_tables
    from muc.report.render import print_terminal

    for table in printed_tables():
        print_terminal(table)


def _is(row: dict[str, Any], data: str, algorithm: str, architecture: str, forget_fraction: float) -> bool:
    """The fraction is compared roughly: 10 % of SVHN's 65,931 images is not a whole number."""
    named = (row["dataset"], row["algorithm"], row["architecture"]) == (data, algorithm, architecture)
    return named and abs(row["forget_fraction"] - forget_fraction) < 0.001


def _with_gaps(table: str, number: int, rows: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    for method, row in rows.items():
        for metric in METRICS:
            row[metric] = _CORRECTED.get((table, row["algorithm"], method, metric), row[metric])
    for method, row in rows.items():
        row["table"] = number
        row.setdefault("rte_minutes", None)
        row["gaps_printed"] = row["gaps"] is not None and method != "retrain"
        if method == "retrain":
            row |= {"gaps": None, "avg_gap": None, "agp": None}
            continue
        computed = gaps(row, rows["retrain"])
        row["agp"] = row.get("agp") or _printed_agp(row)
        if row["gaps"] is None or _misprints(table, row):
            row |= {"gaps": {m: computed[f"{m}_gap"] for m in METRICS}, "avg_gap": computed["AG"]}
    return rows


def _printed_agp(row: dict[str, Any]) -> float | None:
    """From the table of average gap percentages."""
    same = ("dataset", "algorithm", "architecture", "forget_fraction", "method")
    found = (r["agp"] for r in _load()["tables"]["agp"]["rows"] if all(r[key] == row[key] for key in same))
    return next(found, None)


def _misprints(table: str, row: dict[str, Any]) -> list[dict[str, Any]]:
    """The errata that name a gap or the average of this row."""
    return [
        erratum
        for erratum in _load()["errata"]
        if erratum["category"] in ("gap", "avg_gap")
        and erratum["where"] == f"tables.{table}"
        and all(row[key] == value for key, value in erratum["row"].items())
    ]


def _corrections(table: str, printed: dict[str, Any], row: dict[str, Any]) -> dict[str, dict[str, str]]:
    """Which of the values that are shown are not as printed, and what the errata say there."""
    found = {}
    for erratum in _misprints(table, row):
        metric = erratum["field"].removeprefix("gaps.")
        column = "AG" if metric == "avg_gap" else metric
        if _shown(printed, metric) != _shown(row, metric):
            found[column] = f"{erratum['id']}: {erratum['note']}"
    return {"corrected": found}


def _shown(row: dict[str, Any], name: str) -> tuple[str, ...]:
    values = [row[name], *([row["gaps"][name]] if row["gaps"] and name in row["gaps"] else [])]
    return tuple(f"{value:.2f}" for value in values)
