"""What a model owner does on receiving a request: try the methods, judge them by evidence, name the run to publish."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from muc import config, opening, runs
from muc.data import apply_request, plan_batches
from muc.errors import UserError
from muc.evaluation.gaps import METRICS, compared, gaps_to_held_out
from muc.evaluation.records import check_retrain, evaluate_runs
from muc.methods import METHODS, Method, Retrain, usual_methods
from muc.methods.recipes import default_method
from muc.report.sources import COMPARISON
from muc.report.summary import SOMETHING
from muc.report.words import method_name, metric_name, minutes
from muc.run_folder import RunFolder
from muc.search import draw_trials, labelled, pick, serve_all
from muc.split import Split
from muc.storage import write_json

LOST = {"lost_retain_accuracy": "RA", "lost_test_accuracy": "TA"}
LOST_OF_PAIRS = {"lost_retain_similarity": "retain_similarity", "lost_test_similarity": "test_similarity"}


@dataclass(frozen=True)
class Comparison:
    """All records (the original's first), candidates ranked best first, and the reasons."""

    records: list[dict[str, Any]]
    ranking: list[dict[str, Any]]
    original_gap: float
    """By the same measure: what a method has to beat."""
    retrained: bool

    @property
    def publish(self) -> str | None:
        """The closest run; None where doing nothing is at least as close."""
        first = self.ranking[0]
        return first["run"] if first["AG"] < self.original_gap else None

    def to_json(self) -> dict[str, Any]:
        return {
            "publish": self.publish,
            "caveats": caveats(self),
            "judged_against": "retrain" if self.retrained else "the original model and held-out images",
            "original_AG": self.original_gap,
            "ranking": self.ranking,
            "records": self.records,
        }


def compare(
    original: RunFolder,
    request: config.Request,
    out: Path,
    methods: Sequence[str] = (),
    against: RunFolder | None = None,
    search: int = 0,
    runtime: config.Runtime | None = None,
) -> Comparison:
    """Serve the request with each method (`search` trials each, if asked) and rank the results.

    With Retrain among the methods, or an earlier Retrain run in `against`, methods are ranked by their average gap
    to it. Without, by how far they are from treating the images to forget like held-out ones, and from leaving the
    rest as it was. Finished runs in `out` are used again, so a comparison that was cut off goes on.
    """
    settings = opening.pretraining_of(original)
    methods = methods or usual_methods(settings.model.algorithm)
    wanted = check_before(original, request, methods, against, search)
    fraction = len(wanted.unlearn) / len(wanted.train)
    planned: dict[str, list[tuple[Method, Path]]] = {}
    for name in sorted(dict.fromkeys(methods), key=lambda name: name != "retrain"):  # first: searches look at it
        method = default_method(name, settings.data.name, settings.model.algorithm)
        if not isinstance(method, Retrain):
            trials = [method, *draw_trials(method, search - 1, original, fraction)] if search else [method]
            planned[name] = [(trial, out / label) for trial, label in labelled(trials, name)]
        elif against is None:
            planned[name] = [(method, out / name)]
    for method, place in chain(*planned.values()):  # all of them before anything is trained
        if (run := RunFolder(place)).started:
            refuse_other(run, original, method, wanted)
    candidates: list[RunFolder] = []
    for name, trials in planned.items():
        served = serve_all(trials, lambda method, place: finished(place, original, method, request, runtime))
        if name == "retrain":
            (against,) = served
        else:
            candidates.append(served[0] if len(served) == 1 else pick(served, against, original, runtime))
    records = evaluate_runs([original, *candidates], against, runtime, keep=True)
    if against is None:  # not by gaps that a run has kept to a Retrain which others were not measured against
        records = [{**record, "gaps": None, "against": None} for record in records]
    first, *rest = records[1:] if against else records
    comparison = Comparison(records, rank(first, rest), gaps_of(first, first)["AG"], against is not None)
    write_json(out / COMPARISON, comparison.to_json())
    return comparison


def check_before(
    original: RunFolder, request: config.Request, methods: Sequence[str], against: RunFolder | None, search: int
) -> Split:
    """Refuse what cannot end well before anything is trained. -> the split of the runs to come"""
    if not set(methods) - {"retrain"}:
        raise UserError("there is nothing to compare; give at least one method besides retrain")
    config.whole("search", search, 0, 1000)
    wanted = wanted_of(original, request)
    if search > 1 and not len(wanted.validation):
        left = "" if not len(original.split().validation) else " left after this request"
        raise UserError(
            f"{original} has no validation images{left} to search with; leave --search out, or hold images out from "
            "the beginning with --validation-fraction 0.1 (in an import: if it was not trained on them)"
        )
    settings = opening.pretraining_of(original)
    for name in methods:  # one that cannot serve the request says so before others have trained
        plan_batches(wanted.retain, wanted.unlearn, METHODS[name].rows, settings.optimisation.batch_size, 0)
    if against:
        against.result()  # refuses an unfinished one
        if sorted(against.split().unlearn) != sorted(wanted.unlearn):
            raise UserError(f"{against} does not serve this request; give a Retrain run of the same images")
        check_retrain(against)
        if against.original_sha256() != original.result()["model_sha256"]:
            raise UserError(f"{against} was not made from {original}; give a Retrain run of it")
    return wanted


def wanted_of(original: RunFolder, request: config.Request) -> Split:
    """The split of runs that serve the request."""
    split = original.split()
    return apply_request(split, request, opening.open_images(original, split.kept))


def serve(
    original: RunFolder, method: Method, request: config.Request, out: Path, runtime: config.Runtime | None
) -> RunFolder:
    """The finished run in `out`, an interrupted one continued, or a new one."""
    run = RunFolder(out)
    if run.started:
        refuse_other(run, original, method, wanted_of(original, request))
    return finished(out, original, method, request, runtime)


def finished(
    place: Path, original: RunFolder, method: Method, request: config.Request, runtime: config.Runtime | None
) -> RunFolder:
    run = RunFolder(place)
    if not run.started:
        return runs.unlearn_run(original, method, request, place, runtime)
    return run if run.done else runs.resume_run(run)


def refuse_other(run: RunFolder, original: RunFolder, method: Method, wanted: Split) -> None:
    """What was started there must be what is to be there."""
    same = opening.method_of(run) == method and run.original_sha256() == original.result()["model_sha256"]
    if not same or not same_images(run.split(), wanted):
        raise UserError(f"{run} holds another run (other method, settings or request); give another --out")


def same_images(split: Split, other: Split) -> bool:
    """Those forgotten, and those held out: a request may take some of these away."""
    pairs = ((split.unlearn, other.unlearn), (split.validation, other.validation))
    return all(np.array_equal(np.sort(a), np.sort(b)) for a, b in pairs)


def gaps_of(record: dict[str, Any], original: dict[str, Any]) -> dict[str, float]:
    """To Retrain, or, where nobody has retrained, to its stand-in."""
    return record["gaps"] or gaps_to_held_out(record["metrics"], original["metrics"])


def rank(original: dict[str, Any], candidates: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Candidates by average gap, best first, each with what stands behind its place and what would be lost."""
    rows = []
    for record in candidates:
        metrics, names = record["metrics"], compared(record["metrics"])
        gap = gaps_of(record, original)
        worst = max(names, key=lambda name: gap[f"{name}_gap"])
        rows.append(
            {
                "run": record["run"],
                "method": record["method"],
                "AG": gap["AG"],
                **({"AG_auc": gap["AG_auc"]} if "AG_auc" in gap else {}),  # not of pairs
                "largest_gap": {"metric": worst, "points": gap[f"{worst}_gap"]},
                "forgetting_score": metrics["FS"],
                "unlearn_AUC": metrics["unlearn_AUC"],
                **{
                    lost: original["metrics"][name] - metrics[name]
                    for lost, name in (LOST if names == METRICS else LOST_OF_PAIRS).items()
                },
                "minutes": metrics["RTE_minutes"],
            }
        )
    return sorted(rows, key=lambda row: row["AG"])


def losses(row: dict[str, Any]) -> str:
    """What of the rest changed: "retain accuracy -0.10 and test accuracy +0.20"."""
    changes = [(name, -value) for name, value in row.items() if name.startswith("lost_")]
    return " and ".join(
        f"{name.removeprefix('lost_').replace('_', ' ')} {round(change, 2) + 0.0:+.2f}" for name, change in changes
    )


def reasons(comparison: Comparison) -> list[str]:
    """The ranking in words."""
    against = "Retrain" if comparison.retrained else "held-out images and the original model (there is no Retrain)"
    lines = [f"Ranked by average gap to {against}:"]
    for place, row in enumerate(comparison.ranking, start=1):
        worst = row["largest_gap"]
        lines.append(
            f"{place}. {method_name(row['method'])}: average gap {row['AG']:.2f} points, largest in "
            f"{metric_name(worst['metric'])} "
            f"({worst['points']:.2f}); forgetting score {row['forgetting_score']:+.4f}, AUC {row['unlearn_AUC']:.3f}; "
            f"against the original, {losses(row)} points; took {minutes(row['minutes'])}"
        )
    return [*lines, *caveats(comparison), recommendation(comparison)]


def recommendation(comparison: Comparison) -> str:
    if comparison.publish is not None:
        return f"Run to publish: {comparison.publish}"
    return (
        "No run can be recommended: the original as it is has no larger average gap than any of them; "
        f"the closest is {comparison.ranking[0]['run']}"
    )


def caveats(comparison: Comparison) -> list[str]:
    """What a ranking by average gap does not say: where the original stands, and whether a threshold decided it."""
    first, levels = comparison.ranking[0], {r["method"]: r["metrics"]["unlearn_AUC"] for r in comparison.records}
    lines = [
        f"The original as it is: average gap {comparison.original_gap:.2f} points, AUC {levels['pretrain']:.3f}. "
        + (f"Retrain: AUC {levels['retrain']:.3f}. " if comparison.retrained else "")
        + "(AUC: how well what is to be forgotten is told from unseen data; 0.5 is not at all.)"
    ]
    if comparison.retrained and levels["pretrain"] - levels["retrain"] < SOMETHING:
        lines.append("There was hardly anything to forget: small gaps say little about a method.")
    if not comparison.retrained and levels["pretrain"] < 0.5 + SOMETHING:
        lines.append(
            "The original hardly tells what is to be forgotten from unseen data: there may be nothing to forget."
        )
    images = comparison.records[0].get("forget_images", 0)
    step = 100 / images / len(METRICS) if images else 0.0
    if "AG_auc" in first and abs(comparison.original_gap - first["AG"]) < step:
        lines.append(
            f"With {images} images to forget, one image in one metric moves an average gap by {step:.2f} points: the "
            "lead over doing nothing can be chance."
        )
    calm = min(comparison.ranking, key=lambda row: row.get("AG_auc", float("inf")))
    if "AG_auc" in calm and calm is not first:
        lines.append(
            f"By AG auc, on which no attack's threshold has a say, {method_name(calm['method'])} is closest "
            f"({calm['AG_auc']:.2f}; {method_name(first['method'])}: {first['AG_auc']:.2f})."
        )
    if first["AG"] >= comparison.original_gap:
        lines.append("By its average gap no method is better than doing nothing: look at the AUC before you choose.")
    return lines
