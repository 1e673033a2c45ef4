"""How far a method is from Retrain: the direction of every metric is "match", not "lower"."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations
from statistics import fmean
from typing import TypeAlias

Metrics: TypeAlias = Mapping[str, float]
Distance: TypeAlias = Callable[[Metrics, Metrics], float]
"""Of a method's metrics from Retrain's."""

METRICS = ("EMIA", "RA", "TA", "UA", "CMIA")
AUC = "unlearn_AUC"
PAIR_METRICS = ("retain_similarity", "unlearn_similarity")
"""What the paper compares of image-text models."""


def compared(metrics: Metrics) -> tuple[str, ...]:
    """The metrics whose gaps make up AG: the paper's five, or its two for image-text models."""
    return PAIR_METRICS if PAIR_METRICS[0] in metrics else METRICS


def average_gap(metrics: Metrics, retrain: Metrics) -> float:
    return gaps(metrics, retrain)["AG"]


def of_means(
    trials: Sequence[tuple[Metrics, Metrics]], names: Sequence[str], of: Distance = average_gap
) -> float | None:
    """Between the means over trials of (a method, Retrain), in which chance partly cancels, as the paper has it. Never
    above the mean of the trials' own. None with one trial."""
    if len(trials) < 2:
        return None
    mine, exact = ({name: fmean(trial[side][name] for trial in trials) for name in names} for side in (0, 1))
    return of(mine, exact)


def apart(retrains: Iterable[Metrics], of: Distance = average_gap) -> float | None:
    """The mean from one Retrain to another: what chance alone makes of it. None with one."""
    pairs = list(combinations(retrains, 2))
    return fmean(of(a, b) for a, b in pairs) if pairs else None


def gaps(metrics: Metrics, retrain: Metrics) -> dict[str, float]:
    """|metric - Retrain's| for the metrics of the paper, their mean AG, and AGP in %; for the five, two more averages.

    AGP divides each gap by Retrain's value; a metric that is 0 there has no ratio and is left out of AGP.
    """
    names = compared(metrics)
    gap = {name: abs(metrics[name] - retrain[name]) for name in names}
    ratios = [gap[name] / abs(retrain[name]) for name in names if retrain[name] != 0]
    return {
        **{f"{name}_gap": value for name, value in gap.items()},
        "AG": sum(gap.values()) / len(gap),
        **(_beside_pairs(metrics, retrain) if names == PAIR_METRICS else _other_averages(gap, metrics, retrain)),
        "AGP": 100 * sum(ratios) / len(ratios) if ratios else float("nan"),
    }


def _other_averages(gap: Metrics, metrics: Metrics, retrain: Metrics) -> dict[str, float]:
    """Without EMIA, as the paper's table 14; and without the decisions of either attack: where they hardly work, small
    changes of a threshold move many images, and the AUC of the images to forget (in points) says the same calmly."""
    classifier = [value for name, value in gap.items() if name != "EMIA"]
    found = {"AG_classifier": sum(classifier) / len(classifier)}
    if AUC in metrics and AUC in retrain:
        calm = [100 * abs(metrics[AUC] - retrain[AUC]), gap["RA"], gap["TA"], gap["UA"]]
        found["AG_auc"] = sum(calm) / len(calm)
    return found


def _beside_pairs(metrics: Metrics, retrain: Metrics) -> dict[str, float]:
    """The gap on test pairs, which the paper's AG leaves out."""
    name = "test_similarity"
    return {f"{name}_gap": abs(metrics[name] - retrain[name])} if name in metrics and name in retrain else {}


def gaps_to_held_out(metrics: Metrics, original: Metrics) -> dict[str, float]:
    """Gaps where nobody has retrained: a stand-in for Retrain that needs no training.

    A perfectly unlearned model treats the images to forget as it treats images it never saw (EMIA, UA, CMIA of
    held-out images, AUC 0.5; of pairs, their similarity), and all others as the original did (RA, TA).
    """
    if compared(metrics) == PAIR_METRICS:
        return gaps(
            metrics,
            {
                "retain_similarity": original["retain_similarity"],
                "unlearn_similarity": metrics["held_out_similarity"],
                "test_similarity": original["test_similarity"],
            },
        )
    reference = {
        "EMIA": metrics["held_out_EMIA"],
        "RA": original["RA"],
        "TA": original["TA"],
        "UA": metrics["held_out_accuracy"],
        "CMIA": metrics["held_out_CMIA"],
        AUC: 0.5,
    }
    return gaps(metrics, reference)
