"""Figures of what models do to the images to forget: alignment between them, and the membership attack's threshold."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from muc.report.canvas import GRID, INK, MUTED, PALETTE, plain, png, tidy
from muc.report.heatmaps import CHANGE, draw_matrix
from muc.report.words import method_name

HATCH = "///"  # tells the highlighted bar from the others in grey


def negative_alignment_chart(bars: Mapping[str, tuple[float, float]], highlighted: str) -> bytes:
    """PNG: {method: (mean, SD)} of the gap of negative alignment, a bar each with ± SD."""
    figure = Figure(figsize=(10, 0.55 * len(bars) + 1.5), layout="constrained")
    ax = figure.subplots()
    for y, (method, (mean, sd)) in enumerate(bars.items()):
        chosen = method == highlighted
        colour, hatch = (PALETTE[1], HATCH) if chosen else (PALETTE[0], None)
        ax.barh(y, mean, 0.62, color=colour, hatch=hatch, edgecolor=INK if chosen else colour, linewidth=0.8)
        ax.errorbar(mean, y, xerr=sd, color=INK, capsize=3.5, linewidth=1.3)
        text = f"{mean:+.4f}".replace("-", "−")
        ax.annotate(text, (1.0, y), xycoords=("axes fraction", "data"), va="center", fontsize=10, fontweight="bold")
    ax.axvline(0, color=INK, linewidth=1)
    ax.set_yticks(range(len(bars)), [plain(method_name(m)) for m in bars], fontsize=10)
    ax.set_ylim(len(bars) - 0.45, -0.55)
    ax.set_xlabel(
        "mean similarity of two images to forget:  more alike than before  ←  0  →  less alike than before", color=MUTED
    )
    tidy(ax)
    return png(figure)


def difference_chart(matrix: Sequence[Sequence[float]], names: Sequence[str], title: str, label: str) -> bytes:
    """PNG: one matrix of differences around zero; `label` says what the two directions mean."""
    values = np.array(matrix, dtype=float)
    most = max(float(abs(values).max()), 1e-6)
    figure = Figure(figsize=(5.6, 6.2), layout="constrained")
    ax = figure.subplots()
    shown = draw_matrix(ax, values, plain(title, 60), CHANGE, (-most, most), [plain(n, 12) for n in names], None)
    figure.colorbar(shown, ax=ax, label=label, orientation="horizontal", shrink=0.9, aspect=30, pad=0.03)
    return png(figure)


def threshold_chart(curves: Mapping[str, Sequence[Mapping[str, Any]]]) -> bytes:
    """PNG: {method: one curve a seed} of the attack's accuracy and of EMIA over the threshold, a panel each.

    A curve has arrays `threshold`, `accuracy` and `emia` (%), `as_good` where the threshold cannot be told from the
    best, and the point (threshold, EMIA) that was `taken`.
    """
    columns = min(3, len(curves))
    rows = -(-len(curves) // columns)
    figure = Figure(figsize=(3.6 * columns + 0.4, 2.7 * rows + 0.9), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
    for ax, (method, seeds) in zip(axes.flat, curves.items(), strict=False):
        for curve in seeds:
            t, good = curve["threshold"], np.where(curve["as_good"], curve["emia"], np.nan)
            ax.plot(t, good, color="#c3c8d0", linewidth=8, solid_capstyle="round", label="equally good thresholds")
            ax.plot(t, curve["emia"], color=PALETTE[0], linewidth=1.8, label="EMIA")
            ax.plot(t, curve["accuracy"], "--", color=INK, linewidth=1.3, label="attack accuracy")
            ax.plot(*curve["taken"], "o", color=PALETTE[1], mec=INK, ms=7, zorder=4, label="threshold taken")
        ax.set_title(plain(method_name(method)), fontsize=10, fontweight="bold", color=INK)
        ax.spines[["top", "right"]].set_visible(False)
        ax.tick_params(length=0, colors=MUTED, labelsize=9, labelbottom=True, labelleft=True)
        ax.grid(color=GRID, linewidth=0.8)
        ax.set_axisbelow(True)
    for ax in axes.flat[len(curves) :]:
        ax.set_visible(False)
    axes[0, 0].set_xlim(*_moving([curve for seeds in curves.values() for curve in seeds]))
    axes[0, 0].set_ylim(-4, 104)
    figure.supxlabel("threshold on the alignment of an image's views", fontsize=10, color=MUTED)
    figure.supylabel("%", fontsize=10, color=MUTED, rotation=0)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles[:4], labels[:4], loc="outside upper right", ncols=4, frameon=False)
    return png(figure)


def _moving(curves: Sequence[Mapping[str, Any]]) -> tuple[float, float]:
    """The thresholds at which there is something to see."""
    seen = [curve["threshold"][(curve["emia"] > 0.5) & (curve["emia"] < 99.5)] for curve in curves]
    values = np.concatenate([*seen, [curve["taken"][0] for curve in curves]])
    return max(0.0, float(values.min()) - 0.02), min(1.0, float(values.max()) + 0.02)
