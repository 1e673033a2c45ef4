"""The training loop against a plain one, written from its description; and what a runtime promises."""

import math
import os
import re
import subprocess
import sys
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from muc import config, objectives, progress
from muc.__main__ import main
from muc.batches import Batches
from muc.config import Optimisation, Views
from muc.data import plan_batches
from muc.errors import UserError
from muc.evaluation.features import alignment
from muc.methods import AlignmentCalibration, FineTune, Method, NegGrad
from muc.models import Batch, ContrastiveModel, MoCo, SimCLR
from muc.runtime import Runtime
from muc.train import Training

SEED, EPOCHS, BATCH = 3, 3, 8
IMAGES = np.random.default_rng(0).integers(256, size=(24, 3, 4, 4), dtype=np.uint8)
FORGET = np.arange(3)  # so few that every batch has more of them than their share
SETTINGS = Optimisation(epochs=EPOCHS, batch_size=BATCH, learning_rate=0.2, weight_decay=1e-3, momentum=0.9)


def small_model(algorithm: str) -> ContrastiveModel:
    torch.manual_seed(1)
    backbone = nn.Sequential(nn.Flatten(), nn.Linear(48, 12), nn.BatchNorm1d(12), nn.ReLU())
    if algorithm == "simclr":
        return SimCLR(backbone, 12, projection_dim=6)
    return MoCo(backbone, 12, projection_dim=6, queue_size=20, key_momentum=0.9)


def plainly_trained(model: ContrastiveModel, method: Method, settings: Optimisation) -> ContrastiveModel:
    """torch.optim, a learning rate set by hand, and MoCo's key encoder and queue moved by hand."""
    plan = plan_batches(np.setdiff1d(np.arange(24), FORGET), FORGET, method.rows, BATCH, SEED)
    pixels = torch.from_numpy(IMAGES).float() / 255
    trained = [p for p in model.parameters() if p.requires_grad]
    optimiser = torch.optim.SGD(trained, momentum=settings.momentum, weight_decay=settings.weight_decay)
    model.train()
    for epoch in range(EPOCHS):
        for step, rows in enumerate(plan.epoch(epoch)):
            passed = epoch if settings.warmup_epochs == 0 else epoch + step / plan.steps - settings.warmup_epochs
            rate = 0.5 * (1 + math.cos(math.pi * passed / (EPOCHS - settings.warmup_epochs)))
            if passed < 0:
                rate = (epoch * plan.steps + step + 1) / (settings.warmup_epochs * plan.steps)
            for group in optimiser.param_groups:
                group["lr"] = settings.learning_rate * rate
            seen, forgotten = pixels[rows], pixels[[row for row in rows.tolist() if row in FORGET]]
            third = forgotten if method.third_view else None
            batch = Batch(seen, seen, plan.n_retain, plan.log_weight(), plan.epsilon, third)
            optimiser.zero_grad()
            sum(method.loss(model, batch).values(), torch.zeros(())).backward()
            keys = model._pending[0].clone() if isinstance(model, MoCo) else None
            optimiser.step()
            if isinstance(model, MoCo) and keys is not None:
                move_on(model, keys, plan.log_weight())
    return model


@torch.no_grad()
def move_on(model: MoCo, keys: Tensor, log_weight: Tensor) -> None:
    for key, weight in zip(keys, log_weight, strict=True):
        place = int(model.queue_position)
        model.queue[place], model.queue_log_weight[place] = key, weight
        model.queue_position.fill_((place + 1) % len(model.queue))
    for slow, fast in ((model.key_backbone, model.backbone), (model.key_projector, model.projector)):
        for mine, theirs in zip(slow.parameters(), fast.parameters(), strict=True):
            mine.copy_(0.9 * mine + 0.1 * theirs)


METHODS = {
    "equations": AlignmentCalibration(paper_beta=4),
    "compat": AlignmentCalibration(paper_beta=4, reading="compat"),  # reads a third view
    "neggrad": NegGrad(),
    "finetune": FineTune(),
}


@pytest.mark.parametrize("warmup", [0, 1])
@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
@pytest.mark.parametrize("algorithm", ["simclr", "moco"])
def test_a_training_is_the_plain_loop(
    algorithm: str, method: Method, warmup: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Batches, "_views", lambda _self, pixels: pixels.float() / 255)  # views are tested elsewhere
    settings = replace(SETTINGS, warmup_epochs=warmup)
    model = small_model(algorithm)
    expected = plainly_trained(deepcopy(model), method, settings).state_dict()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    plan = plan_batches(np.setdiff1d(np.arange(24), FORGET), FORGET, method.rows, BATCH, SEED)
    runtime = Runtime(config.Runtime(device="cpu", threads=1))
    Training(model, method, IMAGES, plan, Views(), settings, runtime, SEED).run()
    for name, value in model.state_dict().items():
        torch.testing.assert_close(value, expected[name], rtol=1e-4, atol=1e-5, msg=lambda m, n=name: f"{n}: {m}")
    same = {name for name, value in model.state_dict().items() if torch.equal(value, before[name])}
    assert same <= ({"queue_log_weight"} if method.rows == "retain" else set())  # weights of 1 there


def weights_after(precision: str) -> dict[str, Tensor]:
    torch.manual_seed(0)
    model, rows = small_model("simclr"), np.arange(24)
    runtime = Runtime(config.Runtime(device="cpu", threads=1, precision=precision))
    plan = plan_batches(rows, rows[:0], "retain", BATCH, SEED)
    Training(model, FineTune(), IMAGES, plan, Views(), replace(SETTINGS, epochs=1), runtime, SEED).run()
    return model.state_dict()


def test_precision_is_what_was_asked_for() -> None:
    exact, again, rounded = (weights_after(precision) for precision in ("float32", "float32", "bfloat16"))
    assert all(torch.equal(value, again[name]) for name, value in exact.items())
    assert all(value.dtype == torch.float32 for value in rounded.values() if value.is_floating_point())
    difference = max(
        float((exact[name] - rounded[name]).abs().max()) for name in exact if exact[name].is_floating_point()
    )
    assert 1e-6 < difference < 0.5  # bfloat16 has three digits; the loss is steep here


def test_alignments_are_float32_in_any_precision() -> None:
    runtime = Runtime(config.Runtime(device="cpu", threads=1, precision="bfloat16"))
    found = alignment(small_model("simclr").eval(), torch.from_numpy(IMAGES), Views(), runtime, SEED)
    assert found.dtype == torch.float32
    assert len(found.unique()) > len(IMAGES) // 2  # not rounded to the few digits of bfloat16


def test_a_runtime_sets_threads_and_determinism_and_no_shorter_floats() -> None:
    before = torch.get_num_threads()
    try:
        Runtime(config.Runtime(device="cpu", threads=1, deterministic=True))
        assert torch.get_num_threads() == 1
        assert torch.are_deterministic_algorithms_enabled()
        Runtime(config.Runtime(device="cpu", threads=2))
        assert torch.get_num_threads() == 2
        assert not torch.are_deterministic_algorithms_enabled()
        assert not torch.backends.cuda.matmul.allow_tf32
        assert not torch.backends.cudnn.allow_tf32
    finally:
        torch.use_deterministic_algorithms(False)
        torch.set_num_threads(before)


def test_idle_threads_wait_passively() -> None:
    """A command sets the policy before it loads torch; who has set another keeps it."""
    program = (
        "import os, sys; from muc.__main__ import main; main(['runs']); "
        "print(os.environ['OMP_WAIT_POLICY'], file=sys.stderr)"
    )
    environment = {name: value for name, value in os.environ.items() if name != "OMP_WAIT_POLICY"}
    environment["PYTHONPATH"] = str(Path(config.__file__).parents[1])
    for given, expected in ((environment, "PASSIVE"), ({**environment, "OMP_WAIT_POLICY": "ACTIVE"}, "ACTIVE")):
        done = subprocess.run([sys.executable, "-c", program], env=given, capture_output=True, text=True, check=True)
        assert done.stderr.splitlines()[-1] == expected


def test_the_progress_line_says_images_a_second(
    tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "QUIET_SECONDS", 0.0)  # otherwise nothing is said of a training this short
    tiny = ["--data", "digits", "--train-limit", "40", "--batch-size", "20", "--epochs", "2", "--threads", "1"]
    assert main(["pretrain", *tiny, "--out", str(tmp_path / "run")]) == 0
    assert re.search(r"2/2 epochs .* loss \d.* · [\d,]+ images/s", capsys.readouterr().err)


@pytest.mark.parametrize("algorithm", ["simclr", "moco"])
def test_similarities_and_losses_are_float32_where_all_else_is_not(algorithm: str) -> None:
    plan = plan_batches(np.arange(3, 24), FORGET, "mixed", BATCH, SEED)
    model, pixels = small_model(algorithm).train(), torch.from_numpy(IMAGES[:BATCH]).float() / 255
    batch = Batch(pixels, pixels, plan.n_retain, plan.log_weight(), plan.epsilon)
    seen: list[tuple[Tensor, Tensor, Tensor]] = []

    def spy(x: Tensor, y: Tensor, temperature: float) -> Tensor:
        seen.append((x.detach(), y.detach(), plain(x, y, temperature).detach()))
        return plain(x, y, temperature)

    plain = objectives.pairwise
    with pytest.MonkeyPatch.context() as patch, torch.autocast("cpu", dtype=torch.bfloat16):
        patch.setattr(objectives, "pairwise", spy)
        terms = AlignmentCalibration(paper_beta=4).loss(model, batch)
    assert len(seen) == 2  # negatives, and those within the images to forget
    for x, y, found in seen:
        exact = x.double() @ y.double().T / model.temperature
        assert found.dtype == torch.float32
        assert (found - exact).abs().max() < 1e-5  # bfloat16 would be a hundredth off
    assert {value.dtype for value in terms.values()} == {torch.float32}


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"precision": "fp16"}, "unknown precision 'fp16'"),
        ({"compile": "yes"}, "unknown compile 'yes'"),
        ({"threads": 10_000}, "threads is 10000"),
    ],
)
def test_a_runtime_refuses_what_it_does_not_know(settings: dict[str, Any], complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        config.Runtime(**settings)


def test_a_norm_that_sees_one_value_is_refused_in_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    labels = np.arange(16) % 2
    tiny = IMAGES[:16].repeat(2, axis=2).repeat(2, axis=3)  # 8 px: 1 x 1 at the end of a ResNet
    np.savez(tmp_path / "tiny.npz", x_train=tiny, y_train=labels, x_test=tiny, y_test=labels)
    asked = ["pretrain", "--data", str(tmp_path / "tiny.npz"), "--algorithm", "moco", "--architecture", "resnet18"]
    asked += ["--batch-size", "8", "--epochs", "1", "--validation-fraction", "0", "--threads", "1"]
    assert main([*asked, "--out", str(tmp_path / "run")]) == 2
    assert "leave a batch norm one value a channel" in capsys.readouterr().err
