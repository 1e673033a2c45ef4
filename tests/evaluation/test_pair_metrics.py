"""Pair metrics against their definitions, written out one by one."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import normalize

from muc.config import Model
from muc.config import Runtime as RuntimeSettings
from muc.data import from_pairs
from muc.evaluation.gaps import gaps, gaps_to_held_out
from muc.evaluation.pairs import embed_pairs, evaluate, look_at_pairs, pair_matrix, pair_membership, pair_similarity
from muc.evaluation.retrieval import prompts, retrieval, text_to_image_ranks, zero_shot
from muc.models import CLIP, build_model
from muc.runtime import Runtime
from muc.split import Split

CPU = Runtime(RuntimeSettings(device="cpu", threads=1))


def embedded(n: int, per_image: list[int], seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Coarse values, so that ties occur."""
    generator = torch.Generator().manual_seed(seed)
    owner = torch.tensor([i for i in range(n) for _ in range(per_image[i % len(per_image)])])
    images = torch.randint(-1, 2, (n, 3), generator=generator).double()
    texts = torch.randint(-1, 2, (len(owner), 3), generator=generator).double()
    return images, texts, owner


def dot(x: Tensor, y: Tensor) -> float:
    return sum(a * b for a, b in zip(x.tolist(), y.tolist(), strict=True))


@given(n=st.integers(1, 12), per_image=st.sampled_from([[1], [2], [1, 3]]), seed=st.integers(0, 99))
def test_retrieval_is_its_definition(n: int, per_image: list[int], seed: int) -> None:
    images, texts, owner = embedded(n, per_image, seed)
    m = len(owner)
    found = retrieval(images, texts, owner)
    for k in (1, 5, 10):
        hits = 0
        for i in range(n):
            best = max(dot(images[i], texts[j]) for j in range(m) if owner[j] == i)
            hits += sum(dot(images[i], texts[j]) >= best for j in range(m) if owner[j] != i) < k
        assert found[f"image_to_text_R@{k}"] == pytest.approx(100 * hits / n)
        hits = 0
        for j in range(m):
            own = dot(images[owner[j]], texts[j])
            hits += sum(dot(images[i], texts[j]) >= own for i in range(n) if owner[j] != i) < k
        assert found[f"text_to_image_R@{k}"] == pytest.approx(100 * hits / m)


def test_retrieval_in_chunks_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    images, texts, owner = embedded(30, [1, 2], 0)
    whole = retrieval(images, texts, owner)
    monkeypatch.setattr("muc.evaluation.retrieval.CHUNK", 7)
    assert retrieval(images, texts, owner) == whole


def test_a_model_that_finds_everything_alike_finds_nothing() -> None:
    same = torch.ones(20, 4)
    assert set(retrieval(same, same, torch.arange(20)).values()) == {0.0}
    assert zero_shot(same, same[:2], torch.arange(20) % 2) == 0


def test_zero_shot_is_the_share_of_images_closest_to_their_class() -> None:
    classes = torch.eye(3)
    images = torch.tensor([[0.9, 0.1, 0.0], [0.2, 0.7, 0.1], [0.0, 0.6, 0.4], [0.1, 0.2, 0.7]])
    assert zero_shot(images, classes, torch.tensor([0, 1, 2, 2])) == 75
    assert text_to_image_ranks(classes, images, torch.tensor([0, 1, 2, 2])).tolist() == [0, 0, 1, 0]
    assert prompts("a {} letter", ["greek", "latin"]) == ["a greek letter", "a latin letter"]


def test_similarity_averages_over_an_images_captions() -> None:
    images, texts, owner = embedded(6, [1, 2, 3], 1)
    images, texts = normalize(images + 0.1, dim=1), normalize(texts + 0.1, dim=1)
    expected = [np.mean([dot(images[i], texts[j]) for j in range(len(owner)) if owner[j] == i]) for i in range(6)]
    torch.testing.assert_close(pair_similarity(images, texts, owner), torch.tensor(expected))


def test_membership_is_by_similarity_alone_and_balanced() -> None:
    random = np.random.default_rng(0)
    test = random.random(50)
    found = pair_membership(random.random(400) + 2, random.random(10) - 2, test)
    assert found == {"pair_AUC": 1, "pair_TPR_at_1_FPR": 100, "unlearn_AUC": 0, "unlearn_TPR_at_1_FPR": 0}
    assert 0.3 < pair_membership(random.random(400), test[:5], test)["pair_AUC"] < 0.7


def tiny() -> tuple[CLIP, CLIP, object, Split]:
    random = np.random.default_rng(0)

    def part(n: int) -> list[tuple[np.ndarray, list[str]]]:
        return [
            (random.integers(0, 256, (1, 8, 8), dtype=np.uint8), [f"{i} x", f"y {i}"][: 1 + i % 2]) for i in range(n)
        ]

    images = from_pairs(part(20), part(12))
    models = []
    for seed in range(2):
        torch.manual_seed(seed)
        models.append(build_model(Model("clip", architecture="mlp", projection_dim=8, text_context=8), 1, 8).eval())
    split = Split(0, np.arange(3), np.arange(3, 14), np.arange(14, 20))
    return models[0], models[1], images, split


def test_all_metrics_of_a_model() -> None:
    model, before, images, split = tiny()
    found = evaluate(model, before, images, split, CPU)

    def by_hand(network: CLIP, rows: np.ndarray) -> list[float]:
        values = []
        for i in rows:
            pixels = torch.from_numpy(images.train[i][None]).float() / 255 * 2 - 1
            image = normalize(network.projected(pixels), dim=1)[0]
            texts = normalize(network.projected_texts(network.tokenise(images.train_captions[i])), dim=1)
            values.append(float(np.mean([float(image @ text) for text in texts])))
        return values

    with torch.no_grad():
        for name in ("retain", "unlearn"):
            expected = 100 * np.mean(by_hand(model, getattr(split, name)))
            assert found[f"{name}_similarity"] == pytest.approx(expected, abs=1e-3)
        assert found["held_out_similarity"] == pytest.approx(100 * np.mean(by_hand(model, split.validation)), abs=1e-3)
        fs = np.subtract(by_hand(before, split.unlearn), by_hand(model, split.unlearn))
    np.testing.assert_allclose(found["per_sample"]["FS"], fs, atol=1e-5)
    assert found["FS"] == pytest.approx(fs.mean(), abs=1e-5)
    assert "zero_shot" not in found  # there is one class only
    assert evaluate(model, model, images, split, CPU)["FS"] == 0


def test_pairs_of_a_set_are_embedded_in_order() -> None:
    model, _, images, _ = tiny()
    whole = embed_pairs(model, images.train, images.train_captions, CPU)
    part = embed_pairs(model, images.train[5:8], images.train_captions[5:8], CPU)
    torch.testing.assert_close(part.similarity(), whole.similarity()[5:8], atol=1e-6, rtol=1e-5)
    assert whole.owner.tolist() == [i for i, some in enumerate(images.train_captions) for _ in some]


def test_gaps_are_the_papers() -> None:
    """Its MS-COCO table: Fine-Tune against Retrain."""
    retrain = {"retain_similarity": 62.47, "unlearn_similarity": 49.84, "test_similarity": 50.0}
    found = gaps({"retain_similarity": 58.67, "unlearn_similarity": 54.75, "test_similarity": 49.0}, retrain)
    assert found["retain_similarity_gap"] == pytest.approx(3.80)
    assert found["unlearn_similarity_gap"] == pytest.approx(4.91)
    assert found["AG"] == pytest.approx(4.355)
    assert found["AGP"] == pytest.approx(100 * (3.80 / 62.47 + 4.91 / 49.84) / 2)
    assert found["test_similarity_gap"] == pytest.approx(1.0)


def test_without_retrain_the_pairs_to_forget_should_be_like_held_out_ones() -> None:
    original = {"retain_similarity": 80.0, "test_similarity": 20.0}
    metrics = {"retain_similarity": 77.0, "unlearn_similarity": 31.0, "held_out_similarity": 26.0}
    assert gaps_to_held_out(metrics, original)["AG"] == pytest.approx((3 + 5) / 2)


def test_the_matrix_holds_every_image_with_every_pairs_captions() -> None:
    images, texts, owner = embedded(6, [1, 2, 3], 1)
    images, texts = normalize(images + 0.1, dim=1), normalize(texts + 0.1, dim=1)
    found = pair_matrix(images, texts, owner)
    for i in range(6):
        for j in range(6):
            expected = np.mean([dot(images[i], texts[k]) for k in range(len(owner)) if owner[k] == j])
            assert float(found[i, j]) == pytest.approx(expected, abs=1e-6)
    torch.testing.assert_close(found.diagonal(), pair_similarity(images, texts, owner))


def test_a_look_at_pairs_is_both_models_matrices() -> None:
    model, before, images, split = tiny()
    rows = split.unlearn[:4]
    captions = [images.train_captions[i] for i in rows]
    found = look_at_pairs(before, model, images.train[rows], captions, CPU)
    for network, matrix in ((before, found.before), (model, found.after)):
        own = embed_pairs(network, images.train[rows], captions, CPU)
        np.testing.assert_allclose(matrix, pair_matrix(own.images, own.texts, own.owner), atol=1e-6)
    np.testing.assert_allclose(found.gap, np.subtract(found.before, found.after))
    assert found.names == [own[0] for own in captions]
