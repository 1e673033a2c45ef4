"""The linear probe against a plain loop with its gradient written out."""

from collections.abc import Callable
from math import cos, pi

import pytest
import torch
from torch import Tensor, nn

from muc import augment, config
from muc.config import Probe
from muc.errors import UserError
from muc.evaluation import features
from muc.evaluation import probe as module
from muc.evaluation.features import embed
from muc.evaluation.probe import confidences, train_probe
from muc.models import Batch, Contrast, ContrastiveModel
from muc.runtime import Runtime

RUNTIME = Runtime(config.Runtime(device="cpu", threads=1))


class Pixels(ContrastiveModel):
    """Features are the pixels themselves."""

    def __init__(self) -> None:
        super().__init__()
        self.backbone = nn.Flatten()

    def projected(self, images: Tensor) -> Tensor:
        raise AssertionError("the probe looks at features")

    def contrast(self, batch: Batch) -> Contrast:
        raise AssertionError("evaluation does not train")


def coloured_images(n: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Noisy images, reddish for class 0, greenish for 1, bluish for 2."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(n) % 3
    images = torch.randint(100, (n, 3, 6, 6), generator=generator, dtype=torch.uint8)
    images[torch.arange(n), labels] += 100
    return images, labels


@pytest.mark.parametrize("device", ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"])
def test_probe_learns_what_is_linearly_separable(device: str) -> None:
    runtime = Runtime(config.Runtime(device=device, threads=1))
    settings = Probe(epochs=20, learning_rate=0.1, batch_size=32)
    images, labels = coloured_images(96)
    probe = train_probe(Pixels(), images, labels.to(device), 3, settings, runtime, seed=0)
    for pixels, y in ((images, labels), coloured_images(60, seed=1)):
        confidence, right = confidences(probe, embed(Pixels(), pixels, runtime), y.to(device))
        assert right.float().mean() > 0.98
        assert confidence.mean() > 0.9


@pytest.mark.parametrize("settings", [
    Probe(epochs=3, learning_rate=0.05, batch_size=8, crop_padding=1, flip=0.5),
    Probe(epochs=2, learning_rate=0.2, momentum=0.0, batch_size=512, crop_padding=0, flip=0.0),
])  # fmt: skip
def test_probe_is_a_plain_loop_of_momentum_steps(settings: Probe, monkeypatch: pytest.MonkeyPatch) -> None:
    """SGD with momentum, cosine learning rate, last partial batch dropped, softmax gradient by hand."""
    images, labels = coloured_images(21)
    shifted: list[Tensor] = []
    orders: list[Tensor] = []
    shift, permute = augment.shift, torch.randperm

    def recorded_shift(*arguments, **names) -> Tensor:
        shifted.append(shift(*arguments, **names))
        return shifted[-1]

    def recorded_permutation(*arguments, **names) -> Tensor:
        orders.append(permute(*arguments, **names))
        return orders[-1]

    monkeypatch.setattr(augment, "shift", recorded_shift)
    monkeypatch.setattr(torch, "randperm", recorded_permutation)
    start = module._fresh_probe(Pixels(), images, 3, RUNTIME, 5)
    probe = train_probe(Pixels(), images, labels, 3, settings, RUNTIME, seed=5)
    assert len(shifted) == len(orders) == settings.epochs

    weight, bias = start.weight.detach().double(), start.bias.detach().double()
    weight_speed, bias_speed = torch.zeros_like(weight), torch.zeros_like(bias)
    size = min(settings.batch_size, 21)
    for epoch, (pixels, order) in enumerate(zip(shifted, orders, strict=True)):
        assert sorted(order.tolist()) == list(range(21))
        rate = settings.learning_rate * (1 + cos(pi * epoch / settings.epochs)) / 2
        x = augment.plain(pixels).flatten(1).double()
        for begin in range(0, 21 - size + 1, size):
            rows = order[begin : begin + size]
            scores = x[rows] @ weight.T + bias
            error = scores.exp() / scores.exp().sum(1, keepdim=True)
            for position, row in enumerate(rows):
                error[position, labels[row]] -= 1
            weight_speed = settings.momentum * weight_speed + error.T @ x[rows] / size
            bias_speed = settings.momentum * bias_speed + error.sum(0) / size
            weight, bias = weight - rate * weight_speed, bias - rate * bias_speed
    torch.testing.assert_close(probe.weight.detach().double(), weight, rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(probe.bias.detach().double(), bias, rtol=1e-3, atol=1e-4)


def test_images_are_shifted_anew_each_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    images, labels = coloured_images(12)
    seen: list[Tensor] = []
    monkeypatch.setattr(module, "embed", lambda m, x, r: seen.append(x) or embed(m, x, r))
    train_probe(Pixels(), images, labels, 3, Probe(epochs=2, batch_size=4), RUNTIME, seed=0)
    *_, first, second = seen
    assert first.shape == second.shape == images.shape
    assert not torch.equal(first, second)


def test_the_probe_needs_no_more_images_at_once_than_a_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    images, labels = coloured_images(12)
    settings = Probe(epochs=3, batch_size=5, crop_padding=1)
    whole = train_probe(Pixels(), images, labels, 3, settings, RUNTIME, seed=0)
    sizes: list[int] = []
    shift = augment.shift
    monkeypatch.setattr(augment, "shift", lambda x, drawn: sizes.append(len(x)) or shift(x, drawn))
    monkeypatch.setattr(features, "BATCH", 5)
    for kind in (images, images.numpy()):
        sizes.clear()
        chunked = train_probe(Pixels(), kind, labels, 3, settings, RUNTIME, seed=0)
        assert sizes == [5, 5, 2] * 3
        assert torch.equal(chunked.weight, whole.weight)
        assert torch.equal(chunked.bias, whole.bias)


def test_the_probe_is_trained_by_one_repeated_step_whose_tensors_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """What makes it a recorded step on a GPU: nothing is handed to it, and what it reads is never replaced."""
    images, labels = coloured_images(21)
    done: set[Callable[[], None]] = set()
    seen: list[set[int]] = []

    def repeat(step: Callable[[], None]) -> None:
        done.add(step)
        cells = [cell.cell_contents for cell in step.__closure__ or ()]
        seen.append({x.data_ptr() for x in cells if isinstance(x, Tensor)})
        step()

    monkeypatch.setattr(RUNTIME, "repeater", lambda _generator: repeat)
    train_probe(Pixels(), images, labels, 3, Probe(epochs=4, batch_size=8), RUNTIME, seed=0)
    assert len(done) == 1
    assert len(seen) == 4 * 2
    assert len(seen[0]) == 3  # features, rows, labels
    assert all(addresses == seen[0] for addresses in seen)


def test_the_same_seed_gives_the_same_probe_whatever_the_global_generator() -> None:
    images, labels = coloured_images(12)
    probes = []
    for state, seed in ((0, 3), (1, 3), (1, 4)):
        torch.manual_seed(state)
        probes.append(train_probe(Pixels(), images, labels, 3, Probe(epochs=2, batch_size=4), RUNTIME, seed).weight)
    assert torch.equal(probes[0], probes[1])
    assert not torch.equal(probes[0], probes[2])


def test_the_seed_decides_where_the_probe_starts() -> None:
    images, labels = coloured_images(12)
    still = Probe(epochs=1, learning_rate=0.0)
    first, again, other = (train_probe(Pixels(), images, labels, 3, still, RUNTIME, seed) for seed in (0, 0, 1))
    assert torch.equal(first.weight, again.weight)
    assert not torch.equal(first.weight, other.weight)
    assert first.weight.abs().max() <= 108**-0.5  # as torch.nn.Linear starts


def test_training_the_probe_leaves_the_model_alone() -> None:
    model = Pixels()
    model.backbone = nn.Sequential(nn.Flatten(), nn.Linear(108, 4), nn.BatchNorm1d(4))
    model.eval()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    images, labels = coloured_images(12)
    train_probe(model, images, labels, 3, Probe(epochs=2, batch_size=4), RUNTIME, seed=0)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(p.grad is None for p in model.parameters())


def test_confidences_are_the_softmax_of_the_true_class() -> None:
    probe = nn.Linear(2, 3)
    features, labels = torch.randn(5, 2), torch.tensor([0, 1, 2, 1, 0])
    confidence, right = confidences(probe, features, labels)
    scores = (features.double() @ probe.weight.T.double() + probe.bias.double()).exp().detach()
    for i, label in enumerate(labels.tolist()):
        assert confidence[i].item() == pytest.approx((scores[i, label] / scores[i].sum()).item(), abs=1e-6)
        assert right[i].item() == (max(range(3), key=lambda c, i=i: float(scores[i, c])) == label)


@pytest.mark.parametrize(
    ("name", "value"),
    [("epochs", 0), ("batch_size", 0), ("learning_rate", float("nan")), ("momentum", 2.0), ("flip", -1.0)],
)
def test_settings_that_cannot_be_are_refused(name: str, value: float) -> None:
    with pytest.raises(UserError, match=f"probe's {name.replace('_', '-')} is {value}"):
        config.Probe(**{name: value})
