"""Our optimisers are torch.optim's, bit for bit, and cost no import of the compiler."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import muc
from muc.config import Optimisation
from muc.optimiser import Optimiser, make_optimiser

STEPS = 5


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(4 * 36, 5))


def theirs(model: nn.Module, settings: Optimisation, rate: Tensor) -> torch.optim.Optimizer:
    if settings.optimiser == "sgd":
        return torch.optim.SGD(
            model.parameters(), rate, settings.momentum, weight_decay=settings.weight_decay, fused=True
        )
    groups = [
        {"params": [p for p in model.parameters() if p.ndim >= 2], "weight_decay": settings.weight_decay},
        {"params": [p for p in model.parameters() if p.ndim < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, rate, (settings.momentum, settings.square_momentum), eps=1e-6, fused=True)


def train(model: nn.Module, optimiser: Optimiser | torch.optim.Optimizer, rate: Tensor, start: int = 0) -> None:
    for step in range(start, STEPS):
        rate.fill_(0.1 / (step + 1))
        x = torch.randn(4, 3, 8, 8, generator=torch.Generator().manual_seed(step))
        for parameter in model.parameters():
            parameter.grad = None
        model(x).square().mean().backward()
        optimiser.step()


@pytest.mark.parametrize(
    "settings",
    [
        Optimisation(weight_decay=0.01),
        Optimisation(momentum=0.0, weight_decay=0.01),
        Optimisation(optimiser="adamw", weight_decay=0.2),
    ],
    ids=["sgd", "sgd without momentum", "adamw"],
)
def test_steps_are_torchs(settings: Optimisation) -> None:
    models, rates = [network(), network()], [torch.tensor(0.1), torch.tensor(0.1)]
    train(models[0], make_optimiser(models[0], settings, rates[0]), rates[0])
    train(models[1], theirs(models[1], settings, rates[1]), rates[1])
    for ours, expected in zip(models[0].parameters(), models[1].parameters(), strict=True):
        assert torch.equal(ours, expected)


@pytest.mark.parametrize("kind", ["sgd", "adamw"])
def test_a_restored_optimiser_goes_on_as_if_nothing_had_happened(kind: str) -> None:
    settings = Optimisation(optimiser=kind, weight_decay=0.01)
    whole, rate = network(), torch.tensor(0.1)
    optimiser = make_optimiser(whole, settings, rate)
    train(whole, optimiser, rate)
    again = network()
    again.load_state_dict(whole.state_dict())
    copy = make_optimiser(again, settings, rate)
    copy.restore({name: value.clone() for name, value in optimiser.state().items()})
    for model, used in ((whole, optimiser), (again, copy)):
        train(model, used, rate, start=STEPS - 1)
    assert all(torch.equal(a, b) for a, b in zip(whole.parameters(), again.parameters(), strict=True))


def test_a_parameter_without_gradient_stays() -> None:
    model, rate = network(), torch.tensor(0.1)
    optimiser = make_optimiser(model, Optimisation(), rate)
    before = model[3].weight.clone()
    model[0](torch.randn(2, 3, 8, 8)).sum().backward()
    optimiser.step()
    assert torch.equal(model[3].weight, before)
    optimiser.forget_gradients()
    assert all(parameter.grad is None for parameter in model.parameters())


def test_a_whole_run_never_imports_the_compiler(tmp_path: Path) -> None:
    code = f"""
import sys
from muc.__main__ import main
flags = ["--epochs", "1", "--threads", "1", "--device", "cpu"]
assert main(["pretrain", "--data", "digits", "--train-limit", "40", "--out", "{tmp_path}/a", *flags]) == 0
assert main(["unlearn", "{tmp_path}/a", "--forget-fraction", "0.2", "--out", "{tmp_path}/b", *flags]) == 0
assert main(["evaluate", "{tmp_path}/b", "--device", "cpu"]) == 0
slow = sorted({{name.split(".")[1] for name in sys.modules if name.startswith(("torch._dynamo", "torch._inductor"))}})
assert not slow, slow
"""
    environment = {**os.environ, "PYTHONPATH": str(Path(muc.__file__).parents[1])}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr


def test_a_state_without_its_momentum_is_not_taken() -> None:
    optimiser = make_optimiser(network(), Optimisation(), torch.tensor(0.1))
    saved = optimiser.state()
    saved.pop("momentum.0")
    with pytest.raises(KeyError):
        optimiser.restore(saved)
