"""Figure 5: whether features stay evenly spread over the circle when Alignment Calibration unlearns.

The paper maps images "to 2D space", after Wang and Isola, whose loss acts on the two dimensions. So do we: two is the
dimension of the projector's output, which InfoNCE compares; the backbone keeps its 512 features.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from muc import opening
from muc.data.files import select
from muc.environment import environment
from muc.evaluation.angles import EVEN, projected_angles, spread
from muc.report.cells import Cell, Table, number
from muc.report.group import stat
from muc.report.sheet import Plot, Sheet, write_sheet
from muc.report.sweep_charts import angle_histograms
from muc.report.words import DATA, seed_count
from muc.reproduce.cost import EVALUATION_SECONDS
from muc.reproduce.from_models import made_from
from muc.reproduce.recipe import Options, Recipe, Step
from muc.reproduce.trial import AC, Trial, encoder_settings
from muc.run_folder import RunFolder
from muc.runtime import Runtime
from muc.storage import read_json

BETAS = (0.0, 2.0, 5.0, 10.0)
FRACTION = 0.1
BINS = 60
BEFORE = "before AC"
SETS = {"test": "(a) test", "unlearn": "(b) to forget"}
STATISTICS = {"uniformity": "Uniformity", "kuiper": "Kuiper's V", "resultant": "Resultant length"}
SAID = (
    "Angles arctan2(y, x) of a SimCLR model's two-dimensional output, before unlearning and after AC with alpha = "
    "gamma = 1 and several beta (in the paper's printed units). The paper trains 'a ResNet-18 encoder mapping "
    "images to 2D space': here two is the dimension of the projector's output, on which InfoNCE acts; images are "
    "not augmented. The paper does not say how much was forgotten; here 10 %.",
    "The paper prints no numbers, and finds the spread near even throughout. Here each histogram also has three: "
    f"Wang and Isola's uniformity, the log mean of exp(-2 |x - y|²) over pairs ({EVEN:.3f} if perfectly even, 0 if "
    "all are one point); Kuiper's V, by how much the share of images on any arc can miss the arc's share of the "
    "circle; and the length of the mean of all points. For the last two, 0 is even and 1 a single point.",
)


def label(beta: float) -> str:
    return f"{AC}-sweep-alpha1-beta{beta:g}"


@dataclass(frozen=True)
class Uniformity(Recipe):
    """CIFAR-10 and SimCLR with two outputs: an encoder of its own, and no Retrain."""

    reads: ClassVar = ("seeds", "epochs", "recipe")

    def trials(self, options: Options) -> list[Trial]:
        """One a seed."""
        settings = [encoder_settings("cifar10", "simclr", seed, options) for seed in options.seeds]
        settings = [replace(s, model=replace(s.model, projection_dim=2)) for s in settings]
        changes = {label(b): {"alpha": 1.0, "gamma": 1.0, "beta": None, "paper_beta": b} for b in BETAS}
        return Trial.of_seeds(settings, FRACTION, options, variant="2d", variants=changes)

    def steps(self, options: Options, out: Path) -> list[Step]:
        made: list[Step] = []
        for trial in self.trials(options):
            made += [trial.pretrain(), *map(trial.serve, trial.variants)]
            seconds = EVALUATION_SECONDS * (1 + len(BETAS))
            named, path = f"angles of {trial.folder.name}", kept(trial, out)
            made.append(made_from(named, seconds, path, partial(models_of, trial), partial(measure, trial)))
        return made

    def write(self, options: Options, out: Path) -> tuple[Path, list[Table]]:
        found = [read_json(kept(trial, out)) for trial in self.trials(options)]
        data = "glyphs" if options.smoke else "cifar10"
        table = tabulate([f["sets"] for f in found], DATA[data])
        sheet = Sheet(
            title=self.heading(options),
            paragraphs=list(SAID),
            results=found,
            environments=[f["environment"] for f in found],
            tables=[table],
            plots=[plot(found[0]["sets"], found[0]["seed"])],
        )
        return write_sheet(sheet, out), [table]


RECIPES = {"uniformity": Uniformity("Uniformity of features (the paper's figure 5)")}


def kept(trial: Trial, out: Path) -> Path:
    return out / "angles" / f"{trial.folder.name}.json"


def models_of(trial: Trial) -> dict[str, RunFolder]:
    return {BEFORE: trial.encoder, **{f"beta = {beta:g}": trial.chosen(label(beta)) for beta in BETAS}}


def measure(trial: Trial, models: Mapping[str, RunFolder]) -> dict[str, Any]:
    """Histograms and spread of every model's angles, on test images and on those to forget."""
    runtime = Runtime(trial.options.runtime)
    images, split = opening.open_images(trial.encoder), trial.chosen(label(BETAS[0])).split()
    pixels = {"test": images.test, "unlearn": select(images.train, split.unlearn)}
    sets: dict[str, dict[str, Any]] = {name: {} for name in pixels}
    for title, run in models.items():
        model = runtime.place(opening.open_model(run, images)).eval()
        for name, part in pixels.items():
            angles = projected_angles(model, part, runtime)
            counts = np.histogram(angles, BINS, (-np.pi, np.pi))[0]
            sets[name][title] = {"counts": counts.tolist(), "images": len(angles), **spread(angles)}
    return {
        "run": str(trial.encoder),
        "seed": trial.settings.seed,
        "environment": environment(runtime),
        "sets": sets,
    }


def plot(sets: Mapping[str, Mapping[str, Mapping[str, Any]]], seed: int) -> Plot:
    """The paper's ten panels."""
    rows = {SETS[name]: {title: found["counts"] for title, found in group.items()} for name, group in sets.items()}
    words = "; ".join(
        f"{SETS[name]}: " + ", ".join(f"{found['kuiper']:.3f} {title}" for title, found in group.items())
        for name, group in sets.items()
    )
    return Plot(
        "figure5",
        angle_histograms(rows),
        f"Histograms of angles in two rows, test images and images to forget. Kuiper's V (0 is even) of {words}.",
        f"Figure 5: how many images have which angle, seed {seed}. Dotted: a perfectly even spread.",
    )


def tabulate(found: Sequence[Mapping[str, Mapping[str, Mapping[str, Any]]]], data: str) -> Table:
    """The spread of every histogram, over seeds."""
    rows = tuple(
        (
            Cell(title),
            *(Cell(number(stat(seed[name][title][key] for seed in found), 3)) for name in SETS for key in STATISTICS),
        )
        for title in found[0]["test"]
    )
    return Table(
        title=f"How evenly angles are spread: {data} · SimCLR with two outputs",
        caption=f"Over {seed_count(len(found))}. A perfectly even spread has uniformity {EVEN:.3f}, Kuiper's V 0 and "
        "resultant length 0.",
        columns=("Model", *(f"{words}, {name}" for name in ("test", "to forget") for words in STATISTICS.values())),
        rows=rows,
    )
