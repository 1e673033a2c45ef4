"""A report of anything that is not a comparison of methods by all metrics: tables, figures, and the numbers behind."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from markupsafe import Markup

from muc.report import render
from muc.report.build import LATEX, LATEX_HEAD, MARKDOWN, PAGE
from muc.report.canvas import data_uri
from muc.report.cells import Table
from muc.report.page import Picture, environment_facts, fill
from muc.report.sources import RESULTS
from muc.storage import write_bytes, write_json, write_text


@dataclass(frozen=True)
class Plot:
    """A figure as PNG, saved under its name, with what it shows for those who see it and those who do not."""

    name: str
    image: bytes
    alt: str
    caption: str


@dataclass(frozen=True)
class Sheet:
    """What a report says, shows and rests on."""

    title: str
    paragraphs: list[str]
    results: Any
    """JSON: the raw numbers."""
    environments: list[dict[str, Any]]
    """With what these were made."""
    tables: list[Table] = field(default_factory=list)
    plots: list[Plot] = field(default_factory=list)


def write_sheet(sheet: Sheet, out: Path) -> Path:
    """Write report.html, tables.md, tables.tex, results.json and the figures into `out`; -> the page's path."""
    text = sheet_page(sheet)  # everything is made before anything is written
    write_json(out / RESULTS, sheet.results)
    said = [f"# {render.markdown_text(sheet.title)}", *map(render.markdown_text, sheet.paragraphs)]
    shown = [
        f"![{render.markdown_text(p.alt)}]({p.name}.png)\n\n{render.markdown_text(p.caption)}" for p in sheet.plots
    ]
    write_text(out / MARKDOWN, "\n\n".join([*said, *map(render.markdown, sheet.tables), *shown]) + "\n")
    write_text(out / LATEX, LATEX_HEAD + "\n".join(map(render.latex, sheet.tables)))
    for plot in sheet.plots:
        write_bytes(out / f"{plot.name}.png", plot.image)
    write_text(out / PAGE, text)
    return out / PAGE


def sheet_page(sheet: Sheet) -> str:
    """The report as HTML text."""
    return fill(
        "sheet.html.jinja",
        title=sheet.title,
        paragraphs=sheet.paragraphs,
        tables=[{"title": table.title, "html": Markup(render.html(table))} for table in sheet.tables],
        pictures=[Picture(data_uri(plot.image), plot.alt, plot.caption) for plot in sheet.plots],
        environment=environment_facts(sheet.environments),
    )
