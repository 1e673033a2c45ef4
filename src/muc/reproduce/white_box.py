"""The paper's white-box tables: every method's metrics and gaps to Retrain, beside the paper's."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from muc.reproduce.steps import (
    Options,
    Step,
    encoder_settings,
    evaluate_step,
    method_step,
    pretrain_step,
    records,
    request_folder,
)


@dataclass(frozen=True)
class WhiteBox:
    """One table: a data set, an architecture, a share to forget, for one or two algorithms."""

    title: str
    data: str
    fraction: float
    algorithms: tuple[str, ...] = ("moco", "simclr")
    architecture: str = "resnet18"

    def steps(self, options: Options) -> list[Step]:
        """Encoders, Retrain, methods, evaluation; hyper-parameters are chosen on the first seed and then fixed."""
        made: list[Step] = []
        for algorithm in self.algorithms:
            searched: Path | None = None
            for seed in options.seeds:
                settings = encoder_settings(self.data, algorithm, self.architecture, seed, options)
                made.append(pretrain_step(settings, options))
                order = sorted(options.methods, key=lambda name: name != "retrain")  # searches look at Retrain
                made += [method_step(settings, self.fraction, name, options, like=searched) for name in order]
                made.append(evaluate_step(settings, self.fraction, options))
                searched = searched or request_folder(settings, self.fraction, options)
        return made

    def found(self, options: Options) -> list[dict[str, Any]]:
        """The records of all algorithms and seeds."""
        return [
            record
            for algorithm in self.algorithms
            for seed in options.seeds
            for record in records(
                encoder_settings(self.data, algorithm, self.architecture, seed, options), self.fraction, options
            )
        ]

    def write(self, options: Options, name: str) -> Path:
        """The table in all formats. -> the page's path."""
        from muc.report import write_report

        title = f"Smoke test, the numbers mean nothing: {self.title}" if options.smoke else self.title
        return write_report(self.found(options), options.out / name, title)


TABLES = {
    "cifar10-10": WhiteBox("CIFAR-10, 10 % forgotten (the paper's table 2)", "cifar10", 0.1),
    "cifar10-50": WhiteBox("CIFAR-10, 50 % forgotten (table 3)", "cifar10", 0.5),
    "cifar100-10": WhiteBox("CIFAR-100, 10 % forgotten (table 4)", "cifar100", 0.1),
    "cifar100-50": WhiteBox("CIFAR-100, 50 % forgotten (table 5)", "cifar100", 0.5),
    "svhn": WhiteBox("SVHN, 10 % forgotten (table 6)", "svhn", 0.1, ("moco",)),
    "resnet50": WhiteBox("ResNet-50, CIFAR-10, 10 % forgotten (table 12)", "cifar10", 0.1, ("moco",), "resnet50"),
}


def restricted(table: WhiteBox, algorithms: Sequence[str]) -> WhiteBox:
    """The table for some of its algorithms."""
    kept = tuple(name for name in table.algorithms if name in algorithms)
    return replace(table, algorithms=kept or table.algorithms)
