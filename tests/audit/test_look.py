"""The owner's look against plain loops, and what it must not depend on or believe."""

import os
import subprocess
import sys
from collections.abc import Callable
from math import sqrt
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import muc
from muc.audit import look
from muc.audit.look import alignment_matrix
from muc.config import Views
from muc.errors import UserError

SIZE, DIMENSION = 6, 5
Embed = Callable[[np.ndarray], np.ndarray]


def owner_images(n: int = 4, channels: int = 3) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (n, channels, SIZE, SIZE), dtype=np.uint8)


class Endpoint:
    """A random linear model that remembers what it was asked."""

    def __init__(self, seed: int, channels: int = 3) -> None:
        self.map = np.random.default_rng(seed).normal(size=(channels * SIZE * SIZE, DIMENSION))
        self.asked: list[np.ndarray] = []

    def __call__(self, images: np.ndarray) -> np.ndarray:
        self.asked.append(images)
        return (images.reshape(len(images), -1) / 255 - 0.5) @ self.map


def cosine(x: np.ndarray, y: np.ndarray) -> float:
    dot = sum(float(a) * float(b) for a, b in zip(x, y, strict=True))
    return dot / (sqrt(sum(float(a) ** 2 for a in x)) * sqrt(sum(float(b) ** 2 for b in y)))


def naive_matrix(first: np.ndarray, second: np.ndarray) -> list[list[float]]:
    return [[cosine(x, y) for y in second] for x in first]


@given(n=st.integers(1, 6), d=st.integers(1, 6), seed=st.integers(0, 999))
def test_an_alignment_matrix_holds_the_cosine_of_every_pair(n: int, d: int, seed: int) -> None:
    first, second = np.random.default_rng(seed).normal(size=(2, n, d))
    np.testing.assert_allclose(alignment_matrix(first, second), naive_matrix(first, second), atol=1e-12)


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize(("n", "view_pairs"), [(2, 1), (4, 1), (4, 3), (5, 8)])
def test_a_look_is_what_loops_over_the_models_answers_say(n: int, view_pairs: int, channels: int) -> None:
    before, after = Endpoint(1, channels), Endpoint(2, channels)
    seen = look(before, after, owner_images(n, channels), Views(), view_pairs=view_pairs)
    matrices = []
    for model in (before, after):
        asked = model.asked
        assert len(asked) == 2 * view_pairs
        answers = [(images.reshape(n, -1) / 255 - 0.5) @ model.map for images in asked]
        pairs = [naive_matrix(answers[2 * k], answers[2 * k + 1]) for k in range(view_pairs)]
        matrices.append([[sum(p[i][j] for p in pairs) / view_pairs for j in range(n)] for i in range(n)])
    am_before, am_after = matrices
    everywhere = [(i, j) for i in range(n) for j in range(n)]
    off = [(i, j) for i, j in everywhere if i != j]
    for i, j in everywhere:
        assert seen.before[i][j] == pytest.approx(am_before[i][j], abs=1e-9)
        assert seen.after[i][j] == pytest.approx(am_after[i][j], abs=1e-9)
        assert seen.gap[i][j] == pytest.approx(am_before[i][j] - am_after[i][j], abs=1e-9)
    for i in range(n):
        assert seen.forgetting_scores[i] == pytest.approx(am_before[i][i] - am_after[i][i], abs=1e-9)

    def mean(matrix: list[list[float]], cells: list[tuple[int, int]]) -> float:
        return sum(matrix[i][j] for i, j in cells) / len(cells)

    diagonal = [(i, i) for i in range(n)]
    expected = {
        "positive_alignment_before": mean(am_before, diagonal),
        "positive_alignment_after": mean(am_after, diagonal),
        "negative_alignment_before": mean(am_before, off),
        "negative_alignment_after": mean(am_after, off),
        "negative_alignment_gap": mean(am_before, off) - mean(am_after, off),
    }
    for name, value in expected.items():
        assert getattr(seen, name) == pytest.approx(value, abs=1e-9), name
    assert seen.view_pairs == view_pairs


def test_the_gaps_diagonal_is_each_images_forgetting_score() -> None:
    seen = look(Endpoint(1), Endpoint(2), owner_images(), Views())
    assert [seen.gap[i][i] for i in range(4)] == seen.forgetting_scores


def test_both_models_are_shown_the_same_pictures_as_plain_pixels() -> None:
    before, after = Endpoint(1), Endpoint(2)
    look(before, after, owner_images(), Views(), view_pairs=2)
    for ours, theirs in zip(before.asked, after.asked, strict=True):
        assert np.array_equal(ours, theirs)
        assert ours.dtype == np.uint8
        assert ours.shape == (4, 3, SIZE, SIZE)
    assert not np.array_equal(before.asked[0], before.asked[1])
    assert not np.array_equal(before.asked[0], before.asked[2])


def test_the_same_model_twice_shows_no_gap_at_all() -> None:
    seen = look(Endpoint(1), Endpoint(1), owner_images(), Views())
    assert np.abs(seen.gap).max() == 0
    assert seen.negative_alignment_gap == 0
    assert seen.forgetting_scores == [0.0] * 4


def changed(model: Embed, change: Callable[[np.ndarray], np.ndarray]) -> Embed:
    return lambda images: change(model(images))


@given(seed=st.integers(0, 999), scale=st.floats(1e-3, 1e3))
def test_turning_and_scaling_a_models_vectors_changes_nothing(seed: int, scale: float) -> None:
    """An embedding means what its angles say: no two owners of equivalent models may see different gaps."""
    turn, _ = np.linalg.qr(np.random.default_rng(seed).normal(size=(DIMENSION, DIMENSION)))
    plain = look(Endpoint(1), Endpoint(2), owner_images(), Views(), view_pairs=1)
    turned = look(
        changed(Endpoint(1), lambda v: scale * v @ turn),
        changed(Endpoint(2), lambda v: v @ turn.T / scale),
        owner_images(),
        Views(),
        view_pairs=1,
    )
    np.testing.assert_allclose(turned.gap, plain.gap, atol=1e-9)


def test_each_vector_may_have_a_length_of_its_own() -> None:
    lengths = np.array([[1e-6], [1.0], [30.0], [1e6]])
    plain = look(Endpoint(1), Endpoint(2), owner_images(), Views())
    scaled = look(changed(Endpoint(1), lambda v: lengths * v), Endpoint(2), owner_images(), Views())
    np.testing.assert_allclose(scaled.gap, plain.gap, atol=1e-9)


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_half_and_single_precision_answers_are_compared_in_double(dtype: type) -> None:
    """The square of 300 is more than half precision can hold."""
    first, second = (300 * np.random.default_rng(seed).normal(size=(3, 4)) for seed in (0, 1))
    rounded = first.astype(dtype), second.astype(dtype)
    np.testing.assert_allclose(alignment_matrix(*rounded), naive_matrix(*rounded), atol=1e-12)


def test_a_vector_of_zeros_is_aligned_with_nothing() -> None:
    vectors = np.array([[0.0, 0.0], [3.0, 4.0]], dtype=np.float32)
    np.testing.assert_allclose(alignment_matrix(vectors, vectors), [[0, 0], [0, 1]], atol=1e-12)


def test_raised_negative_alignment_shows_as_a_negative_gap() -> None:
    """What AC leaves behind: images to forget drawn towards each other."""
    drawn = changed(Endpoint(1), lambda v: v + 3 * np.abs(v).max())
    seen = look(Endpoint(1), drawn, owner_images(), Views())
    assert seen.negative_alignment_gap < -0.1


def test_the_seed_decides_which_views_are_sent() -> None:
    def gap(seed: int) -> list[list[float]]:
        return look(Endpoint(1), Endpoint(2), owner_images(), Views(), view_pairs=1, seed=seed).gap

    assert gap(3) == gap(3)
    assert gap(3) != gap(4)


def test_images_are_named_by_the_owner_or_numbered() -> None:
    assert look(Endpoint(1), Endpoint(2), owner_images(2), Views()).names == ["0", "1"]
    assert look(Endpoint(1), Endpoint(2), owner_images(2), Views(), names=["cat", "dog"]).names == ["cat", "dog"]


BAD_ANSWERS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "not a number": lambda v: np.where(np.arange(v.size).reshape(v.shape) == 1, np.nan, v),
    "infinite": lambda v: np.where(np.arange(v.size).reshape(v.shape) == 1, np.inf, v),
    "one vector for all": lambda v: v[:1],
    "a vector too few": lambda v: v[1:],
    "a vector too many": lambda v: np.concatenate([v, v[:1]]),
    "no vectors": lambda v: v[:0],
    "flat": lambda v: v.ravel(),
    "not pooled": lambda v: v[:, :, None, None],
    "a scalar": lambda v: v.sum(),
    "no dimensions": lambda v: v[:, :0],
    "words": lambda v: v.astype(str),
}


@pytest.mark.parametrize("which", ["before", "after"])
@pytest.mark.parametrize("answer", BAD_ANSWERS)
def test_a_bad_answer_is_refused_and_described(answer: str, which: str) -> None:
    good, bad = Endpoint(1), changed(Endpoint(2), BAD_ANSWERS[answer])
    models = (bad, good) if which == "before" else (good, bad)
    with pytest.raises(UserError, match="the model answered with"):
        look(*models, owner_images(), Views())


def test_answers_that_change_their_length_are_refused() -> None:
    class Fickle(Endpoint):
        def __call__(self, images: np.ndarray) -> np.ndarray:
            vectors = super().__call__(images)
            return vectors[:, : 5 - len(self.asked)]

    with pytest.raises(UserError, match="the model answered with"):
        look(Fickle(1), Endpoint(2), owner_images(), Views())


@pytest.mark.parametrize("n", [0, 1])
def test_fewer_than_two_images_are_refused(n: int) -> None:
    with pytest.raises(UserError, match=f"at least 2 images are needed.*; got {n}"):
        look(Endpoint(1), Endpoint(2), owner_images(n), Views())


@pytest.mark.parametrize("view_pairs", [0, -1])
def test_a_look_without_views_is_no_measurement(view_pairs: int) -> None:
    with pytest.raises(UserError, match=f"--view-pairs is {view_pairs}; give a number from 1"):
        look(Endpoint(1), Endpoint(2), owner_images(), Views(), view_pairs=view_pairs)


def test_the_audit_imports_neither_models_nor_training() -> None:
    code = (
        "import sys, muc.audit, muc.audit.look; "
        "print(sorted(m for m in sys.modules if m.split('.')[:2] in "
        "(['muc', 'models'], ['muc', 'train'], ['muc', 'unlearn'], ['muc', 'evaluate'])))"
    )
    source = str(Path(muc.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": source},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "[]"
