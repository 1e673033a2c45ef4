"""The words of tables and pages: names of methods and settings, and what each column means."""

from collections.abc import Iterable
from typing import Any

from muc.report.group import Entry, Setting, Stat, show

METHODS = {
    "pretrain": "Original",
    "retrain": "Retrain",
    "finetune": "Fine-tune",
    "gradient_ascent": "Gradient ascent",
    "neggrad": "NegGrad",
    "l1_sparsity": "ℓ1-sparsity",
    "alignment_calibration": "Alignment Calibration",
    "balanced_calibration": "Balanced Calibration",
}
DATA = {
    "cifar10": "CIFAR-10",
    "cifar100": "CIFAR-100",
    "svhn": "SVHN",
    "glyphs": "Glyphs",
    "glyph-pairs": "Glyphs with names",
    "digits": "Digits",
}
ALGORITHMS = {"simclr": "SimCLR", "moco": "MoCo", "clip": "CLIP"}

METRICS = {"retain_similarity": "Retain", "unlearn_similarity": "Unlearn", "test_similarity": "Test"}
"""Names of metrics in tables, where they have another than their own."""

GLOSSARY = (
    (
        "Retrain",
        "A model trained again from the start without the images to forget: exact unlearning. It is the target.",
    ),
    ("Original", "The model before unlearning, trained on everything."),
    (
        "gap",
        "How far a value is from Retrain's value of the same seed, in either direction. The best value is the one that "
        "matches Retrain, not the highest or lowest.",
    ),
    (
        "FS",
        "Forgetting score: how much less alike two views of an image to forget (of image-text models: the image and "
        "its caption) look to the model than before. 0 means nothing changed.",
    ),
    (
        "EMIA",
        "Share of the images to forget (%) that an attack on the encoder takes for images never trained on.",
    ),
    ("RA", "Accuracy (%) of a linear classifier on the images that are kept."),
    ("TA", "Accuracy (%) of the same classifier on test images that no model was trained on."),
    ("UA", "Accuracy (%) of the same classifier on the images to forget."),
    (
        "CMIA",
        "Share of the images to forget (%) that an attack on the classifier takes for images never trained on.",
    ),
    ("AG", "Average gap: the mean of the five gaps (EMIA, RA, TA, UA, CMIA), in percentage points. Smaller is closer."),
    (
        "AG held-out",
        "Where there is no Retrain: the average gap to a stand-in for it, a model that treats what is to forget as it "
        "treats held-out data, and everything else as the original does. Smaller is closer.",
    ),
    ("Rank", "The method's place by AG; equal gaps share a place. In brackets, where there is one, the paper's."),
    ("AG cls", "The same without EMIA, which jumps most from run to run."),
    (
        "AG auc",
        "Average gap without the decisions of attacks: the mean of the gaps in the AUC of the images to forget (in "
        "points), RA, TA and UA. Where attacks hardly work it moves less from run to run than AG.",
    ),
    ("AGP", "Average gap as a percentage of Retrain's own values."),
    (
        "Retain, Unlearn, Test",
        "Of image-text models: mean cosine of an image and its caption, times 100, over the pairs that are kept, those "
        "to forget, and test pairs. AG, the average gap, is then the mean of the first two gaps; smaller is closer.",
    ),
    (
        "R@k",
        "Of image-text models: share (%) of test images (texts) whose own text (image) is among the k closest.",
    ),
    ("RTE", "Run time of the unlearning alone, in minutes."),
    ("Memory", "Most device memory held while unlearning, in GB (known on GPUs only)."),
    (
        "AUC",
        "The chance that a trained-on image looks more familiar to the model than a test image. "
        "0.5: they cannot be told apart; 1: always.",
    ),
    ("TPR at 1 % FPR", "Share of kept images (%) that are recognised when 1 % of test images are wrongly recognised."),
    (
        "noise floor",
        "The standard deviation of Retrain over seeds. Gaps of that size also occur between two models "
        "that are both exactly right.",
    ),
    ("±", "Standard deviation over seeds."),
)


OF_IMAGES = {"EMIA", "RA", "TA", "UA", "CMIA", "AG", "AG cls", "AG auc"}
OF_PAIRS = {"Retain, Unlearn, Test", "R@k"}


def glossary(of_pairs: set[bool], held_out: bool = False) -> list[tuple[str, str]]:
    """The words that occur where the settings are of pairs (True), of images (False), or both."""
    unused = (OF_IMAGES if False not in of_pairs else set()) | (OF_PAIRS if True not in of_pairs else set())
    unused |= set() if held_out else {"AG held-out"}
    return [(word, meaning) for word, meaning in GLOSSARY if word not in unused]


def method_name(method: str) -> str:
    return METHODS.get(method, method)


def metric_name(metric: str) -> str:
    return METRICS.get(metric, metric)


def entry_name(entry: Entry) -> str:
    """The method, and the settings that tell it from its other entries."""
    return f"{method_name(entry.method)} ({entry.variant})" if entry.variant else method_name(entry.method)


def architecture_name(name: str) -> str:
    return f"ResNet-{name.removeprefix('resnet')}" if name.startswith("resnet") else name


def percent(fraction: float) -> str:
    return f"{100 * fraction:.3g}\N{NO-BREAK SPACE}%"


def setting_name(setting: Setting) -> str:
    parts = [
        DATA.get(setting.data, setting.data),
        ALGORITHMS.get(setting.algorithm, setting.algorithm),
        architecture_name(setting.architecture) + ("" if setting.stem_relu else " without the stem's ReLU"),
        f"{setting.epochs} epochs",
        f"{percent(setting.forget_fraction)} to forget",
    ]
    return " · ".join(parts)


def seed_count(n: int) -> str:
    return "one seed" if n == 1 else f"{n} seeds"


def different(values: Iterable[Any], between: str = ", ") -> str:
    """The different values, in the order they come."""
    return between.join(dict.fromkeys(show(v) for v in values if v is not None))


def listing(names: list[str]) -> str:
    """a, b and c."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def minutes(value: float) -> str:
    if value < 1:
        return f"{60 * value:.3g} s"
    return f"{value:.1f} min" if value < 120 else f"{value / 60:.1f} h"


def signed(change: Stat) -> str:
    return points(change.mean, "+")


def points(value: float, sign: str = "-") -> str:
    return f"{round(value, 2) + 0.0:{sign}.2f}".replace("-", "−")
