"""The calibration for people: a table, and a figure that is readable without colour."""

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from muc.audit_lab.calibrate import Calibration
from muc.audit_lab.judging import TESTS, WITHOUT_CONTROLS
from muc.audit_lab.rates import Rate
from muc.report.canvas import GRID, INK, MUTED, PALETTE, png
from muc.report.cells import Cell, Table

MARKERS = ("o", "s", "D", "^", "v", "X")


def table(found: Calibration) -> Table:
    """False alarms in %, a row for each test, a column for each kind of owner and number of images."""
    columns = list(dict.fromkeys((c.owner, c.n) for c in found.cells))
    return Table(
        title=f"False alarms in % at the {found.alpha:.0%} level",
        caption=f"In square brackets: Clopper-Pearson 95 %; in round ones: cluster bootstrap over encoder pairs 95 %. "
        f"{found.pairs} disjoint pairs of encoders of the same {found.data} and different seeds, {found.audits:,} "
        f"audits, {columns_total(found):,} in each cell.",
        columns=("test", *(f"{owner}, N = M = {n}" for owner, n in columns)),
        rows=tuple(
            (Cell(name), *(cell(found.find(test, owner, n)) for owner, n in columns)) for test, name in TESTS.items()
        ),
    )


def columns_total(found: Calibration) -> int:
    return found.cells[0].rate.trials


def cell(rate: Rate) -> Cell:
    return Cell(
        text=f"{100 * rate.rate:.1f} [{100 * rate.low:.1f}, {100 * rate.high:.1f}]",
        gap=f"{100 * rate.cluster_low:.1f}, {100 * rate.cluster_high:.1f}",
    )


def figure(found: Calibration) -> bytes:
    """PNG: for either kind of owner, each test's rate at each number of images, with the cluster interval."""
    owners = list(dict.fromkeys(c.owner for c in found.cells))
    drawn = Figure(figsize=(10, 4.4), layout="constrained")
    axes = drawn.subplots(1, len(owners), squeeze=False, sharey=True)[0]
    for ax, owner in zip(axes, owners, strict=True):
        panel(ax, found, owner)
        ax.set_title(f"{owner} owners", fontsize=10, fontweight="bold", color=INK)
    axes[0].set_ylabel("false alarms, % of audits (logarithmic)", color=MUTED)
    drawn.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False, fontsize=9)
    return png(drawn)


def panel(ax: Axes, found: Calibration, owner: str) -> None:
    sizes = sorted({c.n for c in found.cells if c.owner == owner})
    for i, (test, name) in enumerate(TESTS.items()):
        rates = [found.find(test, owner, n) for n in sizes]
        x = [k + 0.11 * (i - 2.5) for k in range(len(sizes))]
        y = [100 * r.rate for r in rates]
        below = [max(0.0, 100 * (r.rate - r.cluster_low)) for r in rates]
        above = [max(0.0, 100 * (r.cluster_high - r.rate)) for r in rates]
        hollow: dict[str, Any] = {"markerfacecolor": "white"} if test in WITHOUT_CONTROLS else {}
        colour = INK if i == 0 else (*PALETTE[:3], *PALETTE[4:], MUTED)[i - 1]
        marks: dict[str, Any] = {"marker": MARKERS[i], "markersize": 7, "color": colour, **hollow}
        ax.errorbar(x, y, yerr=[below, above], linestyle="none", capsize=3, linewidth=1.2, label=name, **marks)
    ax.axhline(100 * found.alpha, color=INK, linestyle=(0, (4, 3)), linewidth=1, label="what the tests promise")
    ax.set_yscale("log")
    ax.set_ylim(0.5, 110)
    ax.set_yticks([1, 2, 5, 10, 20, 50, 100], ["1", "2", "5", "10", "20", "50", "100"])
    ax.minorticks_off()
    ax.set_xticks(range(len(sizes)), [f"N = M = {n}" for n in sizes])
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(length=0, colors=MUTED, labelsize=9)
    ax.grid(axis="y", color=GRID, linewidth=0.8)
    ax.set_axisbelow(True)
