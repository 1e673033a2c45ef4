"""muc evaluate, compare, audit, report."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import tyro
from tyro.conf import Positional

from muc import config
from muc.cli.flags import RequestFlags, Run, Runs, RuntimeFlags, existing, parse, print_json, say
from muc.errors import Interrupted, UserError, check_name


@dataclass(frozen=True)
class Evaluate:
    runs: Runs
    """Unlearned runs of one request (the original may be among them)."""
    against: Path | None = None
    """The Retrain run that gaps are measured against."""
    json: bool = False
    """Print the records as JSON instead of a table."""
    runtime: RuntimeFlags = field(default_factory=config.Runtime)


def evaluate(argv: Sequence[str]) -> None:
    about = "Measure what was forgotten and what was lost, and how far each run is from Retrain."
    example = "muc evaluate runs/moco-* --against runs/moco-retrain"
    flags = parse(Evaluate, argv, "evaluate", about, example)
    from muc.evaluation.records import evaluate_runs
    from muc.storage import RunFolder

    chosen = [RunFolder(path) for path in existing(flags.runs)]
    records = evaluate_runs(chosen, RunFolder(flags.against) if flags.against else None, flags.runtime)
    print_json(records) if flags.json else print_tables(records)


@dataclass(frozen=True)
class Compare:
    run: Run
    """The run to unlearn from."""
    request: RequestFlags = field(default_factory=config.Request)
    out: Path = Path("comparison")
    """Folder for the candidate runs; a comparison that was cut off goes on there."""
    methods: tuple[str, ...] = ()
    """Which methods to try (default: all, Retrain among them; leave it out where retraining costs too much)."""
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
    from muc import compare as comparing
    from muc.methods import METHODS
    from muc.storage import RunFolder

    methods = [check_name("method", name, METHODS) for name in flags.methods] or list(METHODS)
    against = RunFolder(flags.against) if flags.against else None
    try:
        found = comparing.compare(
            RunFolder(flags.run), flags.request, flags.out, methods, against, flags.search, flags.runtime
        )
    except Interrupted:
        raise Interrupted("the same muc compare") from None
    if flags.json:
        print_json(found.to_json())
        return
    print_tables(found.records)
    for line in comparing.reasons(found):
        print(line)


@dataclass(frozen=True)
class AuditLook:
    before: Annotated[Positional[Path], tyro.conf.arg(metavar="BEFORE")]
    """The run before unlearning."""
    after: Annotated[Positional[Path], tyro.conf.arg(metavar="AFTER")]
    """The run after unlearning."""
    images: tuple[Path, ...]
    """The owner's images: picture files, or a folder of them."""
    out: Path = Path("look")
    """Folder for look.json and look.png."""
    view_pairs: int = 8
    """How many pairs of random views of each image are averaged (the paper uses 1)."""
    seed: int = 0
    json: bool = False
    """Print the matrices as JSON."""


def audit(argv: Sequence[str]) -> None:
    check_name("audit step", argv[0] if argv and not argv[0].startswith("-") else "look", ["look"])
    about = (
        "What a data owner sees from outside: how alike two models find the owner's images, before and after, as "
        "pictures and numbers, from the models' embeddings alone. It shows; it does not judge."
    )
    example = "muc audit look runs/moco runs/moco-alignment_calibration --images mine/*.png"
    flags = parse(AuditLook, argv[1:] if argv[:1] == ["look"] else argv, "audit look", about, example)
    from muc.audit import look
    from muc.data.sources import read_owner_images
    from muc.report.figures import look_figure
    from muc.runs import embedder
    from muc.storage import RunFolder, replacing, write_json

    before, after = embedder(RunFolder(flags.before)), embedder(RunFolder(flags.after))
    if before.input_shape != after.input_shape:
        raise UserError(
            f"{flags.before} takes {before.input_shape} images (channels, side) and {flags.after} {after.input_shape}; "
            "compare a model with its own successor"
        )
    pixels, names = read_owner_images(flags.images, *before.input_shape)
    seen = look(before, after, pixels, before.views, names, flags.view_pairs, flags.seed)
    write_json(flags.out / "look.json", seen.to_json())
    with replacing(flags.out / "look.png") as f:
        f.write(look_figure(seen.to_json(), pixels))
    print_json(seen.to_json()) if flags.json else print_look(seen)
    say(f"pictures: {flags.out / 'look.png'}")


def print_look(seen) -> None:
    print(f"positive alignment  {seen.positive_alignment_before:.4f} -> {seen.positive_alignment_after:.4f}")
    print(f"negative alignment  {seen.negative_alignment_before:.4f} -> {seen.negative_alignment_after:.4f}")
    print(f"negative-alignment gap {seen.negative_alignment_gap:+.4f}")
    for name, score in zip(seen.names, seen.forgetting_scores, strict=True):
        print(f"forgetting score {score:+.4f}  {name}")


@dataclass(frozen=True)
class Report:
    runs: Runs
    """Evaluated runs, of any number of seeds and settings."""
    out: Path = Path("report")
    """Folder for report.html, tables.md, tables.tex and results.json."""
    title: str = "Unlearning report"


def report(argv: Sequence[str]) -> None:
    about = "One page with tables and figures of evaluated runs, and the tables as Markdown and LaTeX."
    flags = parse(Report, argv, "report", about, "muc report runs/moco-* --out report")
    from muc.report import write_report
    from muc.storage import RunFolder

    records = [record for path in existing(flags.runs) for record in RunFolder(path).records()]
    unique = list({(r["run"], r["forget_images"], r["seed"]): r for r in records}.values())
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
