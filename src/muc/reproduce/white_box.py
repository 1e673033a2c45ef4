"""The paper's white-box tables: every method's metrics and gaps to Retrain, beside the paper's."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from muc.report import write_report
from muc.report.cells import Table
from muc.report.charts import gap_chart
from muc.report.group import compare
from muc.report.tables import all_tables
from muc.reproduce.choices import write_choices
from muc.reproduce.provenance import ABOUT_READING, where_settings_come_from, without_searched_seed
from muc.reproduce.recipe import FIVE, UNIMODAL, Options, Recipe, Step, algorithms_for
from muc.reproduce.trial import Trial, encoder_settings
from muc.storage import write_bytes


@dataclass(frozen=True)
class WhiteBox(Recipe):
    """One table: a data set, an architecture, a share to forget, for one or two algorithms."""

    seeds: ClassVar[tuple[int, ...]] = FIVE

    data: str
    fraction: float
    known: tuple[str, ...] = UNIMODAL
    architecture: str = "resnet18"

    def trials(self, algorithm: str, options: Options) -> list[Trial]:
        """One a seed."""
        settings = [encoder_settings(self.data, algorithm, s, options, self.architecture) for s in options.seeds]
        return Trial.of_seeds(settings, self.fraction, options)

    def all_trials(self, options: Options) -> list[list[Trial]]:
        """Of each algorithm one a seed."""
        return [self.trials(algorithm, options) for algorithm in algorithms_for(options, self.known)]

    def steps(self, options: Options, out: Path) -> list[Step]:
        return [step for own in self.all_trials(options) for trial in own for step in trial.steps()]

    def found(self, options: Options) -> list[dict[str, Any]]:
        """The records of all algorithms and seeds."""
        return [r for own in self.all_trials(options) for trial in own for r in trial.records(options.methods)]

    def write(self, options: Options, out: Path) -> tuple[Path, list[Table]]:
        records, trials = self.found(options), self.all_trials(options)
        write_choices([own[0] for own in trials], options.methods, out)
        charts = {}
        for comparison in (compared := compare(records)):
            end = f"-{comparison.setting.algorithm}" if len(compared) > 1 else ""
            if image := gap_chart(comparison):
                charts[out / f"gaps{end}.png"] = image
        for path, image in charts.items():
            write_bytes(path, image)
        for earlier in set(out.glob("gaps*.png")) - charts.keys():
            earlier.unlink()
        notes = [
            where_settings_come_from(options, [t for own in trials for t in own]),
            *without_searched_seed(records, options, [t for own in trials for t in own]),
            ABOUT_READING[options.reading],
        ]
        return write_report(records, out, self.heading(options), notes=notes), all_tables(records)


class ResNet50(WhiteBox):
    """The paper does not say over how many trials."""

    seeds: ClassVar[tuple[int, ...]] = (0,)


RECIPES = {
    "cifar10-10": WhiteBox("CIFAR-10, 10 % forgotten (the paper's table 2)", "cifar10", 0.1),
    "cifar10-50": WhiteBox("CIFAR-10, 50 % forgotten (table 3)", "cifar10", 0.5),
    "cifar100-10": WhiteBox("CIFAR-100, 10 % forgotten (table 4)", "cifar100", 0.1),
    "cifar100-50": WhiteBox("CIFAR-100, 50 % forgotten (table 5)", "cifar100", 0.5),
    "svhn": WhiteBox("SVHN, 10 % forgotten (table 6)", "svhn", 0.1, ("moco",)),
    "resnet50": ResNet50("ResNet-50, CIFAR-10, 10 % forgotten (table 12)", "cifar10", 0.1, ("moco",), "resnet50"),
}
