"""Figures 4 and 9: what alpha and beta do to forgetting and to what should be kept."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from muc.evaluation.gaps import apart, gaps
from muc.report.cells import Cell, Table, number
from muc.report.group import Record, Stat, stat
from muc.report.sheet import Plot, Sheet, write_sheet
from muc.report.sweep_charts import BLUE, ORANGE, Bars, Panel, sweep_chart
from muc.report.words import ALGORITHMS, DATA, seed_count
from muc.reproduce.recipe import Options, Recipe, Step, algorithms_for
from muc.reproduce.sweep import records_of
from muc.reproduce.trial import AC, Trial, encoder_settings

ACCURACIES = ("RA", "TA", "UA")
BETAS = (0.0, 2.0, 4.0, 8.0, 12.0, 16.0)
"""From 0 to 16, as the paper says; which values between is ours."""
ALPHAS = (0.0, 0.5, 1.0, 1.5, 2.0)
"""Ours: the paper gives no grid for alpha = gamma, and not the beta that it fixed."""
FIXED_BETA = 8.0
"""The one value of beta that the paper names, elsewhere."""
ALPHA_AXIS, BETA_AXIS = f"alpha = gamma (beta = {FIXED_BETA:g})", "beta (alpha = gamma = 1)"


@dataclass(frozen=True)
class Point:
    """One setting of AC; beta in the units that the paper prints."""

    alpha: float
    beta: float

    @property
    def label(self) -> str:
        return f"{AC}-sweep-alpha{self.alpha:g}-beta{self.beta:g}"

    @property
    def changes(self) -> dict[str, Any]:
        return {"alpha": self.alpha, "gamma": self.alpha, "beta": None, "paper_beta": self.beta}


BY_ALPHA = {f"{alpha:g}": Point(alpha, FIXED_BETA) for alpha in ALPHAS}
BY_BETA = {f"{beta:g}": Point(1.0, beta) for beta in BETAS}
POINTS = tuple(dict.fromkeys((*BY_ALPHA.values(), *BY_BETA.values())))


@dataclass(frozen=True)
class AlphaBeta(Recipe):
    """CIFAR-10, MoCo unless another is asked for, 10 % to forget; encoders and Retrain are those of the table."""

    reads: ClassVar = ("seeds", "epochs", "algorithms", "recipe")
    one_algorithm: ClassVar = True

    def trials(self, options: Options) -> list[Trial]:
        """One a seed."""
        algorithm = algorithms_for(options, ("moco",))[0]
        settings = [encoder_settings("cifar10", algorithm, seed, options) for seed in options.seeds]
        return Trial.of_seeds(settings, 0.1, options, variants={p.label: p.changes for p in POINTS})

    def steps(self, options: Options, out: Path) -> list[Step]:
        return [step for t in self.trials(options) for step in t.steps(t.variants)]

    def write(self, options: Options, out: Path) -> tuple[Path, list[Table]]:
        trials = self.trials(options)
        found = {p: records_of(trials, p.label) for p in POINTS}
        levels = {name: records_of(trials, name) for name in ("retrain", "pretrain")}
        table = tabulate(found, levels)
        rate = found[POINTS[0]][0]["method_settings"]["learning_rate"]
        said = [
            f"One hyper-parameter of Alignment Calibration at a time, all else fixed (learning rate {rate:g}, "
            f"{seed_count(len(trials))}). The paper gives 0 to 16 as the range of beta at alpha = gamma = 1, and for "
            "alpha = gamma neither its values nor the fixed beta: the grids here are ours "
            f"(beta {', '.join(BY_BETA)}; alpha = gamma {', '.join(BY_ALPHA)} at beta = {FIXED_BETA:g}, the one value "
            "that the paper names). beta is in the paper's printed units, weights of the raw cosine.",
            "The paper prints no numbers for these figures. It says that the ratio falls as alpha or beta grows, "
            "and is about 1 for beta from 12 to 16. Whether its figure of accuracies shows them or their ratio to "
            "Retrain's is unclear (its caption repeats that of the ratio): here they are accuracies.",
        ]
        records = [r for group in (*levels.values(), *found.values()) for r in group]
        sheet = Sheet(self.heading(options), said, records, [r["env"] for r in records], [table], plots(found, levels))
        return write_sheet(sheet, out), [table]


RECIPES = {"alpha-beta": AlphaBeta("The effect of alpha and beta (the paper's figures 4 and 9)")}


def score_ratio(records: Sequence[Record], retrains: Sequence[Record]) -> Stat | None:
    """FS(Retrain) / FS(AC), seed by seed: 1 where AC forgets as much as Retrain, above where it forgets less."""
    pairs = [(exact["metrics"]["FS"], mine["metrics"]["FS"]) for exact, mine in zip(retrains, records, strict=True)]
    return stat(exact / mine for exact, mine in pairs if mine)


def metric(records: Sequence[Record], name: str) -> Stat | None:
    return stat(r["metrics"][name] for r in records)


def plots(found: dict[Point, list[Record]], levels: dict[str, list[Record]]) -> list[Plot]:
    """The paper's two figures."""
    ratios = {p: score_ratio(records, levels["retrain"]) for p, records in found.items()}
    panel = Panel("FS(Retrain) / FS(AC)", groups(ratios), {"Retrain": 1.0})
    accuracies = []
    for name in ACCURACIES:
        known = {"Retrain": metric(levels["retrain"], name), "Original": metric(levels["pretrain"], name)}
        lines = {who: level.mean for who, level in known.items() if level}
        values = {p: metric(records, name) for p, records in found.items()}
        accuracies.append(Panel(f"{name} (%)", groups(values), lines, from_zero=False))
    axes = f"Orange, hatched: against {ALPHA_AXIS}. Blue: against {BETA_AXIS}."
    return [
        Plot(
            "figure4",
            sweep_chart([panel]),
            f"Bars of the ratio of forgetting scores. {told(ALPHA_AXIS, BY_ALPHA, ratios)}; "
            f"{told(BETA_AXIS, BY_BETA, ratios)}.",
            f"Figure 4: how much Retrain forgets, divided by how much AC does. {axes} Above the dashed line AC forgets "
            "less than Retrain, below it more. Bars that are too tall are cut off, their numbers are not; a bar of no "
            "height is a negative ratio: AC then made the images to forget more alike than before.",
        ),
        Plot(
            "figure9",
            sweep_chart(accuracies),
            "Bars of RA, TA and UA against alpha = gamma and beta, with the levels of Retrain and of the original; the "
            "table holds the numbers.",
            f"Figure 9: accuracy on what is kept (RA), on test images (TA) and on the images to forget (UA). {axes} "
            "Dashed: Retrain. Dotted: the original. The axes do not begin at 0.",
        ),
    ]


def groups(values: dict[Point, Stat | None]) -> list[Bars]:
    return [
        Bars(ALPHA_AXIS, ORANGE, {x: values[p] for x, p in BY_ALPHA.items()}),
        Bars(BETA_AXIS, BLUE, {x: values[p] for x, p in BY_BETA.items()}),
    ]


def told(axis: str, points: dict[str, Point], values: dict[Point, Stat | None]) -> str:
    """For those who do not see the bars."""
    return f"{axis}: " + ", ".join(f"{number(values[p], 2)} at {x}" for x, p in points.items())


def tabulate(found: dict[Point, list[Record]], levels: dict[str, list[Record]]) -> Table:
    """The numbers behind the bars."""

    def gap(records: list[Record], kind: str) -> Stat | None:
        return stat(gaps(r["metrics"], e["metrics"])[kind] for r, e in zip(records, levels["retrain"], strict=True))

    def row(name: str, records: list[Record], ratio: Stat | None) -> tuple[Cell, ...]:
        return (
            Cell(name),
            Cell(number(metric(records, "FS"), 4)),
            Cell(number(ratio, 2)),
            *(Cell(number(metric(records, m), 2)) for m in ACCURACIES),
            Cell(number(metric(records, "unlearn_AUC"), 3)),
            *(Cell("–" if name == "Retrain" else number(gap(records, kind), 2)) for kind in ("AG", "AG_auc")),
        )

    exact = levels["retrain"]
    rows = [row("Original", levels["pretrain"], None), row("Retrain", exact, score_ratio(exact, exact))]
    rows += [row(f"alpha = gamma = {p.alpha:g}, beta = {p.beta:g}", r, score_ratio(r, exact)) for p, r in found.items()]
    data, algorithm = exact[0]["data"], exact[0]["algorithm"]
    return Table(
        title=f"Alpha and beta: {DATA.get(data, data)} · {ALGORITHMS[algorithm]} · 10 % to forget",
        caption=f"Over {seed_count(len(exact))}. FS(Retrain) / FS is taken seed by seed; 1 is to forget as much as "
        "Retrain. The AUC, of an attack that tells images to forget from test images, hangs on no threshold; AG "
        "auc has it in the place of EMIA, and leaves CMIA out."
        + (
            ""
            if (chance := apart(record["metrics"] for record in exact)) is None
            else f" Two Retrains of different seeds are {chance:.2f} apart by AG."
        ),
        columns=("Setting", "FS", "FS(Retrain) / FS", *ACCURACIES, "To forget vs test AUC", "AG", "AG auc"),
        rows=tuple(rows),
    )
