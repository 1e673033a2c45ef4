"""Batch plans: fixed counts, no row left out, and weights that restore the data's shares, for any request."""

from collections import Counter
from math import exp

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from muc.data.loader import MIN_RETAIN, BatchPlan, plan_batches
from muc.errors import UserError

RETAIN = st.integers(2, 300)
FORGET = st.integers(2, 300)
BATCH = st.integers(4, 64)
SEED = st.integers(0, 2**31)


def make_plan(n_retain: int, n_forget: int, rows: str = "mixed", batch_size: int = 16, seed: int = 0) -> BatchPlan:
    """Rows are scattered over the data set, as after a random split."""
    order = np.random.default_rng(seed).permutation(2 * (n_retain + n_forget))
    return plan_batches(order[:n_retain], order[n_retain : n_retain + n_forget], rows, batch_size, seed)


@given(n_retain=RETAIN, n_forget=FORGET, batch_size=BATCH, rows=st.sampled_from(["retain", "forget", "mixed"]))
def test_every_step_has_the_same_counts_retain_rows_first(
    n_retain: int, n_forget: int, batch_size: int, rows: str
) -> None:
    plan = make_plan(n_retain, n_forget, rows, batch_size)
    epoch = plan.epoch(0)
    assert epoch.dtype == torch.int64
    assert epoch.shape == (plan.steps, plan.n_retain + plan.n_forget)
    assert plan.steps >= 1
    assert np.isin(epoch[:, : plan.n_retain], plan.retain).all()
    assert np.isin(epoch[:, plan.n_retain :], plan.forget).all()
    assert (plan.n_retain > 0) == (rows != "forget")
    assert (plan.n_forget > 0) == (rows != "retain")


@given(n_retain=RETAIN, n_forget=FORGET, batch_size=BATCH, seed=SEED)
def test_a_mixed_batch_is_full_and_holds_at_least_two_rows_of_each_kind(
    n_retain: int, n_forget: int, batch_size: int, seed: int
) -> None:
    plan = make_plan(n_retain, n_forget, "mixed", batch_size, seed)
    assert plan.n_retain + plan.n_forget == min(batch_size, n_retain + n_forget)
    assert 2 <= plan.n_forget <= n_forget
    assert MIN_RETAIN <= plan.n_retain <= n_retain


@given(n_retain=RETAIN, n_forget=FORGET, batch_size=BATCH, seed=SEED)
def test_a_mixed_batchs_counts_follow_the_sets_sizes_as_nearly_as_they_can(
    n_retain: int, n_forget: int, batch_size: int, seed: int
) -> None:
    plan = make_plan(n_retain, n_forget, "mixed", batch_size, seed)
    size = plan.n_retain + plan.n_forget
    ideal = size * n_forget / (n_retain + n_forget)
    slack = 5 if size % 8 == 0 else 1  # multiples of eight keep MoCo's batch-norm groups equal
    assert plan.n_forget <= 2 or plan.n_retain <= MIN_RETAIN or abs(plan.n_forget - ideal) <= slack


@given(
    n_retain=RETAIN,
    n_forget=FORGET,
    batch_size=BATCH,
    rows=st.sampled_from(["retain", "mixed"]),
    seed=SEED,
    epoch=st.integers(0, 9),
)
def test_every_retain_row_comes_at_most_once_an_epoch_and_fewer_than_a_batch_are_left_out(
    n_retain: int, n_forget: int, batch_size: int, rows: str, seed: int, epoch: int
) -> None:
    plan = make_plan(n_retain, n_forget, rows, batch_size, seed)
    dealt = plan.epoch(epoch)[:, : plan.n_retain].flatten().tolist()
    assert len(set(dealt)) == len(dealt)
    assert n_retain - len(dealt) < plan.n_retain


@given(
    n_retain=RETAIN,
    n_forget=FORGET,
    batch_size=BATCH,
    rows=st.sampled_from(["forget", "mixed"]),
    seed=SEED,
    epoch=st.integers(0, 9),
)
def test_forget_rows_take_turns_and_none_comes_twice_in_a_step(
    n_retain: int, n_forget: int, batch_size: int, rows: str, seed: int, epoch: int
) -> None:
    plan = make_plan(n_retain, n_forget, rows, batch_size, seed)
    dealt = plan.epoch(epoch)[:, plan.n_retain :]
    for step in dealt.tolist():
        assert len(set(step)) == len(step)
    sequence = dealt.flatten().tolist()
    for start in range(0, len(sequence), n_forget):  # each round is a shuffle of all forget rows, the last one cut
        turn = sequence[start : start + n_forget]
        assert len(set(turn)) == len(turn)
    counts = Counter(sequence)
    assert max(counts.values()) - min(counts.get(row, 0) for row in plan.forget.tolist()) <= 1


@given(n_retain=st.integers(2, 60), n_forget=st.integers(2, 60), batch_size=BATCH, seed=SEED)
def test_over_the_epochs_every_row_has_its_turn(n_retain: int, n_forget: int, batch_size: int, seed: int) -> None:
    plan = make_plan(n_retain, n_forget, "mixed", batch_size, seed)
    seen: set[int] = set()
    for epoch in range(200):
        seen |= set(plan.epoch(epoch).flatten().tolist())
        if len(seen) == n_retain + n_forget:
            return
    pytest.fail(f"{n_retain + n_forget - len(seen)} rows never came")


def test_half_of_the_data_to_forget_gives_half_of_every_batch() -> None:
    plan = make_plan(22_500, 22_500, "mixed", 512)
    assert (plan.n_retain, plan.n_forget, plan.steps) == (256, 256, 87)
    assert torch.equal(plan.log_weight(), torch.zeros(512))
    assert plan.epsilon == 1.0


def test_a_tenth_of_cifar10_to_forget_is_forty_eight_of_512_rows() -> None:
    plan = make_plan(40_500, 4_500, "mixed", 512)
    assert (plan.n_retain, plan.n_forget) == (464, 48)  # 51 rounded to a multiple of eight
    assert plan.epsilon == pytest.approx(1 / 9)
    assert plan.steps == 40_500 // 464


@pytest.mark.parametrize("n_forget", [2, 3, 50])
def test_tiny_requests_are_in_every_step(n_forget: int) -> None:
    """The released code averaged over no rows in 56 % of the batches of a 50-image request."""
    plan = make_plan(44_950, n_forget, "mixed", 512)
    assert plan.n_forget == 2
    assert plan.epoch(0).shape == (44_950 // 510, 512)


@given(n_retain=RETAIN, n_forget=FORGET, batch_size=BATCH, seed=SEED)
def test_weighted_shares_of_a_batch_are_the_shares_of_the_data(
    n_retain: int, n_forget: int, batch_size: int, seed: int
) -> None:
    plan = make_plan(n_retain, n_forget, "mixed", batch_size, seed)
    weight = [exp(w) for w in plan.log_weight().tolist()]
    assert len(weight) == plan.n_retain + plan.n_forget
    total = sum(weight)
    assert total == pytest.approx(len(weight))
    assert sum(weight[: plan.n_retain]) / total == pytest.approx(n_retain / (n_retain + n_forget), rel=1e-5)
    assert sum(weight[plan.n_retain :]) / total == pytest.approx(n_forget / (n_retain + n_forget), rel=1e-5)


@pytest.mark.parametrize("rows", ["retain", "forget"])
def test_batches_of_one_kind_have_no_weights(rows: str) -> None:
    plan = make_plan(30, 20, rows, 16)
    assert torch.equal(plan.log_weight(), torch.zeros(16))


@given(seed=SEED, epoch=st.integers(0, 1000))
def test_an_epoch_depends_on_seed_and_number_alone(seed: int, epoch: int) -> None:
    rows = np.arange(40), np.arange(40, 50)
    plan, again = (plan_batches(*rows, "mixed", 16, seed) for _ in range(2))
    for other in (0, epoch + 1, 5):  # whatever was asked for before
        again.epoch(other)
    np.random.default_rng(epoch).random()
    torch.manual_seed(epoch)
    assert torch.equal(plan.epoch(epoch), again.epoch(epoch))
    assert not torch.equal(plan.epoch(epoch), plan.epoch(epoch + 1))
    assert not torch.equal(plan.epoch(epoch), plan_batches(*rows, "mixed", 16, seed + 1).epoch(epoch))


@given(n_retain=st.integers(0, 10), n_forget=st.integers(0, 10), rows=st.sampled_from(["retain", "forget", "mixed"]))
def test_impossible_requests_are_refused_and_all_others_are_served(n_retain: int, n_forget: int, rows: str) -> None:
    retain, forget = np.arange(n_retain), np.arange(100, 100 + n_forget)
    too_few_forget = rows != "retain" and n_forget < 2
    too_few_retain = rows != "forget" and n_retain < MIN_RETAIN
    if not (too_few_forget or too_few_retain):
        plan = plan_batches(retain, forget, rows, 8, 0)
        assert len(plan.epoch(0)) == plan.steps >= 1
        return
    with pytest.raises(UserError, match=r"the request (names|leaves) \d+ image"):
        plan_batches(retain, forget, rows, 8, 0)


@pytest.mark.parametrize("batch_size", [2, 3])
def test_a_batch_too_small_for_two_rows_of_each_kind_is_refused(batch_size: int) -> None:
    with pytest.raises(UserError, match="batch"):
        make_plan(20, 10, "mixed", batch_size)


@given(n_retain=RETAIN, n_forget=FORGET)
def test_plans_of_retain_rows_do_not_depend_on_the_request(n_retain: int, n_forget: int) -> None:
    retain = np.arange(n_retain)
    plans = [plan_batches(retain, np.arange(1000, 1000 + k), "retain", 16, 3) for k in (0, n_forget)]
    assert torch.equal(plans[0].epoch(2), plans[1].epoch(2))
