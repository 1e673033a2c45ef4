"""How far a method is from Retrain: the direction of every metric is "match", not "lower"."""

from collections.abc import Mapping

METRICS = ("EMIA", "RA", "TA", "UA", "CMIA")


def gaps(metrics: Mapping[str, float], retrain: Mapping[str, float]) -> dict[str, float]:
    """|metric - Retrain's| for the five metrics of the paper, their mean AG, AG without EMIA, and AGP in %.

    AGP divides each gap by Retrain's value; a metric that is 0 there has no ratio and is left out of AGP.
    """
    gap = {name: abs(metrics[name] - retrain[name]) for name in METRICS}
    classifier = [gap[name] for name in METRICS if name != "EMIA"]
    ratios = [gap[name] / retrain[name] for name in METRICS if retrain[name] != 0]
    return {
        **{f"{name}_gap": value for name, value in gap.items()},
        "AG": sum(gap.values()) / len(gap),
        "AG_classifier": sum(classifier) / len(classifier),
        "AGP": 100 * sum(ratios) / len(ratios) if ratios else float("nan"),
    }


def gaps_to_held_out(metrics: Mapping[str, float], original: Mapping[str, float]) -> dict[str, float]:
    """Gaps where nobody has retrained: a stand-in for Retrain that needs no training.

    A perfectly unlearned model treats the images to forget as it treats images it never saw (EMIA, UA, CMIA of
    held-out images), and all others as the original did (RA, TA).
    """
    reference = {
        "EMIA": metrics["held_out_EMIA"],
        "RA": original["RA"],
        "TA": original["TA"],
        "UA": metrics["held_out_accuracy"],
        "CMIA": metrics["held_out_CMIA"],
    }
    return gaps(metrics, reference)
