"""Charts of one setting: how far each method is from Retrain and why, and how it treats the images to forget."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from muc.report.canvas import INK, MUTED, PALETTE, plain, png, tidy
from muc.report.group import Comparison, Entry
from muc.report.noise import noise_of
from muc.report.words import method_name, metric_name


def gap_chart(comparison: Comparison) -> bytes | None:
    """PNG: a bar for each method, as long as its average gap, made up of what each metric adds; ± SD over seeds."""
    entries = [e for e in comparison.entries if e.method != "retrain" and e.gap("AG")]
    if not entries:
        return None
    figure = Figure(figsize=(10, 0.52 * len(entries) + 1.9), layout="constrained")
    ax = figure.subplots()
    left = np.zeros(len(entries))
    totals = [g for e in entries if (g := e.gap("AG"))]
    longest = max(g.mean + (g.sd or 0) for g in totals)
    for metric, colour in zip(comparison.metrics, PALETTE, strict=False):
        share = np.array([_mean(e, f"{metric}_gap") / len(comparison.metrics) for e in entries])
        ax.barh(
            range(len(entries)),
            share,
            0.62,
            left,
            color=colour,
            edgecolor="white",
            linewidth=1,
            label=metric_name(metric),
        )
        for y, (start, width, total) in enumerate(zip(left, share, totals, strict=True)):
            room = min(width, total.mean - (total.sd or 0) - start)  # what the error bar leaves free
            if room > 0.055 * longest:
                ink = "white" if colour == PALETTE[0] else "black"
                ax.text(start + room / 2, y, metric_name(metric), ha="center", va="center", fontsize=8, color=ink)
        left += share
    for y, entry in enumerate(entries):
        _total(ax, y, entry, longest)
    if (noise := noise_of(comparison)) is not None:
        ax.axvline(noise.between["AG"], color=INK, linestyle=(0, (4, 3)), linewidth=1.3)
        at = (noise.between["AG"], 1.0)
        note = "two Retrains with different seeds"
        ax.annotate(note, at, (4, 3), xycoords=("data", "axes fraction"), textcoords="offset points", fontsize=9)
    ax.set_yticks(range(len(entries)), [_label(e) for e in entries], fontsize=10, color=INK)
    ax.set_ylim(len(entries) - 0.45, -0.55)
    ax.set_xlim(0, 1.17 * (longest or 1.0))  # all gaps may be zero
    unit = "points of similarity × 100" if comparison.of_pairs else "percentage points"
    ax.set_xlabel(f"average gap to Retrain, {unit} (shorter is closer)", color=MUTED)
    figure.legend(ncols=5, loc="outside lower right", frameon=False, fontsize=9, handlelength=1)
    tidy(ax)
    return png(figure)


def _label(entry: Entry) -> str:
    return "\n".join(plain(part, 44) for part in (method_name(entry.method), entry.variant) if part)


def _mean(entry: Entry, key: str) -> float:
    found = entry.gap(key)
    return found.mean if found else 0.0


def _total(ax: Axes, y: int, entry: Entry, longest: float) -> None:
    found = entry.gap("AG")
    assert found is not None
    if found.sd is not None:
        ax.errorbar(found.mean, y, xerr=found.sd, color=INK, capsize=3.5, linewidth=1.3)
    end = found.mean + (found.sd or 0) + 0.012 * longest
    ax.text(end, y, f"{found.mean:.2f}", va="center", fontsize=10, fontweight="bold", color=INK)


def alignment_histograms(comparison: Comparison) -> bytes | None:
    """PNG: how alike two views of an image to forget look to each method's model, beside Retrain's and the original's.

    Of a search, the setting closest to Retrain. None without per-image values or a Retrain to compare with.
    """
    retrain, original = _alignments(comparison.entry("retrain")), _alignments(comparison.entry("pretrain"))
    closest = {e.method: e for e in reversed(comparison.ranked())}  # of a search, the closest setting only
    methods = [(e, values) for e in comparison.entries if e in closest.values() and len(values := _alignments(e))]
    if not len(retrain) or not methods:
        return None
    everything = np.concatenate([retrain, original, *(values for _, values in methods)])
    # A few strays must not squeeze the rest: the edges cut off one image in a thousand.
    low, high = np.quantile(everything, [0.001, 0.999] if len(everything) >= 1000 else [0, 1])
    bins = np.linspace(low, high if high > low else low + 1e-3, 41)
    columns = min(3, len(methods))
    rows = -(-len(methods) // columns)
    figure = Figure(figsize=(10 if columns > 1 else 5, 2.5 * rows + 0.5), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
    for ax, (entry, values) in zip(axes.flat, methods, strict=False):
        ax.hist(retrain, bins, density=True, color="#c3c8d0", label="Retrain")
        if len(original):
            ax.hist(original, bins, density=True, histtype="step", color=INK, linestyle=":", label="Original")
        ax.hist(values, bins, density=True, histtype="step", color=PALETTE[0], linewidth=1.9, label="this method")
        ax.set_title(_label(entry), fontsize=10 if not entry.variant else 9, fontweight="bold", color=INK)
        ax.set_yticks([])
        tidy(ax)
        ax.tick_params(labelbottom=True)
    # An original that finds all its images alike is one tall column: it is cut off before it hides the rest.
    tallest = max(np.histogram(v, bins, density=True)[0].max() for v in (retrain, *(v for _, v in methods)))
    axes[0, 0].set_ylim(0, min(axes[0, 0].get_ylim()[1], 1.6 * tallest))
    for ax in axes.flat[len(methods) :]:
        ax.set_visible(False)
    what = "an image to forget and its caption" if comparison.of_pairs else "two views of an image to forget"
    figure.supxlabel(f"similarity of {what}", fontsize=10, color=MUTED)
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper right", ncols=3, frameon=False)
    return png(figure)


def _alignments(entry: Entry | None) -> np.ndarray:
    """Of all seeds together."""
    parts = [(r.get("per_sample") or {}).get("alignment", []) for r in entry.records] if entry else []
    return np.array([value for part in parts for value in part], dtype=float)
