"""One trial of the paper: an encoder, a request, and the methods that serve it.

Runs lie in one folder for all tables and are named by what they are, so that tables share their encoders and a
reproduction that was cut off goes on where it was.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from muc import config, opening, runs
from muc.compare import serve
from muc.evaluation.records import evaluate_runs
from muc.methods import Method
from muc.methods.recipes import default_method
from muc.reproduce.choices import given_method
from muc.reproduce.recipe import Options, Step
from muc.run_folder import RECORD, RunFolder
from muc.search import draw_trials, labelled, pick
from muc.storage import read_json

SECONDS_PER_EPOCH = {"simclr": 0.95, "moco": 0.66, "clip": 1.55}
"""Of 45,000 images by a ResNet-18 on one H200 (results/engine/train_speed.json); clip's of 20,000 pairs of 64 px."""
RELATIVE_COST = {"resnet18": 1.0, "resnet34": 1.74, "resnet50": 3.49, "resnet101": 5.6, "resnet152": 7.97}
"""Measured likewise (results/engine/time-memory.json)."""
EVALUATION_SECONDS, JUDGING_SECONDS, START_SECONDS = 15.0, 5.0, 4.0


def encoder_settings(
    data: str, algorithm: str, seed: int, options: Options, architecture: str = "resnet18"
) -> config.Pretraining:
    """The paper's recipe; a smoke test has the same path on embedded images."""
    embedded = "glyph-pairs" if algorithm == "clip" else "glyphs"
    settings = config.recipe(embedded if options.smoke else data, algorithm)
    epochs = options.epochs or (3 if options.smoke else settings.optimisation.epochs)
    settings = replace(settings, seed=seed, optimisation=replace(settings.optimisation, epochs=epochs))
    if options.smoke:
        probe = replace(settings.probe, epochs=2)
        return replace(settings, data=replace(settings.data, train_limit=60), probe=probe)
    return replace(settings, model=replace(settings.model, architecture=architecture))


@dataclass(frozen=True)
class Trial:
    """An encoder and a request to forget a share of what it was trained on."""

    settings: config.Pretraining
    fraction: float
    options: Options
    variant: str = ""
    """What tells the encoder from others of the same data, algorithm, architecture, epochs and seed."""

    @property
    def encoder(self) -> RunFolder:
        s = self.settings
        data, architecture = Path(s.data.name).name, s.model.architecture.replace("/", "-")
        name = f"{data}-{s.model.algorithm}-{architecture}-{s.optimisation.epochs}epochs-seed{s.seed}"
        return RunFolder(self.options.out / "runs" / (f"{name}-{self.variant}" if self.variant else name))

    @property
    def folder(self) -> Path:
        """Of the runs that serve the request."""
        encoder = self.encoder.path
        return encoder.with_name(f"{encoder.name}-forget{round(100 * self.fraction)}")

    @property
    def retrain(self) -> RunFolder:
        return RunFolder(self.folder / "retrain")

    def chosen(self, label: str) -> RunFolder:
        """The best of a method's trials, or its only one."""
        found = self.folder / label / "search.json"
        if not found.exists():
            return RunFolder(self.folder / label)
        best = min(read_json(found), key=lambda trial: trial["AG"])
        return RunFolder(self.folder / Path(best["run"]).name)

    def method(self, name: str) -> Method:
        """With the values that were given, or the defaults for this data; a smoke test unlearns for one epoch."""
        if self.options.chosen and name != "retrain":
            return given_method(self.options.chosen, name, self.settings, self.fraction)
        method = default_method(name, self.settings.data.name, self.settings.model.algorithm)
        if self.options.smoke:
            return replace(method, epochs=1) if method.epochs else method
        if name == "alignment_calibration" and self.settings.model.algorithm != "clip" and self.fraction >= 0.5:
            return replace(method, learning_rate=0.02)  # the paper's, for half of the data
        return method

    def steps(self, like: "Trial | None" = None) -> list[Step]:
        """Everything: the encoder, Retrain, the methods, and the evaluation of all."""
        order = sorted(self.options.methods, key=lambda name: name != "retrain")  # searches look at Retrain
        return [self.pretrain(), *(self.serve(name, like) for name in order), self.evaluate(self.options.methods)]

    def pretrain(self) -> Step:
        run = self.encoder

        def work() -> None:
            if run.started:
                runs.resume_run(run)
            else:
                runs.pretrain_run(self.settings, run.path, self.options.runtime)

        seconds = self.settings.optimisation.epochs * self.epoch_seconds()
        return Step(f"pretrain {run.path.name}", seconds, lambda: run.done, work)

    def serve(self, name: str, like: "Trial | None" = None) -> Step:
        """Serve the request with one method: as many settings as asked for, or the one chosen in the trial `like`."""
        own = self.method(name)  # what is wrong with given values is said before anything is trained
        first = like if name != "retrain" else None
        count = 1 if name == "retrain" or like is not None else self.options.search

        def work() -> None:
            method = (opening.method_of(first.chosen(name)) or own) if first else own
            drawn = draw_trials(method, count - 1, self.encoder) if count > 1 else []
            served = [self._serve(m, label) for m, label in labelled([method, *drawn], name)]
            if len(served) > 1:
                pick(served, self.retrain, self.encoder, self.options.runtime)

        def done() -> bool:
            if first:
                chosen = first.chosen(name)
                return chosen.done and self.holds(name, opening.method_of(chosen))
            labels = [label for _, label in labelled([own] * count, name)]
            searched = count == 1 or (self.folder / name / "search.json").exists()
            return searched and self.holds(name, own) and all(RunFolder(self.folder / label).done for label in labels)

        judging = JUDGING_SECONDS if count > 1 else 0.0
        seconds = count * (self.method_seconds(own) + judging)
        return Step(f"{name} ×{count} for {self.folder.name}", seconds, done, work)

    def serve_with(self, label: str, method: Method) -> Step:
        """Serve the request with given settings, in a run of that label."""
        return Step(
            f"{label} for {self.folder.name}",
            self.method_seconds(method),
            lambda: self.holds(label, method),
            lambda: self._serve(method, label),
        )

    def serve_changed(self, label: str, name: str, **changes: Any) -> Step:
        """Serve the request with a method's chosen settings, but for these, in a run of that label."""

        def changed() -> Method:
            return replace(opening.method_of(self.chosen(name)) or self.method(name), **changes)

        return Step(
            f"{label} for {self.folder.name}",
            self.method_seconds(self.method(name)),
            lambda: self.chosen(name).done and self.holds(label, changed()),
            lambda: self._serve(changed(), label),
        )

    def holds(self, label: str, method: Method | None) -> bool:
        """Whether the run of that label is finished, and with these settings."""
        run = RunFolder(self.folder / label)
        return run.done and opening.method_of(run) == method

    def _serve(self, method: Method, label: str) -> RunFolder:
        request = config.Request(forget_fraction=self.fraction)
        return serve(self.encoder, method, request, self.folder / label, self.options.runtime)

    def evaluate(self, labels: Iterable[str]) -> Step:
        """All metrics of the original, Retrain and the chosen run of each label."""
        others = [label for label in labels if label != "retrain"]

        def work() -> None:
            judged = [self.encoder, *(self.chosen(label) for label in others)]
            evaluate_runs(judged, self.retrain, self.options.runtime, keep=True)

        seconds = EVALUATION_SECONDS * (2 + len(others))
        return Step(f"evaluate {self.folder.name}", seconds, lambda: bool(self.records(others)), work)

    def records(self, labels: Iterable[str]) -> list[dict[str, Any]]:
        """Those of the original, Retrain and the chosen run of each label; none unless all are there."""
        served = [self.retrain, *(self.chosen(label) for label in labels if label != "retrain")]
        if not all((run.path / RECORD).exists() for run in served):
            return []
        return [record for run in served for record in run.records()]

    def epoch_seconds(self) -> float:
        model = self.settings.model
        return SECONDS_PER_EPOCH[model.algorithm] * RELATIVE_COST.get(model.architecture, 1.0)

    def method_seconds(self, method: Method) -> float:
        if method.epochs is None:  # Retrain: fewer images
            return self.settings.optimisation.epochs * (1 - self.fraction) * self.epoch_seconds() + START_SECONDS
        return method.epochs * self.epoch_seconds() + START_SECONDS
