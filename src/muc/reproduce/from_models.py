"""What figures share that look at the models of the white-box trials, and not at their records."""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from muc import opening
from muc.data.files import Pixels, select
from muc.environment import environment
from muc.evaluation.alignment_gaps import Views
from muc.evaluation.features import two_views
from muc.models import ContrastiveModel
from muc.report.group import ORDER, Setting
from muc.report.words import setting_name
from muc.reproduce.choices import write_choices
from muc.reproduce.cost import EVALUATION_SECONDS
from muc.reproduce.provenance import settings_of_ac, where_settings_come_from
from muc.reproduce.recipe import Options, Recipe, Step, algorithms_for
from muc.reproduce.trial import AC, Trial, encoder_settings
from muc.run_folder import RunFolder
from muc.runtime import Runtime
from muc.seeds import derive_seed
from muc.storage import read_json, write_json

SHOWN = 8
"""So many images are in the paper's heatmaps."""


def made_from(
    name: str,
    seconds: float,
    path: Path,
    used: Callable[[], dict[str, RunFolder]],
    compute: Callable[[dict[str, RunFolder]], dict[str, Any]],
) -> Step:
    """A step whose result, a JSON file, holds for the models it was made from: for others it is made again."""

    def models() -> dict[str, str]:
        return {label: run.result()["model_sha256"] for label, run in used().items()}

    def done() -> bool:
        return path.exists() and all(r.done for r in used().values()) and read_json(path).get("models") == models()

    return Step(name, seconds, done, lambda: write_json(path, {"models": models(), **compute(used())}))


class Opened:
    """The models of a trial, with the data they were made from and the request they serve."""

    def __init__(self, used: dict[str, RunFolder], options: Options) -> None:
        self.runs, self.runtime = used, Runtime(options.runtime)
        self.images = opening.open_images(used["pretrain"])
        self.split = used["retrain"].split()
        self.settings = opening.pretraining_of(used["pretrain"])

    @cached_property
    def unlearn(self) -> Pixels:
        return select(self.images.train, self.split.unlearn)

    @cached_property
    def test(self) -> Pixels:
        """As many test images as images to forget, where there are."""
        rows = np.random.default_rng(0).permutation(len(self.images.test))[: len(self.unlearn)]
        return select(self.images.test, np.sort(rows))

    @cached_property
    def retained(self) -> Pixels:
        """As many retained images, where there are."""
        rows = np.random.default_rng(0).permutation(self.split.retain)[: len(self.unlearn)]
        return select(self.images.train, np.sort(rows))

    def model(self, label: str) -> ContrastiveModel:
        return self.runtime.place(opening.open_model(self.runs[label], self.images))

    def embedder(self, label: str) -> opening.Embedder:
        shape = (self.images.channels, self.images.image_size)
        return opening.Embedder(self.model(label), self.runtime, self.settings.views, shape)

    def two_views(self, label: str, pixels: Pixels) -> Views:
        """The same views for every model."""
        return two_views(self.model(label), pixels, self.settings.views, self.runtime, self.split.seed)

    def some_unlearn(self) -> np.ndarray:
        """A few images to forget, by index, drawn by the split's seed."""
        generator = np.random.default_rng(derive_seed("figure", self.split.seed))
        rows = generator.permutation(self.split.unlearn)[:SHOWN]
        return np.sort(rows)

    def environment(self) -> dict[str, Any]:
        return environment(self.runtime)


@dataclass(frozen=True)
class FromModels(Recipe):
    """A figure of the models of table 2: 10 % of CIFAR-10 forgotten, MoCo unless others are asked for."""

    what: ClassVar[str]
    """What is done, for the plan."""

    @abstractmethod
    def measure(self, opened: Opened) -> dict[str, Any]:
        """The numbers behind the figure, of one trial."""

    def trials(self, options: Options) -> dict[str, list[Trial]]:
        """{algorithm: one a seed}."""
        return {
            algorithm: Trial.of_seeds(
                [encoder_settings("cifar10", algorithm, seed, options) for seed in options.seeds], 0.1, options
            )
            for algorithm in algorithms_for(options, ("moco",))
        }

    def methods(self, options: Options) -> list[str]:
        """Those asked for, Retrain and AC always among them, Retrain first: searches look at it."""
        return sorted({*options.methods, "retrain", AC}, key=lambda m: ORDER.index(m) if m in ORDER else len(ORDER))

    def steps(self, options: Options, out: Path) -> list[Step]:
        return [step for trials in self.trials(options).values() for step in self._steps(trials, options, out)]

    def _steps(self, trials: list[Trial], options: Options, out: Path) -> list[Step]:
        methods, made = self.methods(options), []
        for trial in trials:
            made += [trial.pretrain(), *map(trial.serve, methods)]
            made.append(
                made_from(
                    f"{self.what} of {trial.folder.name}",
                    EVALUATION_SECONDS,
                    self.path(trial, out),
                    partial(self.used, trial, methods),
                    lambda used: self.measured(used, options),
                )
            )
        return made

    def used(self, trial: Trial, methods: list[str]) -> dict[str, RunFolder]:
        """The models that the numbers are of."""
        return {"pretrain": trial.encoder, **{name: trial.chosen(name) for name in methods}}

    def measured(self, used: dict[str, RunFolder], options: Options) -> dict[str, Any]:
        opened = Opened(used, options)
        return {**self.measure(opened), "environment": opened.environment()}

    def path(self, trial: Trial, out: Path) -> Path:
        return out / "measured" / f"{trial.folder.name}.json"

    def found(self, options: Options, out: Path) -> dict[str, list[dict[str, Any]]]:
        """{algorithm: what was measured, for each seed}. The searches behind it are written down beside it."""
        write_choices([trials[0] for trials in self.trials(options).values()], self.methods(options), out)
        return {
            algorithm: [
                {"setting": name_of(t), "seed": t.settings.seed, **read_json(self.path(t, out))} for t in trials
            ]
            for algorithm, trials in self.trials(options).items()
        }

    def settings_told(self, options: Options) -> list[str]:
        """Which models are shown."""
        trials = self.trials(options)
        of_ac = [f"{name_of(own[0])}: AC has {settings_of_ac(own[0])}." for own in trials.values()]
        return [where_settings_come_from(options, [trial for own in trials.values() for trial in own]), *of_ac]


def environments(found: dict[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    return [trial["environment"] for trials in found.values() for trial in trials]


def name_of(trial: Trial) -> str:
    model, data = trial.settings.model, Path(trial.settings.data.name).name
    epochs = trial.settings.optimisation.epochs
    made = Setting(data, model.algorithm, model.architecture, epochs, trial.fraction, model.stem_relu)
    return setting_name(made)
