"""Evaluation records -> tables of text, ready for any renderer. Pure functions."""

from typing import Any

from muc import paper
from muc.evaluation.gaps import METRICS
from muc.report.cells import MISSING, NOT_MEANT, Cell, Mark, Table, brief_number, number, without_unknown
from muc.report.group import Comparison, Entry, Record, Stat, compare, stat
from muc.report.held_out import HELD_OUT, held_out_gaps, held_out_note, results_title
from muc.report.noise import Noise, noise_of
from muc.report.pair_tables import pair_membership_table, pair_results_table, retrieval_table
from muc.report.ranks import marks, rank_cells, rank_name, rank_note
from muc.report.words import different, entry_name, metric_name, seed_count, setting_name


def all_tables(records: list[Record]) -> list[Table]:
    """All tables of all settings."""
    return [table for comparison in compare(records) for table in tables_of(comparison)]


def tables_of(comparison: Comparison) -> list[Table]:
    if comparison.of_pairs:
        made = [
            pair_results_table(comparison),
            pair_membership_table(comparison),
            retrieval_table(comparison),
            noise_table(comparison),
        ]
    else:
        made = [results_table(comparison), membership_table(comparison), noise_table(comparison)]
    return [table for table in made if table is not None]


def results_table(comparison: Comparison) -> Table:
    """Every method's metrics with their gaps to Retrain, where there is one; the smallest average gap is marked."""
    s = comparison.setting
    where = (s.data, s.algorithm, s.architecture, s.forget_fraction)
    printed, scores = paper.reference_rows(*where), paper.forgetting_scores(*where)
    most = max(len(e.records) for e in comparison.entries)
    ranked = rank_cells(comparison, {m: r["avg_gap"] for m, r in printed.items()})
    rows = [
        _results_row(e, most, mark, cell, gap, _paper_cells(e, printed, scores, comparison.judged), comparison.judged)
        for e, mark, cell, gap in zip(
            comparison.entries, marks(comparison), ranked, held_out_gaps(comparison), strict=True
        )
    ]
    columns = ("AG", HELD_OUT, rank_name(printed), "AG cls", "AGP", "RTE (min)", "Memory (GB)")
    table = Table(
        title=f"{results_title(comparison)}: {setting_name(s)}",
        caption=_results_caption(comparison, printed),
        columns=("Method", "FS", *METRICS, *columns),
        rows=tuple(rows),
    )
    # On a CPU nobody knows the memory.
    return without_unknown(table, (HELD_OUT, "Memory (GB)") if comparison.judged else columns)


def _results_caption(comparison: Comparison, printed: dict[str, dict[str, Any]]) -> str:
    seeds = seed_count(max(len(e.seeds) for e in comparison.entries))
    several = any(len(e.records) > 1 for e in comparison.entries)
    text = f"Over {seeds}{', mean ± standard deviation' if several else ''}."
    if not comparison.judged:
        text += held_out_note(comparison)
        return f"{text} {_paper_note(comparison, printed)}" if printed else text
    text += (
        " In brackets: the gap to Retrain of the same seed; the goal is to match Retrain, so smaller gaps are better. "
        "AG, AG cls and AGP average the gaps."
    )
    if any(e.average_gap_of_means() is not None for e in comparison.entries):
        text += (
            " 'Of means' is AG between means over seeds, in which chance partly cancels; the paper's is of that kind."
        )
    text += rank_note(comparison, printed)
    return f"{text} {_paper_note(comparison, printed)}" if printed else text


def _paper_note(comparison: Comparison, printed: dict[str, dict[str, Any]]) -> str:
    """What the paper did otherwise, so that nobody takes unlike for like."""
    s, record = comparison.setting, comparison.entries[0].records[0]
    images = record.get("forget_images", 0) + record.get("retain_images", 0)
    differs = []
    if s.epochs != paper.EPOCHS:
        differs.append(f"for {paper.EPOCHS} epochs (here {s.epochs})")
    if images and images != paper.TRAINING_IMAGES[s.data]:
        differs.append(f"on {paper.TRAINING_IMAGES[s.data]:,} images (here {images:,})")
    shown = [row for method, row in printed.items() if comparison.entry(method)]
    wrong = [note for row in shown for note in row["corrected"].values()]
    note = "Lines marked 'paper' repeat the paper's values"
    note = f"{note}; it trained {' and '.join(differs)}." if differs else f"{note} for this setting."
    return f"{note} †: corrected, the printed one does not fit its others. {' '.join(wrong)}" if wrong else note


def _results_row(
    entry: Entry, most: int, mark: Mark, rank: Cell, held_out: Stat | None, printed: dict[str, str], judged: bool
) -> tuple[Cell, ...]:
    name = entry_name(entry) + (f" [n = {len(entry.records)}]" if len(entry.records) < most else "")
    of_means = entry.average_gap_of_means()

    def cell(column: str, stat: Stat | None, digits: int, gap: str | None = None, mark: Mark = "") -> Cell:
        return Cell(number(stat, digits), gap, printed.get(column), mark)

    time = Cell(brief_number(entry.metric("RTE_minutes"), 2), paper=printed.get("RTE (min)"))

    return (
        Cell(name, mark=mark),
        cell("FS", entry.metric("FS"), 4),
        *(cell(m, entry.metric(m), 2, _gap_text(entry, f"{m}_gap") if judged else None) for m in METRICS),
        Cell(NOT_MEANT)
        if entry.method == "retrain"
        else cell("AG", entry.gap("AG"), 2, None if of_means is None else f"of means {of_means:.2f}", mark),
        Cell(number(held_out, 2)),
        rank,
        *(
            Cell(NOT_MEANT) if entry.method == "retrain" else cell(column, entry.gap(key), 2)
            for column, key in (("AG cls", "AG_classifier"), ("AGP", "AGP"))
        ),
        # The original's time is that of its training: no unlearning took place.
        Cell(NOT_MEANT) if entry.method == "pretrain" else time,
        Cell(NOT_MEANT) if entry.method == "pretrain" else cell("Memory (GB)", entry.metric("peak_memory_GB"), 2),
    )


def _gap_text(entry: Entry, key: str) -> str | None:
    return None if entry.method == "retrain" else number(entry.gap(key), 2)


def _paper_cells(entry: Entry, rows: dict[str, dict[str, Any]], scores: dict[str, float], gaps: bool) -> dict[str, str]:
    """{column: what the paper prints there}, its gaps in brackets."""
    if entry.method not in rows:
        return {}
    row = rows[entry.method]
    cells = {m: f"{row[m]:.2f}" + (f" ({row['gaps'][m]:.2f})" if gaps and row["gaps_printed"] else "") for m in METRICS}
    for column, key in (("AG", "avg_gap"), ("AGP", "agp"), ("RTE (min)", "rte_minutes")):
        if row[key] is not None:
            cells[column] = f"{row[key]:.2f}"
    cells |= {column: f"{cells[column]}†" for column in row["corrected"]}
    if entry.method in scores:
        cells["FS"] = f"{scores[entry.method]:.4f}"
    return cells


def settings_table(comparison: Comparison) -> Table:
    """With what each method was run."""
    return Table(
        title=f"Settings: {setting_name(comparison.setting)}",
        caption="Of every method; several values where they differ between seeds.",
        columns=("Method", "Settings"),
        rows=tuple((Cell(entry_name(e)), Cell(facts)) for e in comparison.entries if (facts := method_facts(e))),
    )


def method_facts(entry: Entry) -> str:
    """The method's settings, but not those left open; several values where they were tuned for each seed."""
    settings = [r.get("method_settings") or {} for r in entry.records]
    names = [name for name in dict.fromkeys(n for s in settings for n in s) if name != "name"]
    facts = {name: different((s.get(name) for s in settings), " / ") for name in names}
    return ", ".join(f"{name} = {value}" for name, value in facts.items() if value)


BEYOND = {"EMIA beyond held-out": ("EMIA", 2), "FS beyond held-out": ("FS", 4)}
"""Columns: a metric of the images to forget less the same of held-out images."""


def membership_table(comparison: Comparison) -> Table:
    """The threshold-free side of EMIA: how well the attack works at all, and what it says of the images to forget."""
    columns = {
        "Kept vs test AUC": ("EMIA_AUC", 3),
        "To forget vs test AUC": ("unlearn_AUC", 3),
        "TPR at 1 % FPR": ("EMIA_TPR_at_1_FPR", 2),
        "Attack accuracy": ("EMIA_accuracy", 2),
    }
    rows = [
        (
            Cell(entry_name(e)),
            *(Cell(number(e.metric(key), digits)) for key, digits in columns.values()),
            *(_beyond_held_out(e, key, digits) for key, digits in BEYOND.values()),
            Cell(NOT_MEANT if e.method == "retrain" else number(e.gap("AG_auc"), 2), mark=mark),
        )
        for e, mark in zip(comparison.entries, marks(comparison, "AG_auc"), strict=True)
    ]
    noise = noise_of(comparison)
    floor = noise.between.get("AG_auc") if noise else None
    gaps_note = ""
    if comparison.judged:
        gaps_note = " AG auc is the average gap with this AUC (in points) in the place of EMIA, and without CMIA"
        gaps_note += f"; two Retrains with different seeds are {floor:.2f} apart by it." if floor is not None else "."
    table = Table(
        title=f"How well can members be told apart: {setting_name(comparison.setting)}",
        caption="AUC 0.5 and accuracy 50 % are guessing. EMIA turns one threshold of this attack into a number and "
        "jumps where the attack is weak; these values do not. After unlearning, 'to forget vs test' should be what it "
        f"is for Retrain.{_beyond_note(comparison)}{gaps_note}",
        columns=("Method", *columns, *BEYOND, "AG auc"),
        rows=tuple(rows),
    )
    return without_unknown(table, (*BEYOND,) if comparison.judged else (*BEYOND, "AG auc"))


def _beyond_note(comparison: Comparison) -> str:
    if all(_difference(r, key) is None for e in comparison.entries for r in e.records for key, _ in BEYOND.values()):
        return ""
    return (
        " 'Beyond held-out' is a value of the images to forget less that of held-out images: what a method does to all "
        f"images, and where the threshold fell, cancels{' (in brackets the gap to Retrain)' * comparison.judged}."
    )


def _beyond_held_out(entry: Entry, key: str, digits: int) -> Cell:
    """Of a metric, with the gap to Retrain; earlier records have none for held-out images."""
    own = [_difference(r, key) for r in entry.records]
    pairs = [(v, _difference(t, key)) for v, t in zip(own, entry.retrains, strict=True) if t]
    apart = stat(abs(a - b) for a, b in pairs if a is not None and b is not None)
    return Cell(number(stat(own), digits), number(apart, digits) if apart else None)


def _difference(record: Record, key: str) -> float | None:
    value, held_out = record["metrics"].get(key), record["metrics"].get(f"held_out_{key}")
    return None if value is None or held_out is None else value - held_out


def noise_table(comparison: Comparison) -> Table | None:
    """Gaps in units of the noise floor; None where there are not two Retrain seeds to know it from."""
    noise, names = noise_of(comparison), comparison.metrics
    if noise is None:
        return None

    floor = (Cell("Noise floor (points)"), *(Cell(f"{noise.sd[m]:.2f}") for m in names), Cell(NOT_MEANT))
    pairs = (Cell("Retrain vs Retrain"), *_ratios({m: noise.between[f"{m}_gap"] for m in names}, noise, names))
    rows = [floor, pairs]
    for entry in comparison.entries:
        stats = {m: entry.gap(f"{m}_gap") for m in names}
        if entry.method != "retrain" and any(stats.values()):
            rows.append((Cell(entry_name(entry)), *_ratios({m: s.mean for m, s in stats.items() if s}, noise, names)))
    return Table(
        title=f"Gaps against chance: {setting_name(comparison.setting)}",
        caption=f"Each gap divided by the noise floor, the standard deviation of Retrain over {noise.seeds} seeds"
        f"{', so few that the floor itself is rough' if noise.seeds < 5 else ''}. "
        f"'Retrain vs Retrain' is how far two Retrains with other seeds{'' if noise.one_request else ' and requests'} "
        "are from each other: a method at or below that line is as close to its Retrain as that. Whether two methods "
        "differ is another question, which their gaps seed by seed answer.",
        columns=("Method", *map(metric_name, names), "Mean"),
        rows=tuple(rows),
    )


def _ratios(gap: dict[str, float], noise: Noise, names: tuple[str, ...]) -> tuple[Cell, ...]:
    """Gaps over the noise floor and their mean; a metric that does not vary at all has no ratio."""
    found = {m: gap[m] / noise.sd[m] for m in names if m in gap and noise.sd.get(m)}
    mean = sum(found.values()) / len(found) if found else None
    return tuple(Cell(MISSING if r is None else f"{r:.1f}×") for r in (*map(found.get, names), mean))
