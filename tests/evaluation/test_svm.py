"""The one-number support vector machine against scikit-learn's."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.svm import SVC

from muc.evaluation import svm
from muc.evaluation.membership import cmia

GRID = np.linspace(0, 1, 1001)


def reference(first: np.ndarray, second: np.ndarray) -> SVC:
    labels = np.r_[np.ones(len(first)), np.zeros(len(second))]
    return SVC(C=3.0, kernel="rbf", gamma="auto", tol=1e-6).fit(np.r_[first, second][:, None], labels)


def test_features_are_the_kernel() -> None:
    x = np.linspace(-1, 1, 41)
    kernel = np.exp(-((x[:, None] - x[None]) ** 2))
    np.testing.assert_allclose(svm.features(x) @ svm.features(x).T, kernel, atol=1e-14)


@settings(max_examples=15)
@given(st.integers(1000, 1500), st.floats(1, 8), st.floats(1, 8), st.integers(0, 2**32 - 1))
def test_decisions_equal_scikit_learns(n: int, a: float, b: float, seed: int) -> None:
    random = np.random.default_rng(seed)
    first, second = random.beta(a, 1.5, n), random.beta(b, 1.5, n)
    ours = svm.train(first, second, 3.0).decision(GRID)
    theirs = reference(first, second).decision_function(GRID[:, None])
    # Where no point pins the bias down, it is free within an interval this wide.
    np.testing.assert_allclose(ours, theirs, atol=2e-3)


@pytest.mark.parametrize("seed", range(4))
def test_classes_equal_scikit_learns_on_confidences_like_the_probes(seed: int) -> None:
    random = np.random.default_rng(seed)
    first, second, unlearned = (random.beta(shape, 1.5, 1500) for shape in (6, 4, 5))
    found = cmia(first, second, unlearned, second)
    theirs = reference(first, second)
    assert found["CMIA"] == pytest.approx(100 * (theirs.predict(unlearned[:, None]) == 0).mean())
    assert found["held_out_CMIA"] == pytest.approx(100 * (theirs.predict(second[:, None]) == 0).mean())


@pytest.mark.parametrize("value", [0.0, 0.7, 1.0])
def test_equal_numbers_are_no_trouble(value: float) -> None:
    same = np.full(20, value)
    assert np.isfinite(svm.train(same, same, 3.0).decision(GRID)).all()
    apart = svm.train(np.ones(20), np.zeros(20), 3.0).decision(np.array([0.0, 1.0]))
    assert apart[0] < 0 < apart[1]
