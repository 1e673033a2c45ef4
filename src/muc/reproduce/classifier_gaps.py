"""Table 14: the mean gap over RA, TA, UA and CMIA, with hyper-parameters chosen by this mean.

Where settings were searched for, the trials are looked at again: on the first seed the one with the smallest
classifier-level gap on validation images counts, and later seeds get its settings.
"""

from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from muc import opening
from muc.errors import UserError
from muc.evaluation.gaps import gaps
from muc.report.cells import NOT_MEANT, Cell, Table
from muc.report.group import Entry, compare
from muc.reproduce.from_records import Found, FromRecords, Metrics, errata, methods_of, rows_of, score_cell
from muc.reproduce.recipe import Options, Step
from muc.reproduce.trial import Trial
from muc.run_folder import RunFolder
from muc.storage import read_json

METRICS = ("RA", "TA", "UA", "CMIA")
CRITERION = "AG_classifier"


def classifier_gap(metrics: Metrics, retrain: Metrics) -> float:
    return gaps(metrics, retrain)[CRITERION]


@dataclass(frozen=True)
class Reselected(Trial):
    """A trial whose methods have the settings with the smallest classifier-level gap."""

    first: "Reselected | None" = None
    """The trial with the search; None: this one."""

    def chosen(self, label: str) -> RunFolder:
        if self.first is not None:
            wanted, usual = self.first.chosen(label), Trial.chosen(self.first, label)
            same = not wanted.started or opening.method_of(wanted) == opening.method_of(usual)
            return RunFolder(self.folder / (label if same else f"{label}-classifier"))
        found = self.folder / label / "search.json"
        if not found.exists():
            return RunFolder(self.folder / label)
        tried = read_json(found)
        if any(CRITERION not in trial for trial in tried):
            raise UserError(f"{found} does not hold the trials' {CRITERION}; delete it and run the same command again")
        return RunFolder(self.folder / Path(min(tried, key=lambda trial: trial[CRITERION])["run"]).name)

    def steps(self, like: Trial | None = None) -> list[Step]:
        if self.first is None:
            return super().steps(like)
        approximate = [name for name in self.options.methods if name != "retrain"]
        served = [self.serve_as(name, self.first) for name in approximate]
        return [self.pretrain(), self.serve("retrain"), *served, self.evaluate(self.options.methods)]

    def serve_as(self, name: str, first: "Reselected") -> Step:
        """With the settings re-selected on the first seed, which are known only then."""

        def work() -> None:
            self._serve(opening.method_of(first.chosen(name)) or self.method(name), self.chosen(name).path.name)

        def done() -> bool:
            wanted = first.chosen(name)
            return wanted.done and self.holds(self.chosen(name).path.name, opening.method_of(wanted))

        return Step(f"{name} as re-selected for {self.folder.name}", self.method_seconds(self.method(name)), done, work)


@dataclass(frozen=True)
class ClassifierGaps(FromRecords):
    """Table 14."""

    def trials(self, options: Options) -> list[tuple[str, float, list[Reselected]]]:
        """(algorithm, share, one a seed) of every setting."""
        made = []
        for source in self.sources(options):
            usual = source.trials(source.known[0], options)
            first = Reselected(usual[0].settings, source.fraction, options)
            others = [Reselected(t.settings, source.fraction, options, first=first) for t in usual[1:]]
            made.append((source.known[0], source.fraction, [first, *others]))
        return made

    def steps(self, options: Options, out: Path) -> list[Step]:
        steps = [step for *_, trials in self.trials(options) for trial in trials for step in trial.steps()]
        return list({step.name: step for step in steps}.values())

    def found(self, options: Options) -> list[Found]:
        return [
            Found(self.data, algorithm, fraction, compare([r for t in trials for r in t.records(options.methods)])[0])
            for algorithm, fraction, trials in self.trials(options)
        ]

    def tables(self, found: list[Found]) -> list[Table]:
        def cells(f: Found, entry: Entry) -> list[Cell]:
            row = f.printed("classifier_level_gap").get(entry.method, {})
            theirs = row.get("avg_std_cls")
            deviation = Cell(_mean_deviation(entry), paper=None if theirs is None else f"{theirs:.2f}")
            return [score_cell(f, entry, classifier_gap, 2, row.get("avg_gap_cls")), deviation]

        caption = (
            "Mean gap to Retrain over RA, TA, UA and CMIA; where settings were searched for, they were chosen by this "
            "mean on validation images. The smallest is bold; below: between means over seeds, as the paper has it. "
            f"SD: mean over the four metrics of their deviation over seeds. {errata('classifier_level_gap', self.data)}"
        )
        return [
            Table(
                title="Average gap without EMIA",
                caption=caption.strip(),
                columns=("Method", *(f"{f.name} {what}" for f in found for what in ("AG cls", "SD"))),
                rows=rows_of(found, methods_of(found, "retrain"), cells),
            )
        ]


def _mean_deviation(entry: Entry) -> str:
    deviations = [found.sd for m in METRICS if (found := entry.metric(m)) and found.sd is not None]
    return f"{fmean(deviations):.2f}" if deviations else NOT_MEANT


RECIPES = {
    "classifier-gaps": ClassifierGaps("Gaps without EMIA on CIFAR-10 (the paper's table 14)"),
    "classifier-gaps-cifar100": ClassifierGaps("Gaps without EMIA on CIFAR-100 (the paper's table 14)", "cifar100"),
}
