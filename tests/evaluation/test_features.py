"""Embedding and alignment, with a model that shows what it was given."""

from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn

from muc import augment, config
from muc.config import Views
from muc.data.files import ImageFiles
from muc.evaluation import features
from muc.evaluation.chunks import hold
from muc.evaluation.features import alignment, embed
from muc.models import Batch, Contrast, ContrastiveModel
from muc.runtime import Runtime

RUNTIME = Runtime(config.Runtime(device="cpu", threads=1))


class Recorder(ContrastiveModel):
    """Features are a random linear map of the images; keeps the images of every call."""

    def __init__(self, channels: int = 3) -> None:
        super().__init__()
        self.seen: list[Tensor] = []
        generator = torch.Generator().manual_seed(0)
        self.backbone = nn.Flatten()
        self.map = torch.randn(channels * 8 * 8, 5, generator=generator)

    def contrast(self, batch: Batch) -> Contrast:
        raise AssertionError("evaluation does not train")

    def features(self, images: Tensor) -> Tensor:
        self.seen.append(images.clone())
        return images.flatten(1) @ self.map

    def projected(self, images: Tensor) -> Tensor:
        return self.features(images)[:, :3]


def pixels(n: int, channels: int = 3) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randint(256, (n, channels, 8, 8), generator=generator, dtype=torch.uint8)


def cosine(x: np.ndarray, y: np.ndarray) -> float:
    return float(x @ y / np.sqrt((x @ x) * (y @ y)))


@pytest.mark.parametrize(("n", "n_views"), [(1, 2), (3, 10), (5, 3)])
def test_alignment_is_the_mean_cosine_over_all_pairs_of_views(n: int, n_views: int) -> None:
    model = Recorder()
    scores = alignment(model, pixels(n), Views(), RUNTIME, seed=4, n_views=n_views)
    assert scores.shape == (n,)
    vectors = (torch.cat(model.seen).flatten(1).double() @ model.map.double()).numpy()[:, :5]
    for i, score in enumerate(scores.tolist()):
        views = vectors[i * n_views : (i + 1) * n_views]
        cosines = [cosine(a, b) for a, b in combinations(views, 2)]
        assert len(cosines) == n_views * (n_views - 1) // 2
        assert score == pytest.approx(np.mean(cosines), abs=1e-5)


def test_ten_views_make_forty_five_pairs_by_default() -> None:
    model = Recorder()
    alignment(model, pixels(2), Views(), RUNTIME, seed=0)
    assert sum(len(images) for images in model.seen) == 20


def test_an_images_score_is_of_its_own_views() -> None:
    """Plain images of one colour each have views of one colour: identical, so their alignment is 1."""
    plain = torch.tensor([0, 90, 255], dtype=torch.uint8)[:, None, None, None].expand(3, 3, 8, 8)
    still = Views(jitter=0.0, grayscale=0.0)
    scores = alignment(Recorder(), plain, still, RUNTIME, seed=0)
    torch.testing.assert_close(scores, torch.ones(3), rtol=0, atol=1e-5)


def test_two_models_compared_with_one_seed_see_the_same_pixels() -> None:
    first, second, other = Recorder(), Recorder(), Recorder()
    for model, seed in ((first, 7), (second, 7), (other, 8)):
        alignment(model, pixels(4), Views(), RUNTIME, seed=seed)
    assert torch.equal(torch.cat(first.seen), torch.cat(second.seen))
    assert not torch.equal(torch.cat(first.seen), torch.cat(other.seen))


def test_alignment_does_not_depend_on_the_global_generator() -> None:
    scores = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        scores.append(alignment(Recorder(), pixels(4), Views(), RUNTIME, seed=0))
    assert torch.equal(scores[0], scores[1])


def test_large_sets_are_cut_into_parts_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    images = pixels(7)
    whole = embed(Recorder(), images, RUNTIME)
    monkeypatch.setattr(features, "BATCH", 3)
    model = Recorder()
    torch.testing.assert_close(embed(model, images, RUNTIME), whole)
    assert [len(part) for part in model.seen] == [3, 3, 1]
    monkeypatch.setattr(features, "BATCH", 25)
    model = Recorder()
    scores = alignment(model, images, Views(), RUNTIME, seed=0)
    assert [len(part) for part in model.seen] == [20, 20, 20, 10]
    assert scores.shape == (7,)


@pytest.mark.parametrize("batch", [2048, 25])
def test_it_does_not_matter_where_the_images_are(tmp_path: Path, batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tensor, array or files; whatever the chunks."""
    monkeypatch.setattr(features, "BATCH", batch)
    images = pixels(7)
    for i, image in enumerate(images):
        Image.fromarray(image.permute(1, 2, 0).numpy()).save(tmp_path / f"{i}.png")
    files = ImageFiles(tmp_path, [f"{i}.png" for i in range(7)], 8)
    for measure in (embed, lambda *a: alignment(*a[:2], Views(), RUNTIME, seed=0)):
        expected = measure(Recorder(), images, RUNTIME)
        for kind in (images.numpy(), files):
            assert torch.equal(measure(Recorder(), kind, RUNTIME), expected)


def test_large_images_go_through_the_model_in_smaller_chunks() -> None:
    sizes = [features.chunk_size(torch.empty(1, 3, side, side)) for side in (8, 64, 128, 224, 4096)]
    assert sizes == [2048, 2048, 512, 167, 1]


def test_what_fits_is_held_on_the_device_and_files_only_on_a_gpu(tmp_path: Path) -> None:
    images = pixels(7)
    for i, image in enumerate(images):
        Image.fromarray(image.permute(1, 2, 0).numpy()).save(tmp_path / f"{i}.png")
    array, files = images.numpy(), ImageFiles(tmp_path, [f"{i}.png" for i in range(7)], 8)
    assert torch.equal(hold(array, 3, RUNTIME), images)
    assert hold(files, 3, RUNTIME) is files
    gpu = Runtime(config.Runtime(device="cpu", threads=1))
    gpu.on_gpu = True  # as far as hold can see
    gpu.has_room = lambda n_bytes: n_bytes <= images.nbytes
    assert torch.equal(hold(array, 3, gpu), images)
    assert torch.equal(hold(files, 3, gpu), images)
    gpu.has_room = lambda n_bytes: n_bytes < images.nbytes
    assert hold(array, 3, gpu) is array
    assert hold(files, 3, gpu) is files


@pytest.mark.parametrize("channels", [1, 3])
def test_embedding_is_features_of_plain_normalised_images(channels: int) -> None:
    model, images = Recorder(channels), pixels(4, channels)
    expected = model.features(augment.plain(images))
    torch.testing.assert_close(embed(model, images, RUNTIME), expected)


def test_scores_and_features_are_single_precision_without_gradient() -> None:
    model = Recorder()
    model.map.requires_grad_()
    for result in (embed(model, pixels(2), RUNTIME), alignment(model, pixels(2), Views(), RUNTIME, seed=0)):
        assert result.dtype == torch.float32
        assert not result.requires_grad


def test_on_a_cpu_images_go_through_the_model_in_pieces_that_stay_in_its_cache() -> None:
    model = Recorder()
    n = 64 * 32**2 // 8**2 + 3
    found = embed(model, pixels(n), RUNTIME)
    assert torch.allclose(found, torch.cat(model.seen).flatten(1) @ model.map, atol=1e-4)
    assert [len(seen) for seen in model.seen] == [n - 3, 3]
    assert embed(model, pixels(0), RUNTIME).shape == (0, 5)
    assert embed(model, pixels(2), RUNTIME, projected=True).shape == (2, 3)
