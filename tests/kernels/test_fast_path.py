"""The fast path trains as the plain one does: same losses, same gradients, for every model and method."""

import gc
import weakref
from collections.abc import Sequence
from copy import deepcopy

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from muc import config
from muc.data.loader import plan_batches
from muc.methods import METHODS, AlignmentCalibration, Method
from muc.models import CLIP, ContrastiveModel, MoCo, SimCLR, convolution
from muc.models.norm import BatchNorm
from muc.models.resnet import BasicBlock, ResNet, Stem
from muc.models.text import ByteTransformer
from muc.runtime import Runtime
from muc.train import Training

ON_GPU = torch.cuda.is_available()
SETTINGS = config.Runtime(device="cuda" if ON_GPU else "cpu", precision="float32", threads=1)
CASES = [(name, kind()) for name, kind in METHODS.items()] + [("compat", AlignmentCalibration(reading="compat"))]


class Small(nn.Module):
    """A ResNet of one block."""

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = Stem(3, 8), BatchNorm(8, groups)
        self.block = BasicBlock(8, 16, 2, groups)

    def forward(self, x: Tensor) -> Tensor:
        return self.block(self.bn1.join(self.conv1(x), relu=True))[0].mean(dim=(2, 3))


def build(algorithm: str, resnet: bool) -> ContrastiveModel:
    torch.manual_seed(0)
    groups = 2 if algorithm == "moco" else 1
    backbone, features = (ResNet("resnet18", groups=groups), 512) if resnet else (Small(groups), 16)
    if algorithm == "simclr":
        return SimCLR(backbone, features)
    if algorithm == "clip":
        return CLIP(backbone, features, ByteTransformer(width=16, layers=1, context=8))
    return MoCo(backbone, features, queue_size=16, norm_groups=groups)


def training(algorithm: str, method: Method, runtime: Runtime, resnet: bool = False) -> Training:
    rows = np.arange(32)
    plan = plan_batches(rows[8:], rows[:8], method.rows, 8, 0)
    images = torch.randint(256, (32, 3, 8, 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    optimisation = config.Optimisation(
        epochs=3, optimiser="adamw" if algorithm == "clip" else "sgd", learning_rate=1e-3
    )
    captions = [[f"image {i}"] for i in range(32)]
    return Training(build(algorithm, resnet), method, images, plan, config.Views(), optimisation, runtime, 0, captions)


def step(algorithm: str, method: Method, runtime: Runtime, resnet: bool) -> tuple[dict[str, float], dict[str, Tensor]]:
    """-> loss terms and gradients of the first batch."""
    begun = training(algorithm, method, runtime, resnet)
    begun.batches.load(0, 0)
    terms = method.loss(begun.model, begun.batches.make())
    torch.stack(list(terms.values())).sum().backward()
    gradients = {name: p.grad for name, p in begun.model.named_parameters() if p.grad is not None}
    return {name: float(value.detach()) for name, value in terms.items()}, gradients


def fast_runtime() -> Runtime:
    runtime = Runtime(SETTINGS)
    runtime.kernels = True  # also on CPU, where they are interpreted
    return runtime


@pytest.mark.parametrize("resnet", [False, pytest.param(True, marks=pytest.mark.skipif(not ON_GPU, reason="slow"))])
@pytest.mark.parametrize("algorithm", ["simclr", "moco", "clip"])
@pytest.mark.parametrize(("name", "method"), CASES, ids=[name for name, _ in CASES])
def test_losses_and_gradients_are_the_plain_ones(algorithm: str, name: str, method: Method, resnet: bool) -> None:
    plain = step(algorithm, method, Runtime(config.Runtime(**{**vars(SETTINGS), "compile": "off"})), resnet)
    fast = step(algorithm, method, fast_runtime(), resnet)
    assert fast[0] == pytest.approx(plain[0], rel=1e-4, abs=1e-5)
    assert fast[1].keys() == plain[1].keys()
    for parameter, gradient in plain[1].items():
        error = (fast[1][parameter] - gradient).norm() / gradient.norm().clamp(min=1e-6)
        assert error < (2e-2 if resnet else 1e-3), parameter


@pytest.mark.skipif(not ON_GPU, reason="a CPU has no streams")
def test_gradients_beside_do_not_write_over_those_not_yet_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """CLIP's captions go back on the stream that made the convolutions' gradients, also while the main one is late."""

    def late(tensors: Sequence[Tensor], dtype: torch.dtype) -> tuple[Tensor, ...]:
        torch.cuda._sleep(20_000_000)  # clock cycles: some 10 ms
        return cast_all(tensors, dtype)

    method = AlignmentCalibration(reading="compat")
    _, plain = step("clip", method, Runtime(config.Runtime(**{**vars(SETTINGS), "compile": "off"})), resnet=True)
    cast_all = convolution.cast_all
    monkeypatch.setattr(convolution, "cast_all", late)
    for _ in range(5):
        _, fast = step("clip", method, fast_runtime(), resnet=True)
        for parameter, gradient in plain.items():
            assert (fast[parameter] - gradient).norm() <= 2e-2 * gradient.norm().clamp(min=1e-6), parameter


@pytest.mark.skipif(not ON_GPU, reason="nothing is recorded on a CPU")
@pytest.mark.parametrize("algorithm", ["simclr", "moco", "clip"])
def test_a_training_in_recorded_steps_ends_where_the_plain_one_does(algorithm: str) -> None:
    """Random numbers, rates and the optimiser's state must go on from step to step."""
    ended = []
    for runtime in (Runtime(config.Runtime(**{**vars(SETTINGS), "compile": "off"})), fast_runtime()):
        begun = training(algorithm, METHODS["alignment_calibration"](), runtime)
        losses: list[float] = []
        begun.run(lambda line, losses=losses: losses.append(line["loss"]))
        ended.append((losses, {name: p.detach().clone() for name, p in begun.model.named_parameters()}))
    assert ended[1][0] == pytest.approx(ended[0][0], rel=1e-3)
    start = dict(build(algorithm, resnet=False).named_parameters())
    for name, value in ended[0][1].items():
        moved = float((value.cpu() - start[name]).norm().detach())
        assert float((ended[1][1][name] - value).norm()) <= 0.05 * moved + 1e-5, name


@pytest.mark.parametrize("algorithm", ["simclr", "moco", "clip"])
def test_nothing_of_a_training_stays_behind(algorithm: str) -> None:
    """A search trains dozens in one process. Python's search for cycles is switched off: it comes when it likes."""
    gc.collect()
    gc.disable()
    try:
        held = []
        for _ in range(3):
            begun = training(algorithm, METHODS["alignment_calibration"](), fast_runtime())
            begun.run()
            gone = weakref.ref(begun)
            del begun
            assert gone() is None
            held.append(torch.cuda.memory_allocated() if ON_GPU else 0)
        assert held[1] == held[2]
    finally:
        gc.enable()


def test_the_kernels_are_really_used(monkeypatch: pytest.MonkeyPatch) -> None:
    from muc.kernels import norm, stem, views

    called = set()
    for module, name in ((norm, "train"), (stem, "convolve"), (views, "transform")):
        original = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *a, _f=original, _n=name, **k: (called.add(_n), _f(*a, **k))[1])
    step("moco", METHODS["finetune"](), fast_runtime(), resnet=False)
    assert called == {"train", "convolve", "transform"}


@pytest.mark.skipif(not ON_GPU, reason="streams are for GPUs")
@pytest.mark.parametrize("algorithm", ["simclr", "moco", "clip"])
def test_a_model_trained_on_a_gpu_can_be_copied(algorithm: str) -> None:
    """As `muc.unlearn` does with the model that `muc.pretrain` has returned."""
    trained = training(algorithm, METHODS["retrain"](), Runtime(config.Runtime(device="cuda")), resnet=True)
    trained.run()
    copied = deepcopy(trained.model)
    for name, value in trained.model.state_dict().items():
        assert torch.equal(copied.state_dict()[name], value)
