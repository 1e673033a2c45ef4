"""The paper's tables and figures, made again: a recipe each, found by name. Nothing heavy is imported here."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from muc.reproduce.recipe import Recipe

RECIPES: dict[str, tuple[str, str]] = {
    "cifar10-10": ("white_box", "table 2: all methods on CIFAR-10, 10 % forgotten, MoCo and SimCLR"),
    "cifar10-50": ("white_box", "table 3: the same, 50 % forgotten"),
    "cifar100-10": ("white_box", "table 4: CIFAR-100, 10 % forgotten"),
    "cifar100-50": ("white_box", "table 5: CIFAR-100, 50 % forgotten"),
    "svhn": ("white_box", "table 6: SVHN, 10 % forgotten, MoCo"),
    "resnet50": ("white_box", "table 12: ResNet-50 on CIFAR-10, 10 % forgotten, MoCo"),
    "clip-coco": ("clip_coco", "table 7: CLIP on image-text pairs, 10 % forgotten"),
    "clip-heatmaps": ("clip_heatmaps", "figure 7: image-text alignment gaps of 6 pairs to forget"),
    "ablation": ("ablation", "table 10: Alignment Calibration without its calibrations"),
    "alpha-beta": ("alpha_beta", "figures 4 and 9: forgetting and accuracy against alpha and beta"),
    "uniformity": ("uniformity", "figure 5: angles of two-dimensional features before and after unlearning"),
    "fs": ("record_tables", "table 8: forgetting scores and their gaps, CIFAR-10, MoCo"),
    "agp": ("record_tables", "table 11: average gap percentage, CIFAR-10"),
    "sd": ("record_tables", "table 13: deviations over seeds, CIFAR-10, seeds 0 to 4"),
    "sd-cifar100": ("record_tables", "table 13: the same, CIFAR-100"),
    "classifier-gaps": ("classifier_gaps", "table 14: gaps without EMIA, settings chosen by them, CIFAR-10"),
    "classifier-gaps-cifar100": ("classifier_gaps", "table 14: the same, CIFAR-100"),
    "t-tests": ("t_tests", "tables 1 and 9: the paper's t-tests, from our encoders"),
    "negative-alignment": ("negative_alignment", "figure 2: alignment between the images to forget, by method"),
    "heatmaps": ("heatmaps", "figures 3 and 6: alignment matrices of 8 images to forget"),
    "privacy": ("privacy", "figure 8: alignment matrix of Retrain minus that of AC"),
    "emia-threshold": ("emia_threshold", "EMIA and the attack's accuracy over its threshold, beside the AUC"),
    "noise-floor": ("noise_floor", "how far Retrains of one request are apart"),
    "time-memory": ("time_memory", "table 15: minutes and GB of every method, ResNet-18 to -152"),
}
"""Which module holds a recipe, and what it makes."""


def find_recipe(name: str) -> "Recipe":
    return import_module(f"muc.reproduce.{RECIPES[name][0]}").RECIPES[name]
