"""One trial of the paper: an encoder, a request, and the methods that serve it.

Runs lie in one folder for all tables and are named by what they are, so that tables share their encoders and a
reproduction that was cut off goes on where it was.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Self

from muc import config, opening, runs
from muc.compare import serve
from muc.errors import UserError
from muc.evaluation.records import evaluate_runs, kept_record
from muc.methods import Method
from muc.methods.recipes import paper_method
from muc.recipes import recipe
from muc.reproduce.choices import given_method
from muc.reproduce.cost import (
    EVALUATION_SECONDS,
    JUDGING_SECONDS,
    START_SECONDS,
    epoch_seconds,
    share_left,
    share_passed,
)
from muc.reproduce.recipe import Options, Step
from muc.run_folder import RunFolder
from muc.search import draw_trials, labelled, pick, serve_all
from muc.storage import read_json

AC = "alignment_calibration"


def encoder_settings(
    data: str, algorithm: str, seed: int, options: Options, architecture: str = "resnet18"
) -> config.Pretraining:
    """The paper's recipe; a smoke test has the same path on embedded images."""
    embedded = "glyph-pairs" if algorithm == "clip" else "glyphs"
    settings = recipe(embedded if options.smoke else data, algorithm)
    epochs = options.epochs or (3 if options.smoke else settings.optimisation.epochs)
    settings = replace(settings, seed=seed, optimisation=replace(settings.optimisation, epochs=epochs))
    model = replace(settings.model, stem_relu=options.reading != "compat")
    if options.smoke:
        probe = replace(settings.probe, epochs=2)
        return replace(settings, data=replace(settings.data, train_limit=60), probe=probe, model=model)
    return replace(settings, model=replace(model, architecture=architecture))


@dataclass(frozen=True)
class Trial:
    """An encoder and a request to forget a share of what it was trained on."""

    settings: config.Pretraining
    fraction: float
    options: Options
    variant: str = ""
    """What tells the encoder from others of the same data, algorithm, architecture, epochs and seed."""
    first: Self | None = None
    """The trial whose chosen settings this one takes; None: it has its own."""
    variants: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """{label: in what a run differs from the AC that counts}."""

    @classmethod
    def of_seeds(
        cls, settings: Iterable[config.Pretraining], fraction: float, options: Options, **others: Any
    ) -> list[Self]:
        """One a seed; hyper-parameters are chosen in the first and then fixed."""
        made: list[Self] = []
        for own in settings:
            made.append(cls(own, fraction, options, first=made[0] if made else None, **others))
        return made

    @property
    def criterion(self) -> str:
        return self.options.criterion

    @property
    def encoder(self) -> RunFolder:
        s = self.settings
        data, architecture = Path(s.data.name).name, s.model.architecture.replace("/", "-")
        name = f"{data}-{s.model.algorithm}-{architecture}-{s.optimisation.epochs}epochs-seed{s.seed}"
        marks = name, self.variant, "compat" if self.options.reading == "compat" else ""
        return RunFolder(self.options.out / "runs" / "-".join(filter(None, marks)))

    @property
    def folder(self) -> Path:
        """Of the runs that serve the request."""
        encoder = self.encoder.path
        return encoder.with_name(f"{encoder.name}-forget{round(100 * self.fraction)}")

    @property
    def retrain(self) -> RunFolder:
        return self.chosen("retrain")

    def chosen(self, label: str) -> RunFolder:
        """The run that counts: the best of the trials that were asked for, or that of the settings that count."""
        return self._best(label) or self.placed(label, self.settled(label))

    def settled(self, label: str) -> Method:
        """The settings that count: given, by default, or chosen by a search, here or in the first trial."""
        if label in self.variants:
            return replace(self.settled(AC), **self.variants[label])
        if self.first is not None:
            return self.first.settled(label)
        best = self._best(label)
        return (opening.method_of(best) if best else None) or self.method(label)

    def is_settled(self, label: str) -> bool:
        """Whether these settings are known yet."""
        label = AC if label in self.variants else label
        if self.first is not None:
            return self.first.is_settled(label)
        return self._count(label) == 1 or bool(self.tried(label))

    def method(self, name: str) -> Method:
        """With the values that were given, or the paper's; a smoke test unlearns for one epoch."""
        if self.options.chosen and name != "retrain":
            return given_method(self.options.chosen, name, self.settings, self.fraction)
        data, algorithm = self.settings.data.name, self.settings.model.algorithm
        method = paper_method(name, data, algorithm, self.fraction, self.options.reading)
        return replace(method, epochs=1) if self.options.smoke and method.epochs else method

    def placed(self, label: str, method: Method) -> RunFolder:
        """The run of these settings; where one of others has the label, a run beside it, never instead of it."""
        usual = RunFolder(self.folder / label)
        of_search = sorted(self.folder.glob(f"{label}-trial*"))
        for run in (usual, *map(RunFolder, of_search)):
            if run.started and opening.method_of(run) == method:
                return run
        if not usual.started:
            return usual
        digest = sha256(json.dumps(asdict(method), sort_keys=True).encode()).hexdigest()
        return RunFolder(self.folder / f"{label}-{digest[:8]}")

    def tried(self, name: str) -> list[dict[str, Any]]:
        """What a search found out about the trials that were asked for, in their order; nothing before it is done."""
        if self._count(name) == 1:
            return []
        path = self.placed(name, self.method(name)).path / "search.json"
        found = read_json(path) if path.exists() else []
        if not isinstance(found, list) or not all(isinstance(trial, dict) and "run" in trial for trial in found):
            raise UserError(f"{path} is not the record of a search; delete it and run the same command again")
        return found[: self._count(name)] if len(found) >= self._count(name) else []

    def _count(self, name: str) -> int:
        """How many settings are tried of a method in this trial."""
        fixed = name == "retrain" or name in self.variants or self.first is not None or self.options.chosen
        return 1 if fixed else self.options.search

    def _best(self, name: str) -> RunFolder | None:
        """Of the trials of a search, where there was one."""
        tried = self.tried(name)
        if any(self.criterion not in trial for trial in tried):
            raise UserError(
                f"the search of {name} in {self.folder} does not hold the trials' {self.criterion}; delete its "
                "search.json and run the same command again"
            )
        if not tried:
            return None
        best = min((t for t in tried if t[self.criterion] is not None), key=lambda trial: trial[self.criterion])
        return RunFolder(self.folder / Path(best["run"]).name)

    def steps(self, labels: Iterable[str] | None = None) -> list[Step]:
        """Everything: the encoder, Retrain, which searches look at, the methods, or other runs, and the evaluation."""
        others = [label for label in labels or self.options.methods if label != "retrain"]
        return [self.pretrain(), *map(self.serve, ("retrain", *others)), self.evaluate(others)]

    def pretrain(self) -> Step:
        run = self.encoder
        if run.started:
            self.check_encoder()

        def work() -> None:
            if run.started:
                runs.resume_run(run)
            else:
                runs.pretrain_run(self.settings, run.path, self.options.runtime)

        epochs = self.settings.optimisation.epochs
        seconds = share_left(run, epochs) * epochs * epoch_seconds(self.settings)
        return Step(f"pretrain {run.path.name}", seconds, lambda: run.done, work, self.settings.data)

    def check_encoder(self) -> None:
        """Its name says most of what it is, and a folder can be moved: what counts are its settings."""
        made, asked = (flattened(without_place(s)) for s in (opening.pretraining_of(self.encoder), self.settings))
        for key, value in asked.items():
            if made.get(key) != value:
                raise UserError(
                    f"the encoder {self.encoder} was trained with {key} {made.get(key)}, not {value}; "
                    "move it away or give another --out"
                )

    def serve(self, label: str) -> Step:
        """Serve the request with one method, or a variant of AC: as many settings as asked for, or those that count."""
        # What is wrong with given values is said before anything is trained.
        own, count = self.method(AC if label in self.variants else label), self._count(label)

        def work() -> None:
            self.encoder.load_model()  # Retrain would not miss it, but all that comes after
            if count == 1:
                self._serve(self.settled(label), self.placed(label, self.settled(label)).path)
                return
            trials = labelled([own, *draw_trials(own, count - 1, self.encoder, self.fraction)], label)
            placed = [(method, self.placed(own_label, method).path) for method, own_label in trials]
            pick(serve_all(placed, self._serve), self.retrain, self.encoder, self.options.runtime)

        def done() -> bool:
            return self.is_settled(label) and self.chosen(label).done

        tried = [RunFolder(self.folder / name) for _, name in labelled([own] * count, label)]
        left = sum(share_left(run, self.epochs(own)) for run in (tried if count > 1 else [self.chosen(label)]))
        seconds = left * self.method_seconds(own) + (count * JUDGING_SECONDS if count > 1 else 0.0)
        return Step(f"{label} ×{count} for {self.folder.name}", seconds, done, work)

    def _serve(self, method: Method, place: Path) -> RunFolder:
        request = config.Request(forget_fraction=self.fraction)
        return serve(self.encoder, method, request, place, self.options.runtime)

    def evaluate(self, labels: Iterable[str]) -> Step:
        """All metrics of the original, Retrain and the chosen run of each label."""
        others = [label for label in labels if label != "retrain"]

        def work() -> None:
            judged = [self.encoder, *(self.chosen(label) for label in others)]
            evaluate_runs(judged, self.retrain, self.options.runtime, keep=True)

        seconds = EVALUATION_SECONDS * (2 + len(others))
        return Step(f"evaluate {self.folder.name}", seconds, lambda: bool(self.records(others)), work)

    def records(self, labels: Iterable[str]) -> list[dict[str, Any]]:
        """Those of the original, Retrain and the chosen run of each label; none unless all are there, and of these very
        models."""
        others = [label for label in labels if label != "retrain"]
        judged = [self.encoder, self.retrain, *map(self.chosen, others)]
        if not all(map(self.is_settled, others)) or not all(run.done for run in judged):
            return []
        found = [record for run in judged if (record := kept_record(run, self.retrain))]
        return found if len(found) == len(judged) else []

    def epochs(self, method: Method) -> int:
        return method.epochs or self.settings.optimisation.epochs

    def method_seconds(self, method: Method) -> float:
        return self.epochs(method) * share_passed(method, self.fraction) * epoch_seconds(self.settings) + START_SECONDS


def without_place(settings: config.Pretraining) -> config.Pretraining:
    """Where data lie and how they are read is not what an encoder is."""
    data = replace(settings.data, name=Path(settings.data.name).name, root=None, stream="auto")
    return replace(settings, data=data)


def flattened(settings: config.Pretraining) -> dict[str, Any]:
    """{"model queue_size": 4096, ...}"""
    return {
        f"{part} {key}".strip(): value
        for part, values in asdict(settings).items()
        for key, value in (values if isinstance(values, dict) else {"": values}).items()
    }
