"""SimCLR keeps the contract: what it says of a batch is what its embeddings say, pair by pair."""

from math import exp, log

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from naive import cosine
from tiny_batches import SIZE, tiny_batch
from torch import nn

from muc.config import Model
from muc.models import Batch, SimCLR, build_model


def tiny_model(temperature: float = 0.5) -> SimCLR:
    torch.manual_seed(0)
    backbone = nn.Sequential(nn.Flatten(), nn.Linear(3 * SIZE * SIZE, 8), nn.Tanh())
    return SimCLR(backbone, 8, projection_dim=5, temperature=temperature).double()


def embeddings(model: SimCLR, batch: Batch) -> tuple[list[list[float]], ...]:
    """First, second and third views through the network together, unnormalised."""
    views = [batch.first, batch.second] + ([] if batch.third is None else [batch.third])
    z = model.projected(torch.cat(views)).tolist()
    n = len(batch.first)
    return z[:n], z[n : 2 * n], z[2 * n :]


@given(
    n_retain=st.integers(0, 4),
    n_forget=st.integers(2, 4),
    third=st.booleans(),
    temperature=st.floats(0.1, 2.0),
    seed=st.integers(0, 99),
)
def test_contrast_is_what_the_embeddings_say(
    n_retain: int, n_forget: int, third: bool, temperature: float, seed: int
) -> None:
    model, batch = tiny_model(temperature), tiny_batch(n_retain, n_forget, third, seed)
    contrast = model.contrast(batch)
    first, second, extra = embeddings(model, batch)
    n = n_retain + n_forget
    weight = [exp(w) for w in batch.log_weight.tolist()]

    def s(x: list[float], y: list[float]) -> float:
        return cosine(x, y) / temperature

    def negatives(anchor: list[float], i: int) -> float:
        return log(sum(weight[j] * exp(s(anchor, view[j])) for view in (first, second) for j in range(n) if j != i))

    forget = range(n_retain, n)
    expected = {
        "positive": [s(first[i], second[i]) for i in range(n)],
        "negatives": [[negatives(view[i], i) for i in range(n)] for view in (first, second)],
        "within_forget": [[s(first[i], second[j]) for j in forget] for i in forget],
    }
    if third:
        expected["third"] = [s(first[i], extra[i - n_retain]) for i in forget]
    for name, values in expected.items():
        torch.testing.assert_close(getattr(contrast, name), torch.tensor(values), rtol=1e-5, atol=1e-5, msg=name)
    assert (contrast.third is None) == (not third)
    assert contrast.n_retain == n_retain
    assert contrast.temperature == temperature


def test_a_rows_loss_averages_its_two_anchors() -> None:
    contrast = tiny_model().contrast(tiny_batch(3, 2))
    expected = [
        sum(log(1 + exp(negatives[i] - positive)) for negatives in contrast.negatives.tolist()) / 2
        for i, positive in enumerate(contrast.positive.tolist())
    ]
    torch.testing.assert_close(contrast.infonce(), torch.tensor(expected))


def test_rows_of_zero_weight_do_not_count_as_negatives() -> None:
    model, batch = tiny_model().eval(), tiny_batch(3, 2)
    batch.log_weight[:] = torch.tensor([0.0, 0.0, 0.0, -200.0, -200.0])
    alone = Batch(batch.first[:3], batch.second[:3], 3, torch.zeros(3))
    torch.testing.assert_close(model.contrast(batch).negatives[:, :3], model.contrast(alone).negatives)


def test_gradient_reaches_every_parameter() -> None:
    model = tiny_model()
    model.contrast(tiny_batch(3, 2)).infonce().mean().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        assert parameter.grad.abs().max() > 0, name


def test_swapped_gives_each_forget_row_the_second_view_of_another_and_leaves_retain_rows() -> None:
    batch = tiny_batch(3, 4, third=True)
    swapped = batch.swapped()
    torch.testing.assert_close(swapped.second[:3], batch.second[:3], rtol=0, atol=0)
    torch.testing.assert_close(swapped.first, batch.first, rtol=0, atol=0)
    assert swapped.third is batch.third
    found = [next(j for j in range(7) if torch.equal(swapped.second[i], batch.second[j])) for i in range(3, 7)]
    assert sorted(found) == [3, 4, 5, 6]
    assert all(i != j for i, j in enumerate(found, start=3))


def test_the_papers_head_is_linear_norm_relu_linear_norm_without_biases() -> None:
    with torch.device("meta"):
        model = build_model(Model(algorithm="simclr", architecture="resnet18"), channels=3, image_size=32)
    kinds = [type(layer) for layer in model.projector]
    assert kinds == [nn.Linear, nn.BatchNorm1d, nn.ReLU, nn.Linear, nn.BatchNorm1d]
    shapes = {name: tuple(p.shape) for name, p in model.projector.named_parameters() if p.ndim == 2}
    assert shapes == {"0.weight": (512, 512), "3.weight": (128, 512)}
    assert all(layer.bias is None for layer in model.projector if isinstance(layer, nn.Linear))


def test_features_are_the_backbones_and_projected_is_the_heads() -> None:
    model, images = tiny_model().eval(), tiny_batch(2, 2).first
    torch.testing.assert_close(model.features(images), model.backbone(images))
    torch.testing.assert_close(model.projected(images), model.projector(model.backbone(images)))


@pytest.mark.parametrize("size", [2, 3, 5])
def test_losses_are_single_precision_whatever_the_network_computes_in(size: int) -> None:
    contrast = tiny_model().contrast(tiny_batch(0, size))
    assert contrast.positive.dtype == contrast.negatives.dtype == torch.float32
