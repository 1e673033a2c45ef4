"""Every objective against plain Python floats, pair by pair: values, and gradients by finite differences."""

from collections.abc import Callable
from math import exp, log

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import cross_entropy, normalize

from muc import objectives

Vectors = list[list[float]]

SEEDS = st.integers(0, 2**32 - 1)
TEMPERATURES = st.floats(0.05, 5.0)
ROWS = st.integers(2, 4)
DIMENSIONS = st.integers(1, 4)


def unit_vectors(n: int, d: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return normalize(torch.randn(n, d, dtype=torch.float64, generator=generator), dim=-1)


def some_weights(n: int, seed: int) -> Tensor:
    return 2 * torch.rand(n, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)) - 1


def dot(x: list[float], y: list[float]) -> float:
    return sum(a * b for a, b in zip(x, y, strict=True))


def naive_pairwise(x: Vectors, y: Vectors, temperature: float) -> Vectors:
    return [[dot(a, b) / temperature for b in y] for a in x]


def naive_paired(x: Vectors, y: Vectors, temperature: float) -> list[float]:
    return [dot(a, b) / temperature for a, b in zip(x, y, strict=True)]


def naive_in_batch_negatives(
    first: Vectors, second: Vectors, temperature: float, log_weight: list[float]
) -> list[list[float]]:
    """For both anchors of row i: all views of all other rows, each with its row's weight."""
    n = len(first)
    return [
        [
            log(
                sum(
                    exp(log_weight[j]) * exp(dot(anchors[i], view[j]) / temperature)
                    for view in (first, second)
                    for j in range(n)
                    if j != i
                )
            )
            for i in range(n)
        ]
        for anchors in (first, second)
    ]


def naive_queue_negatives(
    query: Vectors, queue: Vectors, temperature: float, log_weight: list[float]
) -> list[list[float]]:
    return [
        [
            log(sum(exp(w) * exp(dot(q, key) / temperature) for key, w in zip(queue, log_weight, strict=True)))
            for q in query
        ]
    ]


def naive_infonce(positive: list[float], negatives: list[list[float]]) -> list[float]:
    anchors = len(negatives)
    return [
        sum(-log(exp(positive[i]) / (exp(positive[i]) + exp(row[i]))) for row in negatives) / anchors
        for i in range(len(positive))
    ]


def assert_same_values_and_gradients(
    function: Callable[..., Tensor], naive: Callable[..., object], arguments: list[Tensor], *constants: object
) -> None:
    """`naive` gets lists for tensors. The gradient is that of a fixed random combination of all results."""
    plain = [c.tolist() if isinstance(c, Tensor) else c for c in constants]
    arguments = [a.clone().requires_grad_() for a in arguments]
    result = function(*arguments, *constants)
    expected = torch.tensor(naive(*(a.tolist() for a in arguments), *plain), dtype=torch.float64)
    torch.testing.assert_close(result.detach(), expected, rtol=1e-10, atol=1e-10)

    mix = torch.randn(result.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    gradients = torch.autograd.grad((mix * result).sum(), arguments)

    def mixed(tensors: list[Tensor]) -> float:
        values = naive(*(t.tolist() for t in tensors), *plain)
        return float((mix * torch.tensor(values, dtype=torch.float64)).sum())

    for which, gradient in enumerate(gradients):
        numerical = torch.zeros_like(gradient)
        for position in range(gradient.numel()):
            ends = []
            for step in (1e-6, -1e-6):
                moved = [a.detach().clone() for a in arguments]
                moved[which].view(-1)[position] += step
                ends.append(mixed(moved))
            numerical.view(-1)[position] = (ends[0] - ends[1]) / 2e-6
        scale = float(numerical.abs().max()) + 1
        torch.testing.assert_close(gradient, numerical, rtol=1e-5, atol=1e-6 * scale)


@given(n=ROWS, m=ROWS, d=DIMENSIONS, temperature=TEMPERATURES, seed=SEEDS)
def test_pairwise_is_cosine_over_temperature(n: int, m: int, d: int, temperature: float, seed: int) -> None:
    x, y = unit_vectors(n, d, seed), unit_vectors(m, d, seed + 1)
    assert_same_values_and_gradients(objectives.pairwise, naive_pairwise, [x, y], temperature)


@given(n=ROWS, d=DIMENSIONS, temperature=TEMPERATURES, seed=SEEDS)
def test_paired_is_cosine_over_temperature(n: int, d: int, temperature: float, seed: int) -> None:
    x, y = unit_vectors(n, d, seed), unit_vectors(n, d, seed + 1)
    assert_same_values_and_gradients(objectives.paired, naive_paired, [x, y], temperature)


@given(n=ROWS, d=DIMENSIONS, temperature=TEMPERATURES, seed=SEEDS)
def test_in_batch_negatives_sum_over_both_views_of_all_other_rows(
    n: int, d: int, temperature: float, seed: int
) -> None:
    views = [unit_vectors(n, d, seed), unit_vectors(n, d, seed + 1)]
    assert_same_values_and_gradients(
        objectives.in_batch_negatives, naive_in_batch_negatives, views, temperature, some_weights(n, seed)
    )


@given(n=ROWS, k=st.integers(1, 6), d=DIMENSIONS, temperature=TEMPERATURES, seed=SEEDS)
def test_queue_negatives_sum_over_all_keys(n: int, k: int, d: int, temperature: float, seed: int) -> None:
    vectors = [unit_vectors(n, d, seed), unit_vectors(k, d, seed + 1)]
    assert_same_values_and_gradients(
        objectives.queue_negatives, naive_queue_negatives, vectors, temperature, some_weights(k, seed)
    )


@given(n=ROWS, anchors=st.integers(1, 2), seed=SEEDS)
def test_infonce_is_minus_log_of_the_positives_share_averaged_over_anchors(n: int, anchors: int, seed: int) -> None:
    scores = 3 * torch.randn(anchors + 1, n, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    assert_same_values_and_gradients(objectives.infonce, naive_infonce, [scores[0], scores[1:]])


@given(n=st.integers(2, 8), d=st.integers(2, 6), temperature=TEMPERATURES, seed=SEEDS)
def test_simclr_loss_is_the_textbook_nt_xent(n: int, d: int, temperature: float, seed: int) -> None:
    """Cross-entropy over the 2n - 1 other views, the right class being the other view of the same image."""
    views = torch.stack([unit_vectors(n, d, seed), unit_vectors(n, d, seed + 1)]).requires_grad_()
    z = views.flatten(0, 1)
    logits = (z @ z.T / temperature).masked_fill(torch.eye(2 * n, dtype=torch.bool), -torch.inf)
    textbook = cross_entropy(logits, (torch.arange(2 * n) + n) % (2 * n))

    negatives = objectives.in_batch_negatives(views[0], views[1], temperature, torch.zeros(n, dtype=torch.float64))
    ours = objectives.infonce(objectives.paired(views[0], views[1], temperature), negatives).mean()

    torch.testing.assert_close(ours, textbook)
    torch.testing.assert_close(*(torch.autograd.grad(loss, views)[0] for loss in (ours, textbook)))


@given(n=ROWS, k=st.integers(1, 9), d=st.integers(2, 6), temperature=TEMPERATURES, seed=SEEDS)
def test_moco_loss_is_cross_entropy_over_positive_and_queue(
    n: int, k: int, d: int, temperature: float, seed: int
) -> None:
    query, key, queue = (unit_vectors(rows, d, seed + i) for i, rows in enumerate((n, n, k)))
    query.requires_grad_()
    logits = torch.cat([(query * key).sum(1, keepdim=True), query @ queue.T], dim=1) / temperature
    textbook = cross_entropy(logits, torch.zeros(n, dtype=torch.long), reduction="none")

    negatives = objectives.queue_negatives(query, queue, temperature, torch.zeros(k, dtype=torch.float64))
    ours = objectives.infonce(objectives.paired(query, key, temperature), negatives)

    torch.testing.assert_close(ours, textbook)
    torch.testing.assert_close(*(torch.autograd.grad(loss.sum(), query)[0] for loss in (ours, textbook)))


@given(copies=st.integers(1, 7), temperature=TEMPERATURES, seed=SEEDS)
def test_rows_drawn_k_times_too_often_with_weight_one_over_k_count_once_in_a_batch(
    copies: int, temperature: float, seed: int
) -> None:
    retain, forget = 3, 2
    views = [unit_vectors(retain + forget, 4, seed), unit_vectors(retain + forget, 4, seed + 1)]
    often = [torch.cat([v[:retain], v[retain:].repeat(copies, 1)]) for v in views]
    log_weight = torch.zeros(retain + forget * copies, dtype=torch.float64)
    log_weight[retain:] = -log(copies)
    right = objectives.in_batch_negatives(*views, temperature, torch.zeros(retain + forget, dtype=torch.float64))
    corrected = objectives.in_batch_negatives(*often, temperature, log_weight)
    torch.testing.assert_close(corrected[:, :retain], right[:, :retain])


@given(copies=st.integers(1, 7), temperature=TEMPERATURES, seed=SEEDS)
def test_keys_queued_k_times_too_often_with_weight_one_over_k_count_once(
    copies: int, temperature: float, seed: int
) -> None:
    query, common, rare = unit_vectors(3, 4, seed), unit_vectors(5, 4, seed + 1), unit_vectors(2, 4, seed + 2)
    log_weight = torch.cat([torch.zeros(5), torch.full((2 * copies,), -log(copies))]).double()
    often = torch.cat([common, rare.repeat(copies, 1)])
    right = objectives.queue_negatives(query, torch.cat([common, rare]), temperature, torch.zeros(7).double())
    torch.testing.assert_close(
        objectives.queue_negatives(query, often, temperature, log_weight), right, rtol=1e-6, atol=1e-6
    )


def test_a_constant_weight_shifts_negatives_by_a_constant_and_no_gradient_sees_it() -> None:
    first, second = (unit_vectors(4, 3, seed).requires_grad_() for seed in (0, 1))
    plain = objectives.in_batch_negatives(first, second, 0.5, torch.zeros(4, dtype=torch.float64))
    shifted = objectives.in_batch_negatives(first, second, 0.5, torch.full((4,), 2.5, dtype=torch.float64))
    torch.testing.assert_close(shifted, plain + 2.5)
    torch.testing.assert_close(*(torch.autograd.grad(v.sum(), first)[0] for v in (shifted, plain)))


def test_the_temperature_may_be_a_learned_tensor() -> None:
    first, second = unit_vectors(4, 3, 0), unit_vectors(4, 3, 1)
    temperature = torch.tensor(0.3, dtype=torch.float64, requires_grad=True)
    torch.testing.assert_close(objectives.pairwise(first, second, temperature), objectives.pairwise(first, second, 0.3))
    objectives.paired(first, second, temperature).sum().backward()
    assert temperature.grad is not None
    assert temperature.grad.item() == pytest.approx(-float((first * second).sum()) / 0.3**2)


@pytest.mark.parametrize("temperature", [1e-4, 1e-2, 100.0])
def test_extreme_temperatures_stay_finite_in_single_precision(temperature: float) -> None:
    views = torch.stack([unit_vectors(5, 4, 0), unit_vectors(5, 4, 1)]).float().requires_grad_()
    negatives = objectives.in_batch_negatives(views[0], views[1], temperature, torch.zeros(5))
    loss = objectives.infonce(objectives.paired(views[0], views[1], temperature), negatives).mean()
    loss.backward()
    assert loss.isfinite()
    assert views.grad is not None
    assert views.grad.isfinite().all()
