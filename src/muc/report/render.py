"""Tables as Markdown, LaTeX, HTML and text for the terminal. Everything that comes from outside is escaped."""

from html import escape
from io import StringIO

from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from muc.report.tables import Cell, Mark, Table

PAPER_ROW = "paper"

_MARKDOWN_MARKS: dict[Mark, str] = {"best": "**", "second": "*", "": ""}
_LATEX_MARKS: dict[Mark, str] = {"best": r"\textbf{%s}", "second": r"\textit{%s}", "": "%s"}
_RICH_MARKS: dict[Mark, str] = {"best": "bold", "second": "italic", "": ""}
_LATEX = {
    "\\": r"\textbackslash{}",
    **{c: f"\\{c}" for c in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "±": r"$\pm$",
    "×": r"$\times$",
    "–": "--",
    "·": r"$\cdot$",
    "ℓ": r"$\ell$",
}
_MARKDOWN_SPECIAL = r"\`*_[]<>|#&~"


def value_with_gap(cell: Cell) -> str:
    return cell.text if cell.gap is None else f"{cell.text} ({cell.gap})"


def paper_line(row: tuple[Cell, ...]) -> list[str] | None:
    """The line below a row that holds the paper's values; None where it has none."""
    if not any(cell.paper for cell in row):
        return None
    return [PAPER_ROW, *(cell.paper or "" for cell in row[1:])]


def markdown(table: Table) -> str:
    """A GitHub-style table; the best is bold, the second italic."""
    lines = [f"### {_markdown(table.title)}", "", _markdown(table.caption), ""]
    lines.append(_markdown_row([_markdown(c) for c in table.columns]))
    lines.append(_markdown_row(["---", *["---:"] * (len(table.columns) - 1)]))
    for row in table.rows:
        marks = [_MARKDOWN_MARKS[cell.mark] for cell in row]
        lines.append(
            _markdown_row([f"{m}{_markdown(value_with_gap(c))}{m}" for c, m in zip(row, marks, strict=True)])
        )
        if (below := paper_line(row)) is not None:
            lines.append(_markdown_row([f"↳ {below[0]}", *map(_markdown, below[1:])]))
    return "\n".join(lines) + "\n"


def _markdown_row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _markdown(text: str) -> str:
    return "".join(f"\\{c}" if c in _MARKDOWN_SPECIAL else c for c in _one_line(text))


def latex(table: Table) -> str:
    """A floating table for the packages booktabs and graphicx; the best is bold, the second italic."""
    body = []
    for row in table.rows:
        body.append(_latex_row([_LATEX_MARKS[c.mark] % _latex(value_with_gap(c)) for c in row]))
        if (below := paper_line(row)) is not None:
            body.append(_latex_row([rf"\quad {below[0]}", *map(_latex, below[1:])]))
    return "\n".join(
        [
            r"\begin{table}[ht]",
            r"\centering",
            rf"\caption{{{_latex(table.title)}. {_latex(table.caption)}}}",
            r"\resizebox{\textwidth}{!}{%",
            rf"\begin{{tabular}}{{l{'r' * (len(table.columns) - 1)}}}",
            r"\toprule",
            _latex_row([_latex(c) for c in table.columns]),
            r"\midrule",
            *body,
            r"\bottomrule",
            r"\end{tabular}}",
            r"\end{table}",
            "",
        ]
    )


def _latex_row(cells: list[str]) -> str:
    return " & ".join(cells) + r" \\"


def _latex(text: str) -> str:
    return "".join(_LATEX.get(c, c) for c in _one_line(text))


def html(table: Table) -> str:
    """A table element with its caption; gaps and the paper's values stand below the value."""
    head = "".join(f'<th scope="col">{escape(c)}</th>' for c in table.columns)
    body = "\n".join(_html_row(row) for row in table.rows)
    return (
        f"<table>\n<caption>{escape(table.caption)}</caption>\n"
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>"
    )


def _html_row(row: tuple[Cell, ...]) -> str:
    marked = f' class="{row[0].mark}"' if row[0].mark else ""
    below = '<span class="paper">paper</span>' if any(c.paper for c in row) else ""
    first = f'<th scope="row">{_html_value(row[0])}{below}</th>'
    return f"<tr{marked}>{first}{''.join(_html_cell(c) for c in row[1:])}</tr>"


def _html_cell(cell: Cell) -> str:
    gap = "" if cell.gap is None else f'<span class="gap">({escape(cell.gap)})</span>'
    paper = "" if cell.paper is None else f'<span class="paper">{escape(cell.paper)}</span>'
    return f"<td>{_html_value(cell)}{gap}{paper}</td>"


def _html_value(cell: Cell) -> str:
    tag = {"best": "strong", "second": "em", "": "span"}[cell.mark]
    return f'<{tag} class="value">{escape(cell.text)}</{tag}>'


def text(table: Table, width: int | None = None, colour: bool = False) -> str:
    """For the terminal; `width` None takes the terminal's."""
    console = Console(file=StringIO(), width=width, force_terminal=colour, color_system="auto" if colour else None)
    with console.capture() as capture:
        console.print(rich_table(table))
    return capture.get()


def rich_table(table: Table) -> RichTable:
    """Text objects, not markup: a name like [red] stays what it is."""
    made = RichTable(title=Text(table.title), caption=Text(table.caption), caption_justify="left", pad_edge=False)
    for i, column in enumerate(table.columns):
        made.add_column(Text(column), justify="right" if i else "left", no_wrap=i > 0)
    for row in table.rows:
        made.add_row(*(Text(value_with_gap(c), style=_RICH_MARKS[c.mark]) for c in row))
        if (below := paper_line(row)) is not None:
            made.add_row(*(Text(f"  {b}" if i == 0 else b, style="dim") for i, b in enumerate(below)))
    return made


def _one_line(text: str) -> str:
    return " ".join(text.split())
