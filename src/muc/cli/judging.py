"""muc evaluate, compare, report, paper."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import tyro
from tyro.conf import Positional

from muc import config
from muc.cli.flags import RequestFlags, Run, Runs, RuntimeFlags, existing, parse, print_json, run_at, say
from muc.errors import check_name
from muc.methods import METHODS


@dataclass(frozen=True)
class Evaluate:
    runs: Runs
    """Unlearned runs of one request (the original may be among them)."""
    against: Path | None = None
    """The Retrain run that gaps are measured against."""
    json: bool = False
    """Print the records as JSON instead of a table, without the values of every image (evaluation.json has them)."""
    runtime: RuntimeFlags = field(default_factory=config.Runtime)


def evaluate(argv: Sequence[str]) -> None:
    about = "Measure what was forgotten and what was lost, and how far each run is from Retrain."
    example = "muc evaluate runs/moco-* --against runs/moco-retrain"
    flags = parse(Evaluate, argv, "evaluate", about, example)
    chosen, against = [run_at(path) for path in existing(flags.runs)], run_at(flags.against) if flags.against else None
    from muc.evaluation.records import evaluate_runs

    records = evaluate_runs(chosen, against, flags.runtime)
    if flags.json:
        from muc.report.group import without_samples

        print_json([without_samples(record) for record in records])
    else:
        print_tables(records)


@dataclass(frozen=True)
class Compare:
    run: Run
    """The run to unlearn from."""
    request: RequestFlags = field(default_factory=config.Request)
    out: Path = Path("comparison")
    """Folder for the candidate runs; a comparison that was cut off goes on there."""
    methods: tuple[str, ...] = ()
    """Which methods to try (default: the paper's, Retrain among them, and for clip balanced_calibration). Leave
    retrain out where it costs too much."""
    against: Path | None = None
    """A Retrain run of this request that you already have."""
    search: int = 0
    """Try this many settings a method, drawn from the paper's ranges; chosen on validation images."""
    json: bool = False
    """Print the comparison as JSON."""
    runtime: RuntimeFlags = field(default_factory=config.Runtime)


def compare(argv: Sequence[str]) -> None:
    about = "Serve a deletion request with several methods, rank them by evidence, and name the run to publish."
    flags = parse(Compare, argv, "compare", about, "muc compare runs/moco --forget-fraction 0.1 --out runs/request-7")
    original, against = run_at(flags.run), run_at(flags.against) if flags.against else None
    methods = [check_name("method", name, METHODS) for name in flags.methods]
    from muc import compare as comparing

    found = comparing.compare(original, flags.request, flags.out, methods, against, flags.search, flags.runtime)
    if flags.json:
        print_json(found.to_json())
        return
    print_tables(found.records)
    for line in comparing.reasons(found):
        print(line)
    say(f"as a page: {shlex.join(['muc', 'report', str(flags.out)])}")


@dataclass(frozen=True)
class Report:
    runs: Runs
    """Evaluated runs, of any number of seeds and settings, or folders that hold such (--out of muc compare), or
    reports of such (their folder, or results.json), which become one."""
    out: Path = Path("report")
    """Folder for report.html, tables.md, tables.tex and results.json."""
    title: str = "Unlearning report"


def report(argv: Sequence[str]) -> None:
    about = "One page with tables and figures of evaluated runs, and the tables as Markdown and LaTeX."
    flags = parse(Report, argv, "report", about, "muc report runs/moco-* --out report")
    from muc.report import write_report
    from muc.report.group import key_of
    from muc.report.sources import check_out, records_at

    check_out(flags.out)
    records = [record for path in existing(flags.runs) for record in records_at(path)]
    unique = list({key_of(r): r for r in records}.values())
    print(write_report(unique, flags.out, flags.title))


def print_tables(records: list[dict]) -> None:
    from muc.report.render import print_terminal
    from muc.report.tables import all_tables

    for table in all_tables(records):
        print_terminal(table)


Step = Literal["t-tests", "tables"]


@dataclass(frozen=True)
class Paper:
    what: Annotated[Positional[Step], tyro.conf.arg(metavar="t-tests|tables")]
    """t-tests: its p-values recomputed from its summary statistics. tables: its numbers."""
    json: bool = False
    """Print JSON."""


def paper(argv: Sequence[str]) -> None:
    flags = parse(Paper, argv, "paper", "What the paper prints, and what follows from it.", "muc paper t-tests")
    from muc import paper as numbers
    from muc.paper.t_tests import t_tests

    if flags.what == "t-tests":
        print_json(t_tests()) if flags.json else numbers.print_t_tests()
    else:
        print_json(numbers.load()["tables"]) if flags.json else numbers.print_tables()
