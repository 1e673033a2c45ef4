"""Tables of image-text models: how close to Retrain, and what can be found and told apart."""

from typing import Any

from muc import paper
from muc.evaluation.gaps import PAIR_METRICS
from muc.report.cells import NOT_MEANT, Cell, Mark, Table, brief_number, number, without_unknown
from muc.report.group import Comparison, Entry, Stat
from muc.report.held_out import HELD_OUT, held_out_gaps, held_out_note, results_title
from muc.report.ranks import marks, rank_cells, rank_name, rank_note
from muc.report.words import entry_name, metric_name, seed_count, setting_name

SIMILARITIES = ("retain_similarity", "unlearn_similarity", "test_similarity")


def pair_results_table(comparison: Comparison) -> Table:
    """Image-text similarities with their gaps to Retrain, where there is one; the smallest average gap is marked."""
    seeds = seed_count(max(len(e.seeds) for e in comparison.entries))
    printed = paper.pair_rows(comparison.setting.data, comparison.setting.forget_fraction)
    ranked = rank_cells(comparison, {m: r["avg_gap"] for m, r in printed.items()})
    gaps_note = (
        " In brackets: the gap to Retrain of the same seed; the goal is to match Retrain, so smaller gaps are better. "
        "AG averages the gaps on kept pairs and on those to forget, as the paper's does."
    )
    columns = ("AG", HELD_OUT, rank_name(printed), "AGP", "RTE (min)")
    table = Table(
        title=f"{results_title(comparison)}: {setting_name(comparison.setting)}",
        caption=f"Over {seeds}. Mean cosine of images and their captions, times 100, on the pairs that are kept, those "
        "to forget, and test pairs."
        + (gaps_note if comparison.judged else held_out_note(comparison))
        + (" Lines marked 'paper' repeat its values for MS-COCO; it does not name its architecture." if printed else "")
        + (rank_note(comparison, printed) if comparison.judged else ""),
        columns=("Method", "FS", *map(metric_name, SIMILARITIES), *columns),
        rows=tuple(
            _results_row(e, mark, cell, gap, _paper_cells(printed.get(e.method), comparison.judged), comparison.judged)
            for e, mark, cell, gap in zip(
                comparison.entries, marks(comparison), ranked, held_out_gaps(comparison), strict=True
            )
        ),
    )
    return without_unknown(table, (HELD_OUT,) if comparison.judged else columns)


def _results_row(
    entry: Entry, mark: Mark, rank: Cell, held_out: Stat | None, printed: dict[str, str], judged: bool
) -> tuple[Cell, ...]:
    exact = entry.method == "retrain"
    return (
        Cell(entry_name(entry), mark=mark),
        Cell(number(entry.metric("FS"), 4)),
        *(
            Cell(
                number(entry.metric(name), 2),
                None if exact or not judged else number(entry.gap(f"{name}_gap"), 2),
                printed.get(name),
            )
            for name in SIMILARITIES
        ),
        Cell(NOT_MEANT) if exact else Cell(number(entry.gap("AG"), 2), paper=printed.get("AG")),
        Cell(number(held_out, 2)),
        rank,
        Cell(NOT_MEANT) if exact else Cell(number(entry.gap("AGP"), 2)),
        # The original's time is that of its training: no unlearning took place.
        Cell(NOT_MEANT if entry.method == "pretrain" else brief_number(entry.metric("RTE_minutes"), 2)),
    )


def _paper_cells(row: dict[str, Any] | None, gaps: bool) -> dict[str, str]:
    """{column: what the paper prints there}, its gaps in brackets."""
    if row is None:
        return {}
    gap = row["gaps"] if gaps and row["gaps"] and row["method"] != "retrain" else None
    cells = {name: f"{row[name]:.2f}" + (f" ({gap[name]:.2f})" if gap else "") for name in PAIR_METRICS}
    return cells | ({"AG": f"{row['avg_gap']:.2f}"} if gap else {})


def pair_membership_table(comparison: Comparison) -> Table:
    """How well trained-on pairs, and those to forget, can be told from test pairs."""
    columns = {
        "Kept vs test AUC": ("pair_AUC", 3),
        "Kept, TPR at 1 % FPR": ("pair_TPR_at_1_FPR", 2),
        "To forget vs test AUC": ("unlearn_AUC", 3),
        "To forget, TPR at 1 % FPR": ("unlearn_TPR_at_1_FPR", 2),
    }
    return Table(
        title=f"How well can trained-on pairs be told apart: {setting_name(comparison.setting)}",
        caption="The attack tells trained-on pairs from test pairs by their similarity alone; AUC 0.5 is guessing. "
        "After unlearning, 'to forget vs test' should be what it is for Retrain.",
        columns=("Method", *columns),
        rows=_rows(comparison, columns),
    )


def retrieval_table(comparison: Comparison) -> Table:
    """What the model can find among test pairs."""
    columns = {
        **{f"Image → text R@{k}": (f"image_to_text_R@{k}", 2) for k in (1, 5, 10)},
        **{f"Text → image R@{k}": (f"text_to_image_R@{k}", 2) for k in (1, 5, 10)},
        "Zero-shot": ("zero_shot", 2),
    }
    columns = {k: v for k, v in columns.items() if any(e.metric(v[0]) for e in comparison.entries)}
    return Table(
        title=f"What can be found: {setting_name(comparison.setting)}",
        caption="R@k: share (%) of test images whose own text is among the k closest, and the other way round. "
        "Zero-shot: share (%) of test images that are closest to the text of their own class.",
        columns=("Method", *columns),
        rows=_rows(comparison, columns),
    )


def _rows(comparison: Comparison, columns: dict[str, tuple[str, int]]) -> tuple[tuple[Cell, ...], ...]:
    return tuple(
        (Cell(entry_name(e)), *(Cell(number(e.metric(key), digits)) for key, digits in columns.values()))
        for e in comparison.entries
    )
