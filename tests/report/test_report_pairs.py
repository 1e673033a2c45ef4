"""Reports of image-text models: their tables, the paper's MS-COCO beside ours, and words that fit pairs."""

from typing import Any

import pytest
from report_records import look, record, thumbnails

from muc import paper
from muc.report.cells import Table
from muc.report.page import page
from muc.report.tables import all_tables


def pair_records(data: str = "coco64", fraction: float = 0.1, seeds: int = 2) -> list[dict[str, Any]]:
    """Records whose similarities are the paper's."""
    made = []
    for seed in range(seeds):
        for method, row in paper.pair_rows("coco", 0.1).items():
            given = record(method, seed, data=data, algorithm="clip", architecture="open_clip/RN50", epochs=35)
            given["forget_fraction"] = fraction
            given["metrics"] = {
                **{name: row[name] for name in ("retain_similarity", "unlearn_similarity")},
                "test_similarity": 40.0 + seed,
                "FS": 0.1,
                "unlearn_AUC": 0.9 if method == "pretrain" else 0.5,
                "pair_AUC": 0.9,
                "image_to_text_R@1": 12.5,
                "RTE_minutes": 1.0,
            }
            made.append(given)
    return made


def column(table: Table, name: str) -> dict[str, Any]:
    return {row[0].text: row[table.columns.index(name)] for row in table.rows}


def test_the_papers_row_stands_beside_coco() -> None:
    table = all_tables(pair_records())[0]
    average = column(table, "AG")["Alignment Calibration"]
    assert (average.text, average.paper) == ("1.55 ± 0.00", "1.56")  # 1.555, rounded either way
    assert column(table, "Unlearn")["Fine-tune"].paper == "54.75 (4.91)"
    assert column(table, "Retain")["Retrain"].paper == "62.47"
    assert column(table, "Retain")["Original"].paper == "62.09"
    assert column(table, "Test")["Fine-tune"].paper is None
    assert "MS-COCO" in table.caption


@pytest.mark.parametrize("changes", [{"data": "glyph-pairs"}, {"fraction": 0.2}])
def test_the_paper_is_not_beside_what_it_did_not_do(changes: dict[str, Any]) -> None:
    table = all_tables(pair_records(**changes))[0]
    assert all(cell.paper is None for row in table.rows for cell in row)
    assert "MS-COCO" not in table.caption


def test_the_page_speaks_of_pairs() -> None:
    given = {"retrain": {**look(6), "of_pairs": True}, "neggrad": {**look(6), "of_pairs": True}}
    text = page(pair_records(), "Pairs", given, thumbnails(6))
    for said in (
        "a model that never saw the pairs",
        "How well can trained-on pairs be told apart",
        "What can be found",
        "Gaps against chance",
        "an image and its own caption",
        "Each square compares an image (column) with a caption (row)",
        "Test similarity",
        "<dt>R@k</dt>",
    ):
        assert said in text, said
    assert "<dt>EMIA</dt>" not in text
    assert "five metrics" not in text


def test_the_page_of_images_does_not() -> None:
    text = page([record(m) for m in ("pretrain", "retrain", "finetune")], "Images")
    assert "<dt>EMIA</dt>" in text
    assert "<dt>R@k</dt>" not in text
    assert "a model that never saw the images" in text


def test_pairs_share_marks_where_they_are_tied_and_show_short_times() -> None:
    given = pair_records(seeds=1)
    for found in given:
        found["metrics"]["RTE_minutes"] = 0.0123
        if found["method"] not in ("pretrain", "retrain"):
            found["metrics"] |= {"retain_similarity": 60.0, "unlearn_similarity": 55.0}
    table = all_tables(given)[0]
    assert {row[0].mark for row in table.rows} == {""}
    assert column(table, "RTE (min)")["Fine-tune"].text == "0.012"
    given[2]["metrics"]["unlearn_similarity"] = 54.0  # Retrain: 49.84
    marks = [row[0].mark for row in all_tables(given)[0].rows]
    assert marks == ["", "", "best", *["second"] * (len(given) - 3)]


def test_without_retrain_pairs_have_gaps_to_held_out_pairs() -> None:
    given = [r for r in pair_records(seeds=1) if r["method"] != "retrain"]
    table = all_tables(given)[0]
    assert table.title.startswith("What was measured: ")
    assert table.columns == ("Method", "FS", "Retain", "Unlearn", "Test", "RTE (min)")
    cells = [cell for row in table.rows for cell in row]
    assert not [cell for cell in cells if cell.gap or cell.text == "n/a" or "(" in (cell.paper or "")]
    assert "bracket" not in table.caption
    for found in given:
        found["metrics"] |= {"retain_similarity": 60.0, "unlearn_similarity": 50.0, "held_out_similarity": 44.0}
    given[0]["metrics"]["retain_similarity"] = 61.0
    table = all_tables(given)[0]
    # By hand: |60 - 61| and |50 - 44|.
    assert column(table, "AG held-out")["Fine-tune"].text == "3.50"
    assert "treats the pairs to forget as held-out pairs" in table.caption
    assert "AG held-out" not in all_tables(pair_records())[0].columns
