"""Rates and their intervals, and the counting of false alarms against a loop that anybody can follow."""

import numpy as np
import pytest
from scipy.stats import binomtest

from muc.audit import disjoint_pairs_test, hold_back_test, jackknife_test, pair_t_test
from muc.audit.hold_back import ALPHA
from muc.audit_lab.calibrate import Exchange, calibrate
from muc.audit_lab.calibration_report import figure, table
from muc.audit_lab.judging import DRAWS, TESTS
from muc.audit_lab.owners import KINDS, draw_owner
from muc.audit_lab.rates import clopper_pearson, cluster_interval, rate_of
from muc.errors import UserError
from muc.report.render import markdown


@pytest.mark.parametrize(("count", "trials"), [(0, 10), (3, 10), (10, 10), (100, 2000)])
def test_clopper_pearson_is_scipys(count: int, trials: int) -> None:
    expected = binomtest(count, trials).proportion_ci(0.95, method="exact")
    assert clopper_pearson(count, trials) == pytest.approx((expected.low, expected.high))


def test_clusters_that_agree_within_widen_the_interval() -> None:
    together = np.repeat(np.arange(20)[:, None] < 4, 100, axis=1)  # all or none of a cluster
    rate = rate_of(together)
    assert rate.rate == 0.2
    assert rate.cluster_high - rate.cluster_low > 4 * (rate.high - rate.low)
    assert cluster_interval(np.full(20, 0.25)) == (0.25, 0.25)


def pairs() -> list[Exchange]:
    rng = np.random.default_rng(3)
    labels = np.repeat([0, 1], 30)
    return [Exchange((noise + noise.T) / 2 + 0.05, labels) for noise in rng.normal(0, 0.1, (3, 60, 60))]


def test_false_alarms_are_counted_as_a_naive_loop_counts_them() -> None:
    found = calibrate(pairs(), "made up", audits=8, sizes=(5,), seed=4)
    for kind in KINDS:
        count = dict.fromkeys(TESTS, 0)
        for i, pair in enumerate(pairs()):
            rng = np.random.default_rng([4, 5, KINDS.index(kind), i])
            for _ in range(8):
                owner = draw_owner(pair.labels, kind, 5, 5, rng)
                agm = pair.agm[owner.rows][:, owner.rows]
                test = hold_back_test(agm, owner.forget, DRAWS, int(rng.integers(8)))
                mine = agm[owner.forget][:, owner.forget]
                count["hold_back"] += test.p <= ALPHA
                count["FS"] += test.FS.p <= ALPHA
                count["negative_alignment"] += test.negative_alignment.p <= ALPHA
                count["jackknife"] += jackknife_test(mine).p <= ALPHA
                count["disjoint_pairs"] += disjoint_pairs_test(mine).p <= ALPHA
                count["pair_t"] += pair_t_test(mine).p <= ALPHA
        for test, expected in count.items():
            assert found.find(test, kind, 5).rate == expected / 24, (test, kind)
    assert found.audits == 48
    assert all(name in markdown(table(found)) for name in TESTS.values())
    assert figure(found).startswith(b"\x89PNG")


def test_owners_have_their_images_once_and_of_one_class_where_asked() -> None:
    labels = np.repeat([0, 1, 2], [50, 12, 3])
    rng = np.random.default_rng(0)
    for kind in KINDS:
        owner = draw_owner(labels, kind, 4, 6, rng)
        assert len(set(owner.rows)) == 10
        assert owner.forget.sum() == 4
    classes = {tuple(np.unique(labels[draw_owner(labels, "one class", 5, 5, rng).rows])) for _ in range(30)}
    assert classes == {(0,), (1,)}
    with pytest.raises(UserError, match="no class has 60 images"):
        draw_owner(labels, "one class", 30, 30, rng)


def test_every_image_is_as_likely_to_be_listed_as_any_other() -> None:
    rng = np.random.default_rng(1)
    listed = np.zeros(20)
    for _ in range(2000):
        owner = draw_owner(np.zeros(20, dtype=int), "mixed", 5, 5, rng)
        listed[owner.rows[owner.forget]] += 1
    assert np.abs(listed / 2000 - 0.25).max() < 0.05
