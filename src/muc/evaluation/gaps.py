"""How far a method is from Retrain: the direction of every metric is "match", not "lower"."""

from collections.abc import Mapping

METRICS = ("EMIA", "RA", "TA", "UA", "CMIA")
PAIR_METRICS = ("retain_similarity", "unlearn_similarity")
"""What the paper compares of image-text models."""


def compared(metrics: Mapping[str, float]) -> tuple[str, ...]:
    """The metrics whose gaps make up AG: the paper's five, or its two for image-text models."""
    return PAIR_METRICS if PAIR_METRICS[0] in metrics else METRICS


def gaps(metrics: Mapping[str, float], retrain: Mapping[str, float]) -> dict[str, float]:
    """|metric - Retrain's| for the metrics of the paper, their mean AG, and AGP in %; for the five, AG without EMIA.

    AGP divides each gap by Retrain's value; a metric that is 0 there has no ratio and is left out of AGP.
    """
    names = compared(metrics)
    gap = {name: abs(metrics[name] - retrain[name]) for name in names}
    ratios = [gap[name] / abs(retrain[name]) for name in names if retrain[name] != 0]
    return {
        **{f"{name}_gap": value for name, value in gap.items()},
        "AG": sum(gap.values()) / len(gap),
        **(_beside_pairs(metrics, retrain) if names == PAIR_METRICS else _without_emia(gap)),
        "AGP": 100 * sum(ratios) / len(ratios) if ratios else float("nan"),
    }


def _without_emia(gap: Mapping[str, float]) -> dict[str, float]:
    classifier = [value for name, value in gap.items() if name != "EMIA"]
    return {"AG_classifier": sum(classifier) / len(classifier)}


def _beside_pairs(metrics: Mapping[str, float], retrain: Mapping[str, float]) -> dict[str, float]:
    """The gap on test pairs, which the paper's AG leaves out."""
    name = "test_similarity"
    return {f"{name}_gap": abs(metrics[name] - retrain[name])} if name in metrics and name in retrain else {}


def gaps_to_held_out(metrics: Mapping[str, float], original: Mapping[str, float]) -> dict[str, float]:
    """Gaps where nobody has retrained: a stand-in for Retrain that needs no training.

    A perfectly unlearned model treats the images to forget as it treats images it never saw (EMIA, UA, CMIA of
    held-out images; of pairs, their similarity), and all others as the original did (RA, TA).
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
    }
    return gaps(metrics, reference)
