"""Membership inference: how well training images can be told from others, and what that says of those to forget.

Pure functions on scores; higher scores mean "more like a member".
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import rankdata

from muc.evaluation import svm

THRESHOLDS = np.linspace(0.0, 1.0, 501)
SMALL = 2000  # points that scikit-learn's SVC learns in no time; it takes minutes for many


def best_threshold(members: ArrayLike, others: ArrayLike) -> tuple[float, float]:
    """-> (threshold, accuracy): of 501 points on [0, 1] the first that tells members (>=) from others best."""
    members, others = np.sort(np.asarray(members)), np.sort(np.asarray(others))
    missed, rejected = (np.searchsorted(scores, THRESHOLDS, side="left") for scores in (members, others))
    right = len(members) - missed + rejected  # whole numbers: equally good thresholds must be exactly equal
    best = int(right.argmax())
    return float(THRESHOLDS[best]), float(right[best] / (len(members) + len(others)))


def threshold_curve(members: ArrayLike, others: ArrayLike, unlearned: ArrayLike) -> list[dict[str, float]]:
    """Attack accuracy and EMIA at every threshold: shows how flat the first is where the second moves."""
    members, others, unlearned = (np.asarray(a) for a in (members, others, unlearned))
    return [
        {
            "threshold": float(t),
            "accuracy": float(((members >= t).sum() + (others < t).sum()) / (len(members) + len(others))),
            "emia": float(100 * (unlearned < t).mean()),
        }
        for t in THRESHOLDS
    ]


def as_good(accuracy: ArrayLike, images: int) -> np.ndarray:
    """Which thresholds so many images cannot tell from the best: within the accuracy's standard error of it."""
    accuracy = np.asarray(accuracy)
    best = accuracy.max()
    return accuracy >= best - np.sqrt(best * (1 - best) / images)


def auc(members: ArrayLike, others: ArrayLike) -> float:
    """The chance that a random member scores higher than a random other image (ties count half)."""
    members, others = np.asarray(members), np.asarray(others)
    ranks = rankdata(np.concatenate([members, others]))[: len(members)]
    return float((ranks.sum() - len(members) * (len(members) + 1) / 2) / (len(members) * len(others)))


def tpr_at_fpr(members: ArrayLike, others: ArrayLike, fpr: float = 0.01) -> float:
    """Share of members found by the lowest threshold that takes at most `fpr` of the others for members."""
    members, others = np.asarray(members), np.sort(np.asarray(others))
    allowed = int(np.floor(fpr * len(others)))
    threshold = others[len(others) - 1 - allowed]
    return float((members > threshold).mean())


def emia(members: ArrayLike, others: ArrayLike, unlearned: ArrayLike, held_out: ArrayLike) -> dict[str, float]:
    """The encoder attack on alignment scores: % of the unlearned taken for non-members, and how good the attack is."""
    threshold, accuracy = best_threshold(members, others)
    return {
        "EMIA": float(100 * (np.asarray(unlearned, dtype=np.float64) < threshold).mean()),
        "held_out_EMIA": float(100 * (np.asarray(held_out, dtype=np.float64) < threshold).mean()),
        "EMIA_threshold": threshold,
        "EMIA_accuracy": 100 * accuracy,
        "EMIA_AUC": auc(members, others),
        "EMIA_TPR_at_1_FPR": 100 * tpr_at_fpr(members, others),
    }


def cmia(members: ArrayLike, others: ArrayLike, unlearned: ArrayLike, held_out: ArrayLike) -> dict[str, float]:
    """The classifier attack on the true class's confidence: % of the unlearned an RBF-SVM takes for non-members."""
    arrays = [np.asarray(a, dtype=np.float64) for a in (members, others, unlearned, held_out)]
    decision = _attack(arrays[0], arrays[1])
    rejected = [float(100 * (decision(confidence) <= 0).mean()) for confidence in arrays[2:]]
    return {"CMIA": rejected[0], "held_out_CMIA": rejected[1]}


def _attack(members: np.ndarray, others: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """-> the decision function of SVC(C=3, kernel="rbf", gamma="auto"): above zero for members."""
    if len(members) + len(others) > SMALL:
        return svm.train(members, others, cost=3.0).decision
    from sklearn.svm import SVC

    labels = np.concatenate([np.ones(len(members)), np.zeros(len(others))])
    machine = SVC(C=3.0, kernel="rbf", gamma="auto").fit(np.concatenate([members, others])[:, None], labels)
    return lambda confidence: machine.decision_function(confidence[:, None])
