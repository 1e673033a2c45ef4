"""All white-box metrics together, on a tiny untrained model and on scores that are known."""

from math import isfinite
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from muc import config
from muc.config import Pretraining, Probe
from muc.data import ImageSet
from muc.evaluation import white_box
from muc.evaluation.membership import auc, best_threshold
from muc.evaluation.white_box import evaluate
from muc.models import ContrastiveModel, MoCo, SimCLR
from muc.runtime import Runtime
from muc.split import Split

RUNTIME = Runtime(config.Runtime(device="cpu", threads=1))
SETTINGS = Pretraining(probe=Probe(epochs=2, batch_size=16, learning_rate=0.1))
NAMES = {"FS", "EMIA", "RA", "TA", "UA", "CMIA", "EMIA_accuracy", "EMIA_AUC", "EMIA_TPR_at_1_FPR", "unlearn_AUC"}


def tiny_model(kind: str = "simclr", seed: int = 0) -> ContrastiveModel:
    torch.manual_seed(seed)
    backbone = nn.Sequential(nn.Flatten(), nn.Linear(3 * 8 * 8, 6), nn.BatchNorm1d(6), nn.Tanh())
    return (SimCLR if kind == "simclr" else MoCo)(backbone, 6, projection_dim=4)


def tiny_images(n_train: int = 60, n_test: int = 20) -> ImageSet:
    source = np.random.default_rng(0)
    train, test = (source.integers(0, 256, (n, 3, 8, 8), dtype=np.uint8) for n in (n_train, n_test))
    return ImageSet("tiny", train, np.arange(n_train) % 3, test, np.arange(n_test) % 3, ["a", "b", "c"])


def tiny_split(n_train: int = 60, validation: int = 10, unlearn: int = 7) -> Split:
    order = np.random.default_rng(1).permutation(n_train)
    return Split(
        seed=1,
        validation=order[:validation],
        unlearn=order[validation : validation + unlearn],
        retain=order[validation + unlearn :],
    )


@pytest.mark.parametrize("kind", ["simclr", "moco"])
def test_every_metric_is_there_and_finite(kind: str) -> None:
    result = evaluate(tiny_model(kind), tiny_model(kind, seed=1), tiny_images(), tiny_split(), SETTINGS, RUNTIME)
    per_sample = result.pop("per_sample")
    assert result.keys() >= NAMES
    assert all(isinstance(value, float) and isfinite(value) for value in result.values())
    assert all(0 <= result[name] <= 100 for name in ("EMIA", "RA", "TA", "UA", "CMIA", "EMIA_accuracy"))
    assert -2 <= result["FS"] <= 2
    assert len(per_sample["FS"]) == len(per_sample["alignment"]) == 7
    assert result["FS"] == pytest.approx(np.mean(per_sample["FS"]), abs=1e-6)


def test_a_model_that_forgot_nothing_has_a_forgetting_score_of_exactly_zero() -> None:
    result = evaluate(tiny_model(), tiny_model(), tiny_images(), tiny_split(), SETTINGS, RUNTIME)
    assert result["FS"] == 0.0
    assert result["per_sample"]["FS"] == [0.0] * 7


def test_forgetting_is_before_minus_after() -> None:
    """A constant encoder aligns all views perfectly; the other one does not: going there is un-forgetting."""
    constant = tiny_model()
    nn.init.zeros_(constant.backbone[1].weight)
    nn.init.ones_(constant.backbone[2].bias)
    usual = tiny_model()
    gain = evaluate(constant, usual, tiny_images(), tiny_split(), SETTINGS, RUNTIME)
    loss = evaluate(usual, constant, tiny_images(), tiny_split(), SETTINGS, RUNTIME)
    assert gain["FS"] < 0 < loss["FS"]
    assert gain["FS"] == pytest.approx(-loss["FS"], abs=1e-6)
    assert loss["per_sample"]["FS"] == pytest.approx([1 - a for a in loss["per_sample"]["alignment"]], abs=1e-5)


def test_evaluating_twice_gives_the_same_numbers_and_another_seed_others() -> None:
    def run(seed: int) -> dict[str, Any]:
        torch.manual_seed(seed + 10)
        model, before = tiny_model(), tiny_model(seed=1)
        return evaluate(model, before, tiny_images(), tiny_split(), SETTINGS, RUNTIME, seed=seed)

    assert run(0) == run(0)
    assert run(0)["per_sample"] != run(1)["per_sample"]


def test_models_are_evaluated_in_evaluation_mode_and_left_unchanged() -> None:
    model, before = tiny_model().train(), tiny_model(seed=1).train()
    states = [{k: v.clone() for k, v in m.state_dict().items()} for m in (model, before)]
    evaluate(model, before, tiny_images(), tiny_split(), SETTINGS, RUNTIME)
    for m, state in zip((model, before), states, strict=True):
        assert all(torch.equal(value, state[name]) for name, value in m.state_dict().items())


@pytest.mark.parametrize(("n_train", "n_test", "members"), [(60, 20, 20), (40, 50, 23)])
def test_the_attack_knows_the_first_n_of_r_and_as_many_test_images(
    n_train: int, n_test: int, members: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With each image's brightness for a score, EMIA can be computed by hand."""
    scored: list[Tensor] = []

    def brightness(model: ContrastiveModel, pixels: Tensor, *_: object, **__: object) -> Tensor:
        scored.append(pixels)
        return pixels.float().mean(dim=(1, 2, 3)) / 255

    monkeypatch.setattr(white_box, "alignment", brightness)
    images, split = tiny_images(n_train, n_test), tiny_split(n_train)
    result = evaluate(tiny_model(), tiny_model(), images, split, SETTINGS, RUNTIME)

    test_images = {image.tobytes() for image in images.test}
    known = torch.from_numpy(images.train[split.retain[:members]])
    strange = next(p for p in scored if {image.numpy().tobytes() for image in p} <= test_images)
    assert any(torch.equal(pixels, known) for pixels in scored)
    assert len({image.numpy().tobytes() for image in strange}) == len(strange) == members

    def score(pixels: Tensor) -> np.ndarray:
        return (pixels.float().mean(dim=(1, 2, 3)) / 255).double().numpy()

    threshold, accuracy = best_threshold(score(known), score(strange))
    unlearned = score(torch.from_numpy(images.train[split.unlearn]))
    assert result["EMIA"] == pytest.approx(100 * np.mean(unlearned < threshold))
    assert result["EMIA_accuracy"] == pytest.approx(100 * accuracy)
    assert result["EMIA_AUC"] == pytest.approx(auc(score(known), score(strange)))
    assert result["unlearn_AUC"] == pytest.approx(auc(unlearned, score(strange)))


def test_forgetting_of_held_out_images_is_what_all_images_lose(monkeypatch: pytest.MonkeyPatch) -> None:
    """With brightness for an alignment, and a model before to which all images look brighter by a tenth."""
    model, before = tiny_model(), tiny_model(seed=1)

    def brightness(asked: ContrastiveModel, pixels: Tensor, *_: object, **__: object) -> Tensor:
        return pixels.float().mean(dim=(1, 2, 3)) / 255 * (1.1 if asked is before else 1.0)

    monkeypatch.setattr(white_box, "alignment", brightness)
    images, split = tiny_images(), tiny_split()
    result = evaluate(model, before, images, split, SETTINGS, RUNTIME)
    for name, rows in (("FS", split.unlearn), ("held_out_FS", split.validation)):
        assert result[name] == pytest.approx(0.1 * images.train[rows].mean() / 255, abs=1e-6), name


def test_accuracies_are_of_retain_test_and_unlearn_images(monkeypatch: pytest.MonkeyPatch) -> None:
    """A probe that always says class 0 is right as often as there are images of class 0."""

    def always_zero(model: ContrastiveModel, pixels: Tensor, labels: Tensor, classes: int, *_: object) -> nn.Linear:
        seen.append(labels)
        probe = nn.Linear(6, classes)
        nn.init.zeros_(probe.weight)
        with torch.no_grad():
            probe.bias.copy_(torch.tensor([2.0, 0.0, 1.0]))
        return probe

    seen: list[Tensor] = []
    monkeypatch.setattr(white_box, "train_probe", always_zero)
    images, split = tiny_images(), tiny_split()
    result = evaluate(tiny_model(), tiny_model(), images, split, SETTINGS, RUNTIME)
    for name, labels in {
        "RA": images.train_labels[split.retain],
        "TA": images.test_labels,
        "UA": images.train_labels[split.unlearn],
    }.items():
        assert result[name] == pytest.approx(100 * np.mean(labels == 0), abs=1e-4), name
    assert seen[0].tolist() == images.train_labels[split.retain].tolist()  # trained on R alone
