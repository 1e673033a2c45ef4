"""Tables 1 and 9: the paper's t-tests again, from encoders of ours.

g1 is trained on everything, g2 is its Retrain, AC unlearns g1; the null arm is a model owner who hands out g3, trained
on everything with another seed, instead of unlearning.
"""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from muc import paper
from muc.evaluation.alignment_gaps import GapStatistics, Spread, gap_statistics
from muc.paper.t_tests import TESTS, p_value
from muc.report.cells import Cell, Table
from muc.report.sheet import Sheet, write_sheet
from muc.reproduce.cost import EVALUATION_SECONDS
from muc.reproduce.from_models import Opened, made_from, name_of
from muc.reproduce.provenance import settings_of_ac
from muc.reproduce.recipe import Options, Recipe, Step, algorithms_for
from muc.reproduce.trial import AC, Trial, encoder_settings
from muc.run_folder import RunFolder
from muc.storage import read_json

SEED, OTHER_SEED = 11, 10
"""Of g1, g2 and AC; of g3."""
CALIBRATED = {f"{AC}-beta8": {"alpha": 1.0, "beta": None, "paper_beta": 8.0, "gamma": 1.0}}
"""The run of AC: of the paper's values, whatever other tables choose; unless others are given."""
OWNERS = (5, 10, 15, 20)
"""So many images an owner has."""
ARMS = {
    "H0_fs": "FS, another seed (H0)",
    "H1_fs": "FS, Retrain (H1)",
    "H1_fs_ac": "FS, AC (H1)",
    "H0_neg_align": "Negative alignment, another seed (H0)",
    "H1_neg_align_ac": "Negative alignment, AC (H1)",
}


@dataclass(frozen=True)
class TTests(Recipe):
    """Means and deviations of all arms over all images to forget, and what the paper's test makes of them."""

    reads: ClassVar = ("epochs", "algorithms", "recipe")
    one_algorithm: ClassVar = True

    def trials(self, options: Options) -> tuple[Trial, Trial]:
        """That of g1, g2 and AC; that of g3."""
        algorithm = algorithms_for(options, ("moco",))[0]
        first, second = (encoder_settings("cifar10", algorithm, seed, options) for seed in (SEED, OTHER_SEED))
        return Trial(first, 0.1, options, variants=CALIBRATED), Trial(second, 0.1, options)

    def steps(self, options: Options, out: Path) -> list[Step]:
        trial, other = self.trials(options)
        label = calibrated(options)

        def used() -> dict[str, RunFolder]:
            served = {"retrain": trial.retrain, AC: trial.chosen(label)}
            return {"pretrain": trial.encoder, **served, "another seed": other.encoder}

        return [
            trial.pretrain(),
            trial.serve("retrain"),
            trial.serve(label),
            other.pretrain(),
            made_from(
                "means and deviations of all arms",
                2 * EVALUATION_SECONDS,
                self.path(trial, out),
                used,
                lambda found: measure(Opened(found, options)),
            ),
        ]

    def path(self, trial: Trial, out: Path) -> Path:
        return out / "measured" / f"{trial.folder.name}.json"

    def write(self, options: Options, out: Path) -> tuple[Path, list[Table]]:
        trial, _ = self.trials(options)
        ac = settings_of_ac(trial, calibrated(options))
        found: dict[str, Any] = {"setting": name_of(trial), "ac": ac, **read_json(self.path(trial, out))}
        algorithm = trial.settings.model.algorithm
        tables = [arms_table(found, algorithm), p_values_table(found["arms"], algorithm)]
        results = {**found, "p_values": p_values(found["arms"])}
        sheet = Sheet(self.heading(options), paragraphs(found), results, [found["environment"]], tables)
        return write_sheet(sheet, out), tables


RECIPES = {"t-tests": TTests("The paper's t-tests (tables 1 and 9), from our encoders")}


def calibrated(options: Options) -> str:
    """The label of AC."""
    return AC if options.chosen else next(iter(CALIBRATED))


def measure(opened: Opened) -> dict[str, Any]:
    """{arms: {name: {mu, sigma}}}, from one pair of views of each image to forget."""
    before = opened.two_views("pretrain", opened.unlearn)
    another, retrain, ac = (
        gap_statistics(before, opened.two_views(label, opened.unlearn)) for label in ("another seed", "retrain", AC)
    )
    unseen = np.isin(opened.split.unlearn, opened.runs["another seed"].split().validation)
    return {
        "arms": arms(another, retrain, ac),
        "retrain_negative": asdict(retrain.negative),
        "images": len(opened.unlearn),
        "of_these_unseen_by_another_seed": int(unseen.sum()),
        "environment": opened.environment(),
    }


def arms(another: GapStatistics, retrain: GapStatistics, ac: GapStatistics) -> dict[str, dict[str, float]]:
    """In the paper's names."""

    def arm(spread: Spread) -> dict[str, float]:
        return {"mu": spread.mean, "sigma": spread.sd}

    return {
        "H0_fs": arm(another.positive),
        "H1_fs": arm(retrain.positive),
        "H1_fs_ac": arm(ac.positive),
        "H0_neg_align": arm(another.negative),
        "H1_neg_align_ac": arm(ac.negative),
    }


def p_values(found: dict[str, dict[str, float]]) -> dict[str, dict[int, float]]:
    """{test: {N: p}}, by the paper's test."""
    return {t.name: {n: p_value(found[t.null], found[t.alternative], t.per_arm(n)) for n in OWNERS} for t in TESTS}


def arms_table(found: dict[str, Any], algorithm: str) -> Table:
    facts = paper.load()["text_facts"]["t_test"] if algorithm == "moco" else {}
    rows = []
    for name, title in ARMS.items():
        theirs = facts.get(name, {})
        values = [(found["arms"][name][key], theirs.get(key)) for key in ("mu", "sigma")]
        cells = [Cell(f"{ours:.4f}", paper=None if printed is None else f"{printed:.4f}") for ours, printed in values]
        rows.append((Cell(title), *cells))
    return Table(
        title=f"The arms: {found['setting']}",
        caption=f"Mean and standard deviation over {found['images']:,} images to forget (FS) and over all pairs of "
        f"them (negative alignment); seeds {SEED} and {OTHER_SEED}. "
        f"{found['of_these_unseen_by_another_seed']:,} of the images are validation images of the other seed, "
        f"which it has therefore not seen. AC has {found['ac']}; the paper's beta is 8.",
        columns=("Arm", "Mean", "SD"),
        rows=tuple(rows),
    )


def p_values_table(found: dict[str, dict[str, float]], algorithm: str) -> Table:
    tables = paper.load()["tables"]
    rows = []
    for test, ours in zip(TESTS, p_values(found).values(), strict=True):
        printed = {r["N"]: r for r in tables[test.table]["rows"] if r["metric"] == test.metric}
        cells = [Cell(show(p), paper=_printed(printed[n]) if algorithm == "moco" else None) for n, p in ours.items()]
        rows.append((Cell(test.name), *cells))
    return Table(
        title="p-values of the paper's test (not for decisions)",
        caption="Two-sided Student test with pooled variance between the two arms, for owners of N images: N values "
        "an arm for FS, N(N-1)/2 for the negative alignment, as if these were independent.",
        columns=("Test", *(f"N = {n}" for n in OWNERS)),
        rows=tuple(rows),
    )


def show(p: float) -> str:
    return f"{p:.4f}" if p >= 1e-4 else f"{p:.1e}"


def _printed(row: dict[str, Any]) -> str:
    return f"{'≤ ' if row['p_relation'] == '<=' else ''}{row['p_value']:.4f}"


def paragraphs(found: dict[str, Any]) -> list[str]:
    negative = found["retrain_negative"]["mean"]
    return [
        "These numbers repeat the paper's test. Do not decide by them, for three reasons.",
        "First, the N(N-1)/2 pairs of N images share images and are not independent: a test that takes them for so "
        "many observations finds differences where there are none. Second, the null arm, the mean and deviation of a "
        "model owner who cheats in just this way, is not known to any data owner. Two trainings with different seeds "
        "differ by a shift that is common to all images, which more images do not average out; only a control group "
        "does. Third, to tell a model from another seed is not to know that it has forgotten: the trace in the "
        "negative alignment is of AC's making. Retrain, which is exact, is not made to leave any (its mean gap here is "
        f"{negative:+.4f}), so that this test asks whether AC ran.",
        "'muc audit' has tests that keep their error rate, with images held back at random as controls; docs/audit.md "
        "says how, and what they were measured to be worth.",
    ]
