"""MoCo keeps the contract; its queue and key encoder do what a list and an average would."""

from math import exp, log

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from naive import cosine
from tiny_batches import SIZE, tiny_batch
from torch import Tensor, nn

from muc.config import Model
from muc.models import MoCo, build_model
from muc.models.moco import follow
from muc.models.norm import BatchNorm


def tiny_model(queue_size: int = 7, temperature: float = 0.1, key_momentum: float = 0.9) -> MoCo:
    torch.manual_seed(0)
    backbone = nn.Sequential(nn.Flatten(), nn.Linear(3 * SIZE * SIZE, 8), nn.BatchNorm1d(8), nn.Tanh())
    model = MoCo(
        backbone, 8, projection_dim=5, temperature=temperature, queue_size=queue_size, key_momentum=key_momentum
    )
    model.queue_log_weight.normal_()
    with torch.no_grad():  # a key encoder that is not the query encoder
        for parameter in (*model.key_backbone.parameters(), *model.key_projector.parameters()):
            parameter.add_(0.1 * torch.randn_like(parameter))
    return in_double(model)


def in_double(model: MoCo) -> MoCo:
    """Encoders in double precision; what is compared stays single, as always."""
    model.double()
    model.queue, model.queue_log_weight = model.queue.float(), model.queue_log_weight.float()
    return model


def keys_of(model: MoCo, images: Tensor) -> Tensor:
    return model.key_projector(model.key_backbone(images)).detach()


@given(
    n_retain=st.integers(0, 4),
    n_forget=st.integers(2, 4),
    third=st.booleans(),
    queue_size=st.integers(1, 8),
    temperature=st.floats(0.1, 2.0),
    seed=st.integers(0, 99),
)
def test_contrast_is_what_the_embeddings_and_the_queue_say(
    n_retain: int, n_forget: int, third: bool, queue_size: int, temperature: float, seed: int
) -> None:
    model, batch = tiny_model(queue_size, temperature), tiny_batch(n_retain, n_forget, third, seed)
    contrast = model.contrast(batch)
    n = n_retain + n_forget
    query = model.projected(batch.first).tolist()
    # No shuffling here: ordinary batch norm does not see the order of rows.
    keys = keys_of(model, batch.second if batch.third is None else torch.cat([batch.second, batch.third])).tolist()

    def s(x: list[float], y: list[float]) -> float:
        return cosine(x, y) / temperature

    entries = list(zip(model.queue.tolist(), model.queue_log_weight.tolist(), strict=True))
    forget = range(n_retain, n)
    expected = {
        "positive": [s(query[i], keys[i]) for i in range(n)],
        "negatives": [[log(sum(exp(w) * exp(s(q, key)) for key, w in entries)) for q in query]],
        "within_forget": [[s(query[i], keys[j]) for j in forget] for i in forget],
    }
    if third:
        expected["third"] = [s(query[i], keys[n + i - n_retain]) for i in forget]
    for name, values in expected.items():
        torch.testing.assert_close(getattr(contrast, name), torch.tensor(values), rtol=1e-5, atol=1e-5, msg=name)
    assert (contrast.third is None) == (not third)
    assert (contrast.n_retain, contrast.temperature) == (n_retain, temperature)


def test_a_rows_loss_has_one_anchor() -> None:
    contrast = tiny_model().contrast(tiny_batch(3, 2))
    assert contrast.negatives.shape == (1, 5)
    expected = [
        log(1 + exp(negatives - positive))
        for positive, negatives in zip(contrast.positive.tolist(), contrast.negatives[0].tolist(), strict=True)
    ]
    torch.testing.assert_close(contrast.infonce(), torch.tensor(expected))


@pytest.mark.parametrize("third", [False, True])
def test_gradient_reaches_the_query_encoder_and_never_the_keys(third: bool) -> None:
    model = tiny_model()
    batch = tiny_batch(3, 2, third)
    batch.second.requires_grad_()
    contrast = model.contrast(batch)
    loss = contrast.infonce().mean() + contrast.within_forget.sum()
    if contrast.third is not None:
        batch.third.requires_grad_()
        loss = loss + contrast.third.sum()
    loss.backward()
    for name, parameter in model.named_parameters():
        if name.startswith("key_"):
            assert parameter.grad is None, name
            assert not parameter.requires_grad, name
        elif name != "backbone.1.bias":  # batch norm removes it
            assert parameter.grad is not None, name
            assert parameter.grad.abs().max() > 0, name
    assert batch.second.grad is None
    assert batch.third is None or batch.third.grad is None


@given(queue_size=st.integers(1, 9), batches=st.lists(st.integers(2, 13), min_size=1, max_size=5))
def test_the_queue_holds_the_latest_keys_like_a_ring(queue_size: int, batches: list[int]) -> None:
    """Against a Python list written slot by slot: order, wrap-around and batches larger than the queue."""
    model = tiny_model(queue_size)
    slots = list(zip(model.queue.tolist(), model.queue_log_weight.tolist(), strict=True))
    position = 0
    for step, n in enumerate(batches):
        batch = tiny_batch(n - 2, 2, third=step % 2 == 1, seed=step)
        keys = keys_of(model, batch.second if batch.third is None else torch.cat([batch.second, batch.third]))
        keys = torch.nn.functional.normalize(keys[:n], dim=-1).tolist()
        model.contrast(batch)
        model.after_step()
        for key, weight in zip(keys, batch.log_weight.tolist(), strict=True):
            slots[position] = (key, weight)
            position = (position + 1) % queue_size
    expected_keys, expected_weights = zip(*slots, strict=True)
    torch.testing.assert_close(model.queue, torch.tensor(expected_keys), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(model.queue_log_weight, torch.tensor(expected_weights))
    assert model.queue_position.item() == position


def test_a_steps_own_keys_are_not_its_negatives() -> None:
    model, batch = tiny_model(), tiny_batch(3, 2)
    before = model.queue.clone()
    model.contrast(batch)
    torch.testing.assert_close(model.queue, before, rtol=0, atol=0)
    model.after_step()
    assert not torch.equal(model.queue, before)


def test_swapped_batches_queue_views_of_other_forget_images() -> None:
    """As the released code does: the key queued for a forget row is a view of another one."""
    model, batch = tiny_model(queue_size=5), tiny_batch(3, 2)
    swapped = batch.swapped()
    keys = torch.nn.functional.normalize(keys_of(model, swapped.second), dim=-1).float()
    model.contrast(swapped)
    model.after_step()
    torch.testing.assert_close(model.queue, keys, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("momentum", [0.0, 0.9, 0.99, 1.0])
def test_the_key_encoder_is_an_exact_moving_average(momentum: float) -> None:
    model = tiny_model(key_momentum=momentum)
    batch = tiny_batch(3, 2)
    pairs = [("key_backbone", "backbone"), ("key_projector", "projector")]
    state = {name: p.detach().clone() for name, p in model.named_parameters()}
    model.contrast(batch)
    model.after_step()
    for slow, fast in pairs:
        for name, parameter in getattr(model, slow).named_parameters():
            expected = momentum * state[f"{slow}.{name}"] + (1 - momentum) * state[f"{fast}.{name}"]
            torch.testing.assert_close(parameter, expected, rtol=1e-12, atol=1e-12)
        for name, parameter in getattr(model, fast).named_parameters():
            torch.testing.assert_close(parameter, state[f"{fast}.{name}"], rtol=0, atol=0)


def test_following_leaves_the_slow_modules_batch_norm_statistics_alone() -> None:
    slow, fast = nn.BatchNorm1d(3), nn.BatchNorm1d(3)
    nn.init.constant_(fast.weight, 3.0)
    fast.running_mean.fill_(9.0)
    follow(slow.requires_grad_(False), fast.requires_grad_(False), 0.75)
    torch.testing.assert_close(slow.weight, torch.full((3,), 1.5))
    torch.testing.assert_close(slow.running_mean, torch.zeros(3))


def test_after_step_needs_a_contrast_before_it() -> None:
    with pytest.raises(AssertionError, match="contrast"):
        tiny_model().after_step()


def test_the_key_encoder_starts_as_a_copy() -> None:
    model = build_model(Model(algorithm="moco", architecture="mlp", queue_size=16), channels=1, image_size=4)
    for slow, fast in ((model.key_backbone, model.backbone), (model.key_projector, model.projector)):
        for a, b in zip(slow.parameters(), fast.parameters(), strict=True):
            torch.testing.assert_close(a, b, rtol=0, atol=0)
            assert a.data_ptr() != b.data_ptr()
    torch.testing.assert_close(model.queue.norm(dim=1), torch.ones(16))


def test_the_papers_head_is_one_linear_layer_and_its_queue_holds_4096_keys() -> None:
    with torch.device("meta"):
        model = build_model(Model(algorithm="moco", architecture="resnet18"), channels=3, image_size=32)
    assert isinstance(model.projector, nn.Linear)
    assert model.projector.weight.shape == (128, 512)
    assert model.projector.bias is not None
    assert model.queue.shape == (4096, 128)
    assert model.key_momentum == 0.99


def grouped_model(groups: int) -> MoCo:
    torch.manual_seed(0)
    norm = BatchNorm(4, groups) if groups > 1 else nn.BatchNorm2d(4)
    backbone = nn.Sequential(nn.Conv2d(3, 4, 3), norm, nn.Flatten())
    return in_double(MoCo(backbone, 16, projection_dim=5, queue_size=8, norm_groups=groups))


@pytest.mark.parametrize("rows", [8, 6])  # six rows make two groups
def test_queries_are_dealt_out_to_the_groups(rows: int) -> None:
    """Retain rows come first: consecutive groups would hold one kind alone."""
    model, single, images = grouped_model(4), grouped_model(1), tiny_batch(rows, 0).first
    found, groups = model._queries(images), 4 if rows == 8 else 2
    for g in range(groups):
        expected = torch.nn.functional.normalize(single.projected(images[g::groups]), dim=-1).float()
        torch.testing.assert_close(found[g::groups], expected, rtol=1e-5, atol=1e-6)


def test_shuffling_puts_keys_back_in_order() -> None:
    model, images = grouped_model(groups=1), tiny_batch(6, 2).second
    expected = torch.nn.functional.normalize(keys_of(model, images), dim=-1).float()
    torch.testing.assert_close(model._keys(images), expected, rtol=1e-5, atol=1e-6)


def test_shuffling_changes_batch_norm_groups_and_nothing_else() -> None:
    model, images = grouped_model(groups=4), tiny_batch(6, 2).second

    def unshuffled() -> Tensor:
        return torch.nn.functional.normalize(keys_of(model, images), dim=-1).float()

    assert (model._keys(images) - unshuffled()).abs().max() > 1e-3
    model.eval()
    torch.testing.assert_close(model._keys(images), unshuffled(), rtol=1e-5, atol=1e-6)


def test_shuffling_is_the_same_every_time_and_leaves_the_global_generator_alone() -> None:
    model, images = grouped_model(groups=4), tiny_batch(6, 2).second
    state = torch.random.get_rng_state()
    torch.testing.assert_close(model._keys(images), model._keys(images), rtol=0, atol=0)
    assert torch.equal(torch.random.get_rng_state(), state)
