"""The paper's p-values from its summary statistics."""

import pytest

from muc import paper
from muc.paper.t_tests import t_tests


def test_known_answers() -> None:
    exact = {row["N"]: row["ours"] for row in t_tests() if row["test"] == "FS, exact unlearning"}
    assert list(exact) == [5, 10, 15, 20]
    assert list(exact.values()) == pytest.approx([0.3322, 0.1617, 0.0847, 0.0459], abs=5e-4)
    negative = {row["N"]: row["ours"] for row in t_tests() if row["test"].startswith("negative alignment")}
    assert negative[5] == pytest.approx(0.0168, abs=5e-5)  # Welch's test would give 0.0177


def test_all_printed_values_are_met() -> None:
    rows = t_tests()
    assert len(rows) == 12
    for row in rows:
        if row["relation"] == "=":
            assert row["ours"] == pytest.approx(row["printed"], abs=0.003), row
        else:
            assert row["ours"] <= row["printed"], row


def test_they_can_be_shown(capsys: pytest.CaptureFixture[str]) -> None:
    paper.print_t_tests()
    shown = capsys.readouterr().out
    assert "0.3325" in shown
    assert "≤ 0.0001" in shown
