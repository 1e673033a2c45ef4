"""Tables as Markdown, LaTeX, HTML and text for the terminal. Everything that comes from outside is escaped."""

from html import escape
from io import StringIO
from typing import Literal

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from muc.report.cells import Cell, Mark, Table

PAPER_ROW = "paper"
BETWEEN = 3  # what the terminal puts between two columns

_MARKDOWN_MARKS: dict[Mark, str] = {"best": "**", "second": "*", "": ""}
_LATEX_MARKS: dict[Mark, str] = {"best": r"\textbf{%s}", "second": r"\textit{%s}", "": "%s"}
_RICH_MARKS: dict[Mark, str] = {"best": "bold", "second": "italic", "": ""}
_FITTED = r"\resizebox{\ifdim\width>\textwidth\textwidth\else\width\fi}{!}{%"
"""LaTeX that shrinks what is wider than the text, and nothing else."""
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
    "≤": r"$\leq$",
    "−": "$-$",
    "←": r"$\leftarrow$",
    "→": r"$\rightarrow$",
    "†": r"$\dagger$",
    "²": "$^2$",
    "β": r"$\beta$",
    "π": r"$\pi$",
    "…": r"\ldots{}",
    "▲": r"$\triangle$",
    "■": r"$\bullet$",
    "↳": r"$\hookrightarrow$",
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
    lines = [f"### {markdown_text(table.title)}", "", markdown_text(table.caption), ""]
    lines.append(_markdown_row([markdown_text(c) for c in table.columns]))
    lines.append(_markdown_row(["---", *["---:"] * (len(table.columns) - 1)]))
    for row in table.rows:
        marks = [_MARKDOWN_MARKS[cell.mark] for cell in row]
        lines.append(
            _markdown_row([f"{m}{markdown_text(value_with_gap(c))}{m}" for c, m in zip(row, marks, strict=True)])
        )
        if (below := paper_line(row)) is not None:
            lines.append(_markdown_row([f"↳ {below[0]}", *map(markdown_text, below[1:])]))
    return "\n".join(lines) + "\n"


def _markdown_row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def markdown_text(text: str) -> str:
    """With everything escaped that Markdown would take for more than text."""
    return "".join(f"\\{c}" if c in _MARKDOWN_SPECIAL else c for c in one_line(text))


def latex(table: Table) -> str:
    """A floating table for the packages booktabs and graphicx; the best is bold, the second italic."""
    return "\n".join(
        [
            r"\begin{table}[ht]",
            r"\centering",
            rf"\caption{{{_latex(table.title)}. {_latex(table.caption)}}}",
            _FITTED,
            rf"\begin{{tabular}}{{l{'r' * (len(table.columns) - 1)}}}",
            r"\toprule",
            _latex_row([_latex(c) for c in table.columns]),
            r"\midrule",
            *(line for row in table.rows for line in _latex_lines(row)),
            r"\bottomrule",
            r"\end{tabular}}",
            r"\end{table}",
            "",
        ]
    )


def _latex_lines(row: tuple[Cell, ...]) -> list[str]:
    """Values, their gaps below them, and the paper's values."""
    lines = [_latex_row([_LATEX_MARKS[c.mark] % _latex(c.text) for c in row])]
    if any(c.gap for c in row):
        lines.append(_latex_row([f"({_latex(c.gap)})" if c.gap else "" for c in row]))
    if (below := paper_line(row)) is not None:
        lines.append(_latex_row([rf"\quad {below[0]}", *map(_latex, below[1:])]))
    return lines


def _latex_row(cells: list[str]) -> str:
    return " & ".join(cells) + r" \\"


def _latex(text: str) -> str:
    return "".join(_LATEX.get(c, c) for c in one_line(text))


def html(table: Table) -> str:
    """A table that scrolls sideways where it must, and its caption below; gaps stand under their values."""
    head = "".join(f'<th scope="col">{escape(c)}</th>' for c in table.columns)
    body = "\n".join(_html_rows(row) for row in table.rows)
    return (
        f'<div class="sheet"><div class="scroll" tabindex="0" role="region" aria-label="{escape(table.title)}">\n'
        f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>\n</div>\n"
        f'<p class="caption">{escape(table.caption)}</p></div>'
    )


def _html_rows(row: tuple[Cell, ...]) -> str:
    marked = f' class="{row[0].mark}"' if row[0].mark else ""
    values = f"<tr{marked}>{_html_cell(row[0], 'th')}{''.join(_html_cell(c, 'td') for c in row[1:])}</tr>"
    if (below := paper_line(row)) is None:
        return values
    cells = "".join(f"<td>{escape(text)}</td>" for text in below[1:])
    return (
        f'{values}\n<tr class="{" ".join(filter(None, ("paper", row[0].mark)))}"><th scope="row">paper</th>{cells}</tr>'
    )


def _html_cell(cell: Cell, element: Literal["th", "td"]) -> str:
    tag = {"best": "strong", "second": "em", "": "span"}[cell.mark]
    gap = "" if cell.gap is None else f'<span class="gap">({_html_number(cell.gap)})</span>'
    if element == "th":  # names of settings are long words; let them break where a reader would
        name = escape(cell.text).replace("_", "_<wbr>").replace("=", "=<wbr>")
        return f'<th scope="row"><{tag} class="value">{name}</{tag}></th>'
    return f'<td><{tag} class="value">{_html_number(cell.text)}</{tag}>{gap}</td>'


def _html_number(text: str) -> str:
    """The deviation smaller than the mean it belongs to."""
    mean, between, deviation = escape(text).partition(" ± ")
    return f"{mean}<small> ± {deviation}</small>" if between else mean


def text(table: Table, width: int | None = None, colour: bool = False) -> str:
    """For the terminal (`width` None: as wide as it is); what does not fit beside goes below, with its row names."""
    console = Console(file=StringIO(), width=width, force_terminal=colour, color_system="auto" if colour else None)
    with console.capture() as capture:
        _print(table, console)
    return capture.get()


def print_terminal(table: Table) -> None:
    """Onto standard output, in colour where it takes any."""
    _print(table, Console())


def _print(table: Table, console: Console) -> None:
    console.print(Text(table.title, style="bold"))
    for part in _parts(table, console.width):
        console.print(part)
        console.print()
    console.print(Text(table.caption, style="dim"))
    console.print()


def _parts(table: Table, width: int) -> list[RichTable]:
    lines = [line for row in table.rows for line in _terminal_lines(row)]
    widths = [
        max(len(part) for cell in (name, *(line[i].plain for line in lines)) for part in cell.split("\n"))
        for i, name in enumerate(table.columns)
    ]
    chunks: list[list[int]] = [[]]
    for i in range(1, len(widths)):
        used = widths[0] + sum(widths[j] + BETWEEN for j in chunks[-1])
        if chunks[-1] and used + widths[i] + BETWEEN > width:
            chunks.append([])
        chunks[-1].append(i)
    return [_rich_table(table.columns, lines, [0, *chunk]) for chunk in chunks]


def _rich_table(columns: tuple[str, ...], lines: list[list[Text]], shown: list[int]) -> RichTable:
    made = RichTable(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for i in shown:
        made.add_column(Text(columns[i]), justify="right" if i else "left")
    for line in lines:
        made.add_row(*(line[i] for i in shown))
    return made


def _terminal_lines(row: tuple[Cell, ...]) -> list[list[Text]]:
    """Text objects, not markup: a name like [red] stays what it is."""
    lines = [[Text(c.text if c.gap is None else f"{c.text}\n({c.gap})", style=_RICH_MARKS[c.mark]) for c in row]]
    if (below := paper_line(row)) is not None:
        lines.append([Text(f"  {b}" if i == 0 else b, style="dim") for i, b in enumerate(below)])
    return lines


def one_line(text: str) -> str:
    """A line break would end a row or begin a paragraph."""
    return " ".join(text.split())
