"""Tables -> Markdown, LaTeX, HTML, terminal: marks are shown and hostile names stay text."""

import ast
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from report_records import record, records

from latex import AVAILABLE, typeset
from muc.paper.show import t_test_table
from muc.report import render
from muc.report.tables import Cell, Table, all_tables

HOSTILE = r'<script>alert("x")</script> & [red]50 % $\bf _a_ | # ~^{}\n'


def table(name: str = "a") -> Table:
    rows = (
        (Cell(name, mark="best"), Cell("1.00 ± 0.10", gap="0.50", paper="1.20 (0.40)", mark="best")),
        (Cell("b", mark="second"), Cell("2.00", mark="second")),
        (Cell("c"), Cell("3.00")),
    )
    return Table("T", "C", ("Method", "AG"), rows)


def test_markdown() -> None:
    lines = render.markdown(table()).splitlines()
    assert "| **a** | **1.00 ± 0.10 (0.50)** |" in lines
    assert "| ↳ paper | 1.20 (0.40) |" in lines
    assert "| *b* | *2.00* |" in lines


def test_markdown_of_a_hostile_name_keeps_its_columns() -> None:
    text = render.markdown(table(HOSTILE + "\nnext line"))
    row = next(line for line in text.splitlines() if "alert" in line)
    assert len(re.findall(r"(?<!\\)\|", row)) == 3
    assert "<" not in text.replace(r"\<", "")
    assert r"\*" not in row.split("|")[0]


def test_latex() -> None:
    lines = render.latex(table()).splitlines()
    assert r"\textbf{a} & \textbf{1.00 $\pm$ 0.10} \\" in lines
    assert r" & (0.50) \\" in lines
    assert r"\quad paper & 1.20 (0.40) \\" in lines
    assert r"\textit{b} & \textit{2.00} \\" in lines
    assert r"\toprule" in lines


def test_latex_escapes() -> None:
    text = render.latex(table(r"50% of a_b & c#d ~{x}^2 \input{/etc/passwd} $y$"))
    assert (
        r"50\% of a\_b \& c\#d \textasciitilde{}\{x\}\textasciicircum{}2 "
        r"\textbackslash{}input\{/etc/passwd\} \$y\$"
    ) in text


def test_latex_of_a_whole_table_has_balanced_rows() -> None:
    made = all_tables(records(2))[0]
    rows = [line for line in render.latex(made).splitlines() if line.endswith(r"\\")]
    assert {len(re.findall(r"(?<!\\)&", row)) for row in rows} == {len(made.columns) - 1}


def test_every_character_of_our_own_has_a_latex_form() -> None:
    """Whatever the sources put into tables, titles and captions."""
    package = Path(render.__file__).parents[1]
    sources = [path for part in ("report", "reproduce", "paper") for path in (package / part).glob("*.py")]
    nodes = [node for path in sources for node in ast.walk(ast.parse(path.read_text()))]
    texts = [n.value for n in nodes if isinstance(n, ast.Constant) and isinstance(n.value, str)]
    assert {c for text in texts for c in text if not render.latex(table(c)).isascii()} == set()


@pytest.mark.skipif(not AVAILABLE, reason="needs pdflatex")
def test_latex_compiles_and_stays_on_the_page(tmp_path: Path) -> None:
    wide = Table("W", "C", ("Method", *["a long heading"] * 12), ((Cell("x"),) + (Cell("50.00 ± 1.00"),) * 12,))
    made = [table(HOSTILE + "≤ † → β"), wide, t_test_table(), *all_tables(records(2))]
    assert "Overfull" not in typeset(map(render.latex, made), tmp_path)


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.opened: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.opened.append(tag)
        if tag != "wbr":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_html_of_a_hostile_name() -> None:
    tags = Tags()
    tags.feed(render.html(table(HOSTILE)))
    assert not tags.open
    assert "script" not in tags.opened
    assert "&lt;script&gt;" in render.html(table(HOSTILE))


def test_html_marks() -> None:
    text = render.html(table())
    assert '<strong class="value">1.00<small> ± 0.10</small></strong>' in text
    assert '<em class="value">2.00</em>' in text
    assert "<td>1.20 (0.40)</td>" in text


@pytest.mark.parametrize("width", [60, 100, 300])
def test_terminal_shows_every_value_at_any_width(width: int) -> None:
    made = all_tables(records(2))[0]
    text = render.text(made, width)
    assert max(map(len, text.splitlines())) <= width
    for row in made.rows:
        for cell in row:
            assert cell.text in text
    assert "…" not in text


@pytest.mark.parametrize("width", range(60, 100))
def test_terminal_cuts_no_number_of_many_narrow_columns(width: int) -> None:
    made = all_tables([record(method, data="glyphs") for method in ("retrain", "neggrad")])[0]
    text = render.text(made, width)
    assert "…" not in text
    assert all(cell.text in text for row in made.rows for cell in row)


def test_terminal_markup_stays_text() -> None:
    assert "[red]x[/red]" in render.text(table("[red]x[/red]"), 80)
    assert "\x1b[" not in render.text(table(), 80)
    assert "\x1b[1m" in render.text(table(), 80, colour=True)


def test_terminal_output_goes_to_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    render.print_terminal(table())
    assert "1.00 ± 0.10" in capsys.readouterr().out
