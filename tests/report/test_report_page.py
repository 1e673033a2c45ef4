"""The report folder: complete, self-contained, escaped, and made without torch."""

import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
from report_records import look, record, records, thumbnails

import muc
from muc.errors import UserError
from muc.report import write_report

VOID = {"meta", "img", "br", "link", "input", "hr", "wbr"}


class Page(HTMLParser):
    """Tags, attributes and text of a page; asserts that elements nest."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []
        self.ids: set[str] = set()
        self.alts: list[str | None] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.tags.append(tag)
        self.links += [v or "" for k, v in attrs if k in ("src", "href", "srcset", "action", "data")]
        self.ids |= {values["id"] or ""} if "id" in values else set()
        self.alts += [values.get("alt")] if tag == "img" else []
        assert not any(name.startswith("on") for name in values)
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] != "style":
            self.text += data


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    looks = {"retrain": look(3, seed=1), "alignment_calibration": look(3, seed=2)}
    return write_report(records(3), tmp_path_factory.mktemp("report") / "new", "A title", looks, thumbnails(3))


def test_all_files_are_there(report: Path) -> None:
    assert sorted(p.name for p in report.parent.iterdir()) == ["report.html", "results.json", "tables.md", "tables.tex"]
    assert json.loads((report.parent / "results.json").read_text()) == records(3)
    assert (report.parent / "tables.md").read_text().count("| **Alignment Calibration** |") == 1
    assert r"\textbf{Alignment Calibration}" in (report.parent / "tables.tex").read_text()


def test_the_page_is_self_contained(report: Path) -> None:
    text = report.read_text()
    page = Page(text)
    assert all(link.startswith(("data:image/png;base64,", "#")) for link in page.links)
    assert {link[1:] for link in page.links if link.startswith("#")} <= page.ids
    assert not re.search(r"https?:|//[a-z]|url\(|@import", re.sub(r'src="data:[^"]*"', "", text))
    assert "script" not in page.tags
    assert "link" not in page.tags


def test_the_page_can_be_read_without_seeing(report: Path) -> None:
    page = Page(report.read_text())
    assert len(page.alts) == 5  # two charts, the grid, and a figure for each look
    assert all(page.alts)
    assert page.tags.count("h1") == 1


def test_the_page_says_what_matters(report: Path) -> None:
    text = Page(report.read_text()).text
    for part in (
        "A title",
        "came closest to Retrain",
        "match Retrain",
        "NVIDIA H200",
        "2.11.0+cu128",
        "0, 1, 2",
        "4500",
    ):
        assert part in text
    assert "It does not show that they were forgotten" in text


def test_hostile_names_stay_text(tmp_path: Path) -> None:
    def hostile(where: str) -> str:
        return f'<script>alert("{where}")</script>$\\frac{{'

    where = {field: hostile(field) for field in ("data", "algorithm", "architecture")}
    env = {"device": hostile("device"), "date": hostile("date")}
    changes = {
        "run": hostile("run"),
        "seed": hostile("seed"),
        "env": env,
        "method_settings": {"a": hostile("settings")},
    }
    made = [record("retrain", **where), record("finetune", **where)]
    made[1] |= changes | {"method": hostile("method")}
    looks = {"finetune": look(2) | {"names": [hostile("name"), "b"]}}
    page = Page(write_report(made, tmp_path, hostile("title"), looks).read_text())
    assert "script" not in page.tags
    for part in (*where, "device", "run", "seed", "settings", "method", "title"):
        assert hostile(part) in page.text, part
    assert "<script" not in (tmp_path / "tables.md").read_text().replace("\\<", "")


def test_a_commit_is_shown_by_its_first_digits(tmp_path: Path) -> None:
    commits = [f"{i}" * 40 for i in range(2)]
    made = [record("finetune", env={"commit": commits[0]}), record("neggrad", env={"commit": f"{commits[1]}+"})]
    page = Page(write_report(made, tmp_path).read_text())
    assert f"{commits[0][:12]} / {commits[1][:12]}+" in page.text


def test_several_settings_are_sections(tmp_path: Path) -> None:
    made = [record("finetune", per_sample=None), record("neggrad", per_sample=None, data="svhn")]
    page = Page(write_report(made, tmp_path).read_text())
    assert {"setting-1", "setting-2"} <= page.ids
    assert "2 runs in 2 settings" in page.text


def test_a_single_record_makes_a_page(tmp_path: Path) -> None:
    bare = record("finetune", per_sample=None, env=None, method_settings=None)
    page = Page(write_report([bare], tmp_path).read_text())
    assert "cannot be said how close" in page.text
    assert "What was measured of each method: 1 run in 1 setting" in page.text
    assert "How close" not in page.text
    assert "AG held-out" not in page.text
    assert page.alts == []


def test_a_page_without_retrain_explains_its_average_gap(tmp_path: Path) -> None:
    made = [record(m, per_sample=None) for m in ("pretrain", "finetune")]
    for found in made:
        found["metrics"] |= {"held_out_EMIA": 50.0, "held_out_accuracy": 85.0, "held_out_CMIA": 40.0}
    text = write_report(made, tmp_path).read_text()
    assert "<dt>AG held-out</dt>" in text
    assert '<th scope="col">AG held-out</th>' in text
    assert "n/a" not in Page(text).text


def test_settings_that_were_left_open_are_not_shown(tmp_path: Path) -> None:
    made = [
        record("retrain", method_settings={"name": "retrain", "epochs": None, "learning_rate": None}),
        record("finetune", method_settings={"name": "finetune", "epochs": 10, "beta": None}),
    ]
    text = Page(write_report(made, tmp_path).read_text()).text
    assert "epochs = 10" in text
    assert "beta =" not in text
    assert "epochs = ," not in text


def test_nothing_is_written_when_something_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no evaluation records"):
        write_report([], tmp_path / "a")
    with pytest.raises(UserError, match="thumbnails"):
        write_report([record("finetune")], tmp_path / "a", looks={"x": look(3)}, thumbnails=thumbnails(2))
    assert not (tmp_path / "a").exists()


def test_reports_import_no_torch() -> None:
    code = (
        "import sys, muc.report.build, muc.report.sheet, muc.report.sweep_charts, muc.paper.t_tests; "
        "print([m for m in ('torch', 'torchvision', 'matplotlib.pyplot') if m in sys.modules])"
    )
    env = {"PYTHONPATH": str(Path(muc.__file__).parents[1]), "HOME": str(Path.home())}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env)
    assert done.stdout.strip() == "[]"
