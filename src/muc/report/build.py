"""Writing a report: one folder with the page, the tables for papers and READMEs, and the records behind them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from muc.errors import UserError
from muc.report import render
from muc.report.group import compare
from muc.report.page import page
from muc.report.sources import RESULTS
from muc.report.summary import summarise
from muc.report.tables import all_tables, settings_table
from muc.storage import write_json, write_text

TITLE = "Unlearning report"
LATEX_HEAD = "% needs \\usepackage{booktabs,graphicx}\n"
PAGE, MARKDOWN, LATEX = "report.html", "tables.md", "tables.tex"


def write_report(
    records: list[dict[str, Any]],
    out: Path,
    title: str = TITLE,
    looks: dict[str, dict[str, Any]] | None = None,
    thumbnails: list[bytes] | None = None,
    notes: Sequence[str] = (),
) -> Path:
    """Write report.html, tables.md, tables.tex and results.json into `out`; -> the page's path.

    `records` are those of muc.evaluation, of any number of settings, methods and seeds. `looks` are audit looks
    (as JSON) by method, all at the same images; `thumbnails` are these images, encoded as PNG or JPEG; `notes` are
    paragraphs on how the numbers were made.
    """
    if not records:
        raise UserError("there are no evaluation records to report; first: muc evaluate RUN --against RETRAIN_RUN")
    text = page(records, title, looks, thumbnails, notes)  # everything is made before anything is written
    compared = compare(records)
    made = [*all_tables(records), *(t for t in map(settings_table, compared) if t.rows)]
    said = [line for comparison in compared for line in summarise(comparison).lines()]
    head = "\n\n".join([f"# {render.markdown_text(title)}", *map(render.markdown_text, [*said, *notes])])
    write_json(out / RESULTS, records)
    write_text(out / MARKDOWN, f"{head}\n\n" + "\n".join(map(render.markdown, made)))
    write_text(out / LATEX, LATEX_HEAD + "\n".join(map(render.latex, made)))
    write_text(out / PAGE, text)
    return out / PAGE
