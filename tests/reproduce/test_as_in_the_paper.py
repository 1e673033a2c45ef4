"""What recipes ask for is what the paper did, by its own numbers (muc/paper) and not by the constants here."""

from pathlib import Path
from typing import Any

import pytest

from muc import paper
from muc.methods import AlignmentCalibration
from muc.methods.recipes import TIED, default_method, search_ranges
from muc.reproduce import find_recipe, from_models, t_tests, uniformity
from muc.reproduce.recipe import Options, describe
from muc.reproduce.white_box import WhiteBox

FACTS, ASKED = paper.load()["text_facts"], paper.load()["hyperparameters"]
TABLES = {
    "cifar10-10": ("cifar10", 0.1),
    "cifar10-50": ("cifar10", 0.5),
    "cifar100-10": ("cifar100", 0.1),
    "cifar100-50": ("cifar100", 0.5),
    "svhn": ("svhn", 0.1),
}
OPTIONS = Options(out=Path("nowhere"))


def white_box(name: str) -> WhiteBox:
    recipe = find_recipe(name)
    assert isinstance(recipe, WhiteBox)
    return recipe


@pytest.mark.parametrize("name", TABLES)
def test_a_table_has_the_papers_settings(name: str) -> None:
    data, fraction = TABLES[name]
    rows = [
        row
        for table in paper.load()["tables"].values()
        for row in table.get("rows", ())
        if "EMIA" in row
        and (row["dataset"], row["forget_fraction"], row["architecture"]) == (data, fraction, "resnet18")
    ]
    recipe, asked = white_box(name), ASKED["unimodal"]["pretrain"]
    assert set(recipe.known) == {row["algorithm"] for row in rows}
    for algorithm in recipe.known:
        (trial,) = recipe.trials(algorithm, OPTIONS)
        s = trial.settings
        assert (s.data.name, trial.fraction, s.model.algorithm) == (data, fraction, algorithm)
        assert s.model.architecture == "resnet18"
        optimisation = (s.optimisation.epochs, s.optimisation.learning_rate, s.optimisation.batch_size)
        assert optimisation == (asked["epochs"], asked["lr"], asked["batch_size"])
        assert (s.optimisation.momentum, s.optimisation.weight_decay) == (asked["momentum"], asked["weight_decay"])
        probe = ASKED["unimodal"]["linear_probe"]
        assert (s.probe.epochs, s.probe.learning_rate, s.probe.batch_size) == (100, probe["lr"], probe["batch_size"])
        rate = ASKED["unimodal"]["alignment_calibration"]["lr_reported_cifar"]["50pct" if fraction > 0.2 else "10pct"]
        # The paper's rates are for means over D; in the equations R's mean has weight 1.
        assert vars(trial.method("alignment_calibration"))["learning_rate"] == pytest.approx(rate * (1 - fraction))
        assert vars(trial.method("neggrad"))["learning_rate"] == pytest.approx(0.01 * (1 - fraction))
        assert vars(trial.method("finetune"))["learning_rate"] == 0.01


@pytest.mark.parametrize(("fraction", "most"), [(0.1, 20.0), (0.5, 4.0), (0.01, 20.0)])
def test_a_search_pulls_no_harder_for_larger_requests(fraction: float, most: float) -> None:
    """The released scripts search beta |U| / |D|, up to 2."""
    method = AlignmentCalibration()
    ranges = search_ranges(method, "cifar10", "moco", fraction)
    assert (ranges["paper_beta"].low, ranges["paper_beta"].high) == (0.0, pytest.approx(most))
    rates = ranges["learning_rate"]
    assert (rates.low, rates.high) == pytest.approx((0.003 * (1 - fraction), 0.03 * (1 - fraction)))
    compat = search_ranges(AlignmentCalibration(reading="compat"), "cifar10", "moco", fraction)
    assert (compat["learning_rate"].low, compat["learning_rate"].high) == (0.003, 0.03)  # it takes means over D itself


def test_the_table_of_resnet_50_is_of_resnet_50() -> None:
    (trial,) = white_box("resnet50").trials("moco", OPTIONS)
    assert (trial.settings.data.name, trial.fraction) == (
        "cifar10",
        FACTS["forget_fractions"]["resnet50_percent"] / 100,
    )
    assert trial.settings.model.architecture == "resnet50"
    (usual,) = white_box("cifar10-10").trials("moco", OPTIONS)
    assert trial.pretrain().seconds > 3 * usual.pretrain().seconds


def test_seeds_are_the_papers() -> None:
    trials = FACTS["random_trials"]
    assert list(find_recipe("sd").seeds) == list(find_recipe("sd-cifar100").seeds) == trials["unimodal_seeds"]
    assert len(find_recipe("clip-coco").seeds) == trials["clip_trials"]
    setting = FACTS["t_test"]["setting"]
    recipe = find_recipe("t-tests")
    assert isinstance(recipe, t_tests.TTests)
    unlearned, other = recipe.trials(OPTIONS)
    assert unlearned.settings.seed == setting["seed_original_and_unlearned"]
    assert other.settings.seed == setting["seed_cheating_replacement"]
    assert list(t_tests.OWNERS) == FACTS["t_test"]["N_values"]
    assert (
        unlearned.variants["alignment_calibration-beta8"]["paper_beta"] == FACTS["t_test"]["H1_neg_align_ac"]["ac_beta"]
    )


def test_figures_show_what_the_papers_show() -> None:
    figures = paper.load()["figures"]
    assert list(uniformity.BETAS) == figures["uniformity_angles"]["values_given_in_text"]["betas"]
    assert figures["alignment_matrices_ac"]["values_given_in_text"]["images"] == from_models.SHOWN


SEARCHED = [
    (algorithm, kind, name, key, values["search_range"])
    for algorithm, kind in (("moco", "unimodal"), ("simclr", "unimodal"), ("clip", "clip"))
    for name in ("finetune", "neggrad", "gradient_ascent", "l1_sparsity", "alignment_calibration")
    for key, values in ASKED[kind][name].items()
    if isinstance(values, dict) and "search_range" in values
]
OURS = {
    "lr": "learning_rate",
    "l1_coefficient": "l1",
    "beta": "paper_beta",
    "alpha_equals_gamma": f"alpha{TIED}gamma",
}


@pytest.mark.parametrize(("algorithm", "kind", "name", "key", "printed"), SEARCHED)
def test_searches_look_where_the_paper_does(algorithm: str, kind: str, name: str, key: str, printed: Any) -> None:
    data = "coco64" if algorithm == "clip" else "cifar10"
    ranges = search_ranges(default_method(name, data, algorithm), data, algorithm)
    if (algorithm, key) == ("clip", "beta"):  # drawn by its logarithm, so not from 0
        assert (ranges["beta"].low, ranges["beta"].high) == (0.01, printed[1])
    else:
        found = ranges[OURS[key]]
        assert [found.low, found.high] == printed
    searched = [k for a, _, n, k, _ in SEARCHED if (a, n) == (algorithm, name)]
    assert len(ranges) == len(searched)


def test_finished_steps_cost_nothing() -> None:
    steps = find_recipe("cifar10-10").plan(Options(out=Path("nowhere"), algorithms=("moco",)), Path("nowhere"))
    done = [type(step)(step.name, step.seconds, lambda: True, step.work) for step in steps]
    *_, cost = describe([*done[:-1], steps[-1]]).splitlines()
    assert cost.split()[0] == "1:45"
