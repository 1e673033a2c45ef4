"""How far Retrains of one request are apart: the chance of training alone, and what no method can be asked to beat.

Retrains of the table's seeds also forget different images, which methods of one seed have in common with their Retrain.
"""

from dataclasses import dataclass
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any, ClassVar

from muc import config, runs
from muc.evaluation.gaps import AUC, METRICS, gaps
from muc.evaluation.records import evaluate_runs, kept_record
from muc.methods import Retrain
from muc.report.cells import NOT_MEANT, Cell, Table, number
from muc.report.group import Record, stat, without_samples
from muc.report.sheet import Sheet, write_sheet
from muc.report.words import seed_count
from muc.reproduce.cost import EVALUATION_SECONDS, share_left
from muc.reproduce.from_models import name_of
from muc.reproduce.recipe import Options, Recipe, Step, algorithms_for
from muc.reproduce.trial import Trial, encoder_settings
from muc.run_folder import RunFolder

TRAININGS = (1, 2)
"""Beside the table's Retrain; added to a thousand, so that they are seeds of nothing else."""
BEYOND = "EMIA beyond held-out"
LABELS = {AUC: "AUC of images to forget"}
DIGITS = {**dict.fromkeys(METRICS, 2), AUC: 4, BEYOND: 2, "FS": 4}
"""What is compared."""


@dataclass(frozen=True)
class NoiseFloor(Recipe):
    """CIFAR-10, 10 % to forget, MoCo unless another is asked for. Not in the paper."""

    reads: ClassVar = ("seeds", "epochs", "algorithms", "reading")
    one_algorithm: ClassVar = True

    def trials(self, options: Options) -> list[Trial]:
        """One a seed, that is, one a request."""
        algorithm = algorithms_for(options, ("moco",))[0]
        settings = [encoder_settings("cifar10", algorithm, seed, options) for seed in options.seeds]
        return Trial.of_seeds(settings, 0.1, options)

    def steps(self, options: Options, out: Path) -> list[Step]:
        return [step for trial in self.trials(options) for step in steps_of(trial)]

    def write(self, options: Options, out: Path) -> tuple[Path, list[Table]]:
        trials = self.trials(options)
        records = [records_of(trial) for trial in trials]
        found = [{"setting": name_of(t), "records": own} for t, own in zip(trials, records, strict=True)]
        table = tabulate(records)
        said = [
            f"{len(TRAININGS) + 1} Retrains of the same request, which differ in their initial weights, the order of "
            "images and the views. A method that is no further from its Retrain than they are from each other is as "
            "close as another training would be. A gap that goes the same way in every seed can still be more than "
            "chance.",
        ]
        environments = [record["env"] for own in records for record in own]
        return write_sheet(Sheet(self.heading(options), said, found, environments, [table]), out), [table]


RECIPES = {"noise-floor": NoiseFloor("How far Retrains of one request are apart")}


def again(trial: Trial, training: int) -> RunFolder:
    return RunFolder(trial.folder / f"retrain-again{training}")


def steps_of(trial: Trial) -> list[Step]:
    others = [again(trial, training) for training in TRAININGS]

    def retrain(run: RunFolder, training: int) -> None:
        if run.started:
            runs.resume_run(run)
            return
        trial.encoder.load_model()  # Retrain would not miss it, but the evaluation
        request, seed = config.Request(forget_fraction=trial.fraction), 1000 + training
        runs.unlearn_run(trial.encoder, Retrain(), request, run.path, trial.options.runtime, seed=seed)

    def step(run: RunFolder, training: int) -> Step:
        seconds = share_left(run, trial.epochs(Retrain())) * trial.method_seconds(Retrain())
        return Step(
            f"{run.path.name} for {trial.folder.name}", seconds, lambda: run.done, partial(retrain, run, training)
        )

    def evaluate() -> None:
        evaluate_runs(others, trial.retrain, trial.options.runtime, keep=True)

    return [
        trial.pretrain(),
        trial.serve("retrain"),
        *(step(run, training) for run, training in zip(others, TRAININGS, strict=True)),
        Step(
            f"evaluate Retrains of {trial.folder.name}",
            EVALUATION_SECONDS * (1 + len(others)),
            lambda: all(run.done for run in (trial.retrain, *others)) and len(records_of(trial)) == 1 + len(others),
            evaluate,
        ),
    ]


def records_of(trial: Trial) -> list[Record]:
    """Those that there are, without the values of single images."""
    found = [kept_record(run, trial.retrain) for run in (trial.retrain, *(again(trial, t) for t in TRAININGS))]
    return [without_samples(record) for record in found if record]


def tabulate(trials: list[list[Record]]) -> Table:
    """Of each metric its value, and how far two Retrains of a request are apart in it; the average gaps last."""
    metrics = [[with_beyond(record["metrics"]) for record in records] for records in trials]
    pairs = [pair for own in metrics for pair in combinations(own, 2)]
    rows = [
        (
            Cell(LABELS.get(name, name)),
            Cell(number(stat(m[name] for own in metrics for m in own), digits)),
            Cell(number(stat(abs(a[name] - b[name]) for a, b in pairs), digits)),
        )
        for name, digits in DIGITS.items()
    ]
    averages = {"AG": "AG", "AG cls": "AG_classifier", "AG auc": "AG_auc"}
    rows += [
        (Cell(name), Cell(NOT_MEANT), Cell(number(stat(gaps(a, b)[key] for a, b in pairs), 2)))
        for name, key in averages.items()
    ]
    return Table(
        title="Retrains of one request",
        caption=f"Over {seed_count(len(trials))}, one request each, {len(metrics[0])} trainings a request: mean ± SD "
        "over all, and mean ± SD over pairs of trainings of one request of how far they are apart.",
        columns=("Metric", "Value", "Apart"),
        rows=tuple(rows),
    )


def with_beyond(metrics: dict[str, Any]) -> dict[str, Any]:
    return metrics | {BEYOND: metrics["EMIA"] - metrics["held_out_EMIA"]}
