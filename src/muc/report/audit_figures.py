"""The audit's figures: matrices with the two groups marked, chance against what was found, and effects."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from muc.audit.hold_back import HoldBack
from muc.audit.memory import Memory
from muc.audit.power import AC, RETRAIN
from muc.report.canvas import INK, MUTED, PALETTE, png, tidy
from muc.report.heatmaps import CHANGE, CHANGE_LABEL, SIMILARITY, around_zero, draw_matrix, layout_of_maps, scale_below

GROUPS = (("to forget", "-"), ("held back", (0, (4, 2))))
TRACES = ("FS", "negative alignment")


def group_heatmaps(before: np.ndarray, after: np.ndarray, forget: np.ndarray, narrow: bool = False) -> bytes:
    """PNG: AM before and after and AGM, images to forget first, the two groups framed and named.

    Images are numbered from 1 in the order given: file names, cut to fit, often differ only in what is cut off.
    """
    order = np.concatenate([np.flatnonzero(forget), np.flatnonzero(~forget)])
    first, second = (m[np.ix_(order, order)] for m in (before, after))
    labels = [str(i + 1) for i in order]
    figure = Figure(figsize=(5, 16) if narrow else (13, 5.8), layout=layout_of_maps())
    axes = figure.subplots(3, 1) if narrow else figure.subplots(1, 3)
    scale = min(first.min(), second.min()), max(first.max(), second.max())
    shown = draw_matrix(axes[0], first, "Before", SIMILARITY, scale, labels, None)
    draw_matrix(axes[1], second, "After", SIMILARITY, scale, labels, None)
    gap = first - second
    change = draw_matrix(axes[2], gap, "Change (before − after)", CHANGE, around_zero([gap]), labels, None)
    for ax in axes:
        _frame_groups(ax, int(forget.sum()), len(order))
    scale_below(
        figure, shown, [axes[1]] if narrow else list(axes[:2]), "different  ←  similarity of two views  →  alike"
    )
    scale_below(figure, change, [axes[2]], CHANGE_LABEL)
    return png(figure)


def _frame_groups(ax: Axes, n_forget: int, n: int) -> None:
    """Solid around the images to forget, dashed around the controls: told apart without colour."""
    for (name, style), start, size in zip(GROUPS, (0, n_forget), (n_forget, n - n_forget), strict=True):
        corner = (start - 0.5, start - 0.5)
        edges = (("white", 5.0, "-"), (INK, 2.4, style))  # a light edge below, so that it shows on dark squares
        for colour, width, line in edges:
            frame = Rectangle(corner, size, size, fill=False, edgecolor=colour, linewidth=width, linestyle=line)
            ax.add_patch(frame)
        ax.text(n - 0.3, start + size / 2 - 0.5, name, rotation=270, ha="left", va="center", fontsize=10, color=INK)


def null_histograms(values: np.ndarray, evidence: HoldBack, narrow: bool = False) -> bytes:
    """PNG: (2, s) contrasts of all splits, the owner's first: where among the others does it lie?"""
    figure = Figure(figsize=(5, 6.4) if narrow else (10, 3.4), layout="constrained")
    axes = figure.subplots(2, 1) if narrow else figure.subplots(1, 2)
    found = (evidence.FS, evidence.negative_alignment)
    for ax, trace, row, contrast in zip(axes, TRACES, values, found, strict=True):
        low, high = float(row.min()), float(row.max())
        spread = max(high - low, 1e-9)
        width = spread / 40
        first = row[0] - width * (np.ceil((row[0] - low) / width) + 1)
        edges = first + width * np.arange(45) - 1e-9 * spread  # an edge lies at the owner's split, so none is cut
        counts, _ = np.histogram(row, edges)
        beyond = edges[:-1] + width / 2 > row[0]
        ax.bar(edges[:-1], counts, np.diff(edges), align="edge", color="#c3c8d0", edgecolor="white", linewidth=0.4)
        ax.bar(
            edges[:-1][beyond],
            counts[beyond],
            np.diff(edges)[beyond],
            align="edge",
            facecolor=PALETTE[1],
            hatch="////",
            edgecolor=INK,
            linewidth=0.4,
        )
        ax.axvline(row[0], color=INK, linewidth=1.8)
        left = row[0] > (low + high) / 2
        ax.annotate(
            f"your split\n{row[0]:+.4f}, p = {contrast.p:.2g}".replace("-", "−"),
            (row[0], 0.97),
            (-6 if left else 6, 0),
            xycoords=("data", "axes fraction"),
            textcoords="offset points",
            ha="right" if left else "left",
            va="top",
            fontsize=9,
            color=INK,
        )
        ax.set_ylim(0, 1.3 * counts.max())  # room for the note
        ax.set_title(f"Contrast in {trace}", fontsize=11, fontweight="bold", color=INK)
        ax.set_xlabel("cosine", color=MUTED)
        tidy(ax)
    axes[0].set_ylabel("number of splits", color=MUTED)
    return png(figure)


def effect_chart(evidence: HoldBack, memory: Memory | None, narrow: bool = False) -> bytes:
    """PNG: both contrasts with their intervals, beside none, what was remembered, and what the paper's methods do."""
    figure = Figure(figsize=(5, 3.6) if narrow else (10, 2.8), layout="constrained")
    ax = figure.subplots()
    found = (evidence.FS, evidence.negative_alignment)
    references = ((AC, "D", "Alignment Calibration in the paper"), (RETRAIN, "s", "Retrain in the paper"))
    for y, contrast in enumerate(found):
        ax.plot([contrast.low, contrast.high], [y, y], color=INK, linewidth=2, solid_capstyle="butt")
        ax.plot([contrast.low, contrast.high], [y, y], "|", color=INK, markersize=12)
        ax.plot(contrast.value, y, "o", color=INK, markersize=8, label="this audit" if y == 0 else None)
        for effect, marker, name in references:
            value = (effect.fs, effect.negative_alignment)[y]
            ax.plot(value, y + 0.28, marker, markerfacecolor="none", markeredgecolor=PALETTE[0], markersize=8)
            if y == 0:
                ax.plot([], [], marker, markerfacecolor="none", markeredgecolor=PALETTE[0], label=name)
    if memory is not None:
        ax.fill_betweenx([-0.45, 0.45], memory.low, memory.high, facecolor=PALETTE[1], alpha=0.3, hatch="////")
        ax.plot([], [], "s", color=PALETTE[1], alpha=0.5, label="remembered before")
    ax.axvline(0, color=INK, linestyle=(0, (4, 3)), linewidth=1.2)
    ax.set_yticks(range(2), ["FS", "negative\nalignment"], color=INK)
    ax.set_ylim(1.6, -0.6)
    label = "change beyond that of the controls, in cosine,", f"with {evidence.confidence:.0%} interval (dashed: none)"
    ax.set_xlabel(("\n" if narrow else " ").join(label), color=MUTED)
    figure.legend(ncols=1 if narrow else 4, loc="outside upper right", frameon=False, fontsize=9)
    tidy(ax)
    return png(figure)
