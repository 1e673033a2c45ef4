"""Charts of sweeps: bars against a hyper-parameter, and histograms of angles."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from muc.report.canvas import GRID, INK, MUTED, PALETTE, png
from muc.report.group import Stat

BLUE, ORANGE = PALETTE[:2]
HATCHES = {ORANGE: "//", BLUE: ""}  # told apart without colour
TALLEST = 4.0  # a ratio to almost nothing must not flatten all others


@dataclass(frozen=True)
class Bars:
    """One metric against one hyper-parameter."""

    name: str
    colour: str
    values: Mapping[str, Stat | None]


@dataclass(frozen=True)
class Panel:
    """One metric: groups of bars side by side, and levels to compare them with."""

    title: str
    groups: Sequence[Bars]
    levels: Mapping[str, float]
    from_zero: bool = True


def sweep_chart(panels: Sequence[Panel]) -> bytes:
    """PNG: a row for each metric. Error bars are ± SD over seeds, where there are several."""
    figure = Figure(figsize=(8, 2.75 * len(panels) + 0.4), layout="constrained")
    for ax, panel in zip(figure.subplots(len(panels), squeeze=False)[:, 0], panels, strict=True):
        _draw(ax, panel)
    return png(figure)


def _draw(ax: Axes, panel: Panel) -> None:
    low, high = _limits(panel)
    at, ticks = 0, {}
    for group in panel.groups:
        begun = at
        for value, stat in group.values.items():
            ticks[at] = value
            _bar(ax, at, stat, group.colour, low, high)
            at += 1
        middle = (begun + at - 1) / 2
        ax.annotate(group.name, (middle, 0), (0, -26), xycoords=("data", "axes fraction"), textcoords="offset points",
                    ha="center", fontsize=9, color=INK)  # fmt: skip
        at += 1  # an empty place between the groups
    for (name, level), style in zip(panel.levels.items(), ("--", ":"), strict=False):
        ax.axhline(level, color=INK, linestyle=style, linewidth=1.3, label=name)
    ax.set_xticks(list(ticks), list(ticks.values()))
    ax.set_xlim(-0.7, at - 1.3)
    ax.set_ylim(low, high)
    ax.set_title(panel.title, fontsize=10, fontweight="bold", color=INK, loc="left")
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.spines["bottom"].set_color(GRID)
    ax.tick_params(length=0, colors=MUTED, labelsize=9)
    ax.grid(axis="y", color=GRID, linewidth=0.8)
    ax.set_axisbelow(True)
    if panel.levels:
        ax.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=2, frameon=False, fontsize=9, borderaxespad=0.1)


def _bar(ax: Axes, at: int, stat: Stat | None, colour: str, low: float, high: float) -> None:
    if stat is None:
        ax.text(at, low, "n/a", ha="center", va="bottom", fontsize=8, color=MUTED)
        return
    top = min(max(stat.mean, low), high)
    ax.bar(at, top - low, 0.72, low, color=colour, hatch=HATCHES[colour], edgecolor="white", linewidth=1)
    sd = stat.sd or 0.0
    if sd and top == stat.mean:
        ax.errorbar(at, top, sd, color=INK, capsize=3, linewidth=1.2)
    above = min(top + (sd if top == stat.mean else 0.0), high - 0.09 * (high - low))
    box = {"facecolor": "white", "edgecolor": "none", "pad": 0.6, "alpha": 0.8}
    ax.annotate(f"{stat.mean:.2f}", (at, above), (0, 2), textcoords="offset points", ha="center", va="bottom",
                fontsize=8, color=INK, bbox=box)  # fmt: skip


def _limits(panel: Panel) -> tuple[float, float]:
    """From zero to what is readable; or, of values far from zero, around them."""
    stats = [s for group in panel.groups for s in group.values.values() if s]
    ends = [*panel.levels.values(), *(s.mean + sign * (s.sd or 0.0) for s in stats for sign in (-1, 1))]
    low, high = min(ends, default=0.0), max(ends, default=1.0)
    if panel.from_zero:
        return 0.0, 1.18 * min(max(high, 1.0), TALLEST)
    margin = 0.15 * (high - low) or 1.0
    below = low - margin
    return max(below, 0.0) if low >= 0 else below, high + 1.4 * margin  # of a share of nothing there is no less


def angle_histograms(rows: Mapping[str, Mapping[str, Sequence[int]]]) -> bytes:
    """PNG: {row: {column: counts in equal bins from -pi to pi}}; the dotted line is an even spread."""
    columns = len(next(iter(rows.values())))
    figure = Figure(figsize=(2.1 * columns, 2.2 * len(rows) + 0.3), layout="constrained")
    axes = figure.subplots(len(rows), columns, squeeze=False, sharex=True, sharey="row")
    for line, (row, panels) in zip(axes, rows.items(), strict=True):
        for ax, (column, counts) in zip(line, panels.items(), strict=True):
            edges = np.linspace(-np.pi, np.pi, len(counts) + 1)
            ax.stairs(counts, edges, fill=True, color=BLUE)
            ax.axhline(sum(counts) / len(counts), color=INK, linestyle=":", linewidth=1.2)
            ax.set_xticks([-np.pi, 0, np.pi], ["−π", "0", "π"])
            ax.spines[["top", "right"]].set_visible(False)
            ax.spines[["bottom", "left"]].set_color(GRID)
            ax.tick_params(length=0, colors=MUTED, labelsize=8)
            if ax in axes[0]:
                ax.set_title(column, fontsize=10, fontweight="bold", color=INK)
        line[0].set_ylabel(f"{row}\ncount", fontsize=9, color=INK)
    figure.supxlabel("angle", fontsize=9, color=MUTED)
    return png(figure)
