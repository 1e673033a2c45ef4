"""Image-text pairs: captions belong to their images, are drawn reproducibly, and belong to a run's data."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from muc.batches import TwoViews, ViewAndCaption, make_batches
from muc.config import Data, Model
from muc.config import Runtime as RuntimeSettings
from muc.data import ImageSet, from_pairs, load_images, make_split, plan_batches
from muc.data.captions import Captions, tokenise_captions
from muc.data.feed import make_feed
from muc.data.requests import read_request
from muc.errors import UserError
from muc.methods import METHODS, AlignmentCalibration
from muc.models import build_model
from muc.recipes import clip_views
from muc.runtime import Runtime

CPU = Runtime(RuntimeSettings(device="cpu", threads=1))


def pairs(n: int = 12) -> list[tuple[np.ndarray, list[str]]]:
    """Image i is filled with i and has 1 to 3 captions that name it."""
    return [
        (np.full((1, 8, 8), i % 256, np.uint8), [f"{i}{letter}" for letter in "abc"[: 1 + i % 3]]) for i in range(n)
    ]


@pytest.fixture(scope="module")
def glyphs() -> ImageSet:
    return load_images(Data("glyph-pairs"))


def letters(texts: list[str]) -> Tensor:
    """A tokenizer whose tokens can be read: two numbers a text."""
    return torch.tensor([[int(text[:-1]), ord(text[-1])] for text in texts])


def test_glyphs_come_with_their_names(glyphs: ImageSet) -> None:
    assert len(glyphs.train_captions) == len(glyphs.train)
    assert len(glyphs.test_captions) == len(glyphs.test)
    assert glyphs.train_captions[0] == ("latin capital letter a",)
    assert all(some == (name,) for some, name in zip(glyphs.test_captions, glyphs.test_names, strict=True))
    for label, some in zip(glyphs.train_labels, glyphs.train_captions, strict=True):
        assert some[0].startswith(glyphs.class_names[label])


def test_the_same_letters_without_captions_are_other_data(glyphs: ImageSet) -> None:
    alone = load_images(Data("glyphs"))
    np.testing.assert_array_equal(alone.train, glyphs.train)
    assert not alone.paired
    assert alone.digest == replace(glyphs, train_captions=(), test_captions=()).digest
    changed = [*glyphs.train_captions[:-1], ("another",)]
    assert len({alone.digest, glyphs.digest, replace(glyphs, train_captions=changed).digest}) == 3


def test_a_request_names_pairs_by_name_or_index(glyphs: ImageSet, tmp_path) -> None:
    (tmp_path / "request.txt").write_text("hebrew letter yod\n3\n")
    found = read_request(tmp_path / "request.txt", glyphs)
    assert glyphs.train_captions[found[0]] == ("hebrew letter yod",)
    assert found[1] == 3


@pytest.mark.parametrize(
    ("train", "test", "said"),
    [
        ([["a"]] * 11, [["b"]] * 12, "12 training images but captions for 11"),
        ([["a"]] * 12, (), "12 test images but captions for 0"),
        ([["a"]] * 11 + [[]], [["b"]] * 12, r"training image 11 has the captions \[\]"),
        (["abc"] * 12, [["b"]] * 12, "training image 0 has the captions 'abc'"),
        ([["a"]] * 12, [["b"]] * 11 + [["b", ""]], "test image 11"),
    ],
)
def test_captions_that_do_not_fit_are_refused(train, test, said: str) -> None:
    images = from_pairs(pairs(), pairs())
    with pytest.raises(UserError, match=said):
        replace(images, train_captions=train, test_captions=test)


def test_tokens_are_those_of_each_images_captions() -> None:
    captions = [some for _, some in pairs(100)]
    found = tokenise_captions(captions, letters)
    assert found.counts.tolist() == [len(some) for some in captions]
    for i, some in enumerate(captions):
        own = found.tokens[found.first[i] : found.first[i + 1]]
        assert own.tolist() == [[i, ord(text[-1])] for text in some]


def test_one_caption_an_epoch_is_drawn_from_seed_and_epoch_alone() -> None:
    captions = tokenise_captions([some for _, some in pairs(600)], letters)
    drawn = captions.draw(seed=3, epoch=5)
    np.testing.assert_array_equal(drawn, captions.draw(seed=3, epoch=5))
    assert ((captions.first[:-1] <= drawn) & (drawn < captions.first[1:])).all()
    for other in (captions.draw(3, 6), captions.draw(4, 5)):
        assert 0.3 < (drawn != other).mean() < 0.6  # of one, two and three captions: 0, 1/2 and 2/3 change
    three = Captions(captions.tokens, captions.first)
    counts = Counter((three.draw(0, e) - three.first[:-1])[2] for e in range(300))
    assert set(counts) == {0, 1, 2}
    assert min(counts.values()) > 70


def test_a_batch_holds_each_images_own_caption() -> None:
    images = from_pairs(pairs(), pairs())
    method = AlignmentCalibration(reading="compat")
    plan = plan_batches(np.arange(4, 12), np.arange(4), method.rows, 6, seed=0)
    model = build_model(Model("clip", architecture="mlp", text_context=4), 1, 8)

    def batches() -> ViewAndCaption:
        feed = make_feed(images.train, plan, 2, CPU)
        generator = CPU.generator("views", 0)
        return make_batches(model, method, feed, images.train_captions, clip_views(0.0), CPU, generator, seed=0)

    made = batches()
    assert isinstance(made, ViewAndCaption)
    seen = []
    for epoch in range(2):
        for step in range(plan.steps):
            made.load(epoch, step)
            batch = made.make()
            rows = plan.epoch(epoch)[step].tolist()
            pixels = ((batch.first[:, 0, 0, 0] * 0.5 + 0.5) * 255).round().int().tolist()  # normalised gray
            texts = ["".join(chr(token - 1) for token in row if token) for row in batch.second.tolist()]
            assert pixels == rows
            assert all(text in images.train_captions[row] for row, text in zip(rows, texts, strict=True))
            assert torch.equal(batch.third, batch.second[plan.n_retain :])
            assert batch.second.dtype == torch.int64
            seen.append(batch.second)
    late = batches()  # as after a resume: nothing before the step is needed
    late.load(1, plan.steps - 1)
    assert torch.equal(late.make().second, seen[-1])


def test_images_that_are_only_flipped_keep_every_pixel() -> None:
    random = np.random.default_rng(0).integers(0, 256, (12, 3, 8, 8), dtype=np.uint8)
    images = from_pairs([(x, "a") for x in random], [(x, "a") for x in random])
    plan = plan_batches(np.arange(12), np.arange(0), "retain", 12, seed=0)
    model = build_model(Model("clip", architecture="mlp"), 3, 8)
    feed = make_feed(images.train, plan, 1, CPU)
    generator = CPU.generator("views", 0)
    made = make_batches(model, METHODS["retrain"](), feed, images.train_captions, clip_views(), CPU, generator, 0)
    made.load(0, 0)
    from muc.augment import plain

    shown, kept = made.make().first, plain(feed.pixels())
    flipped = [torch.allclose(a, b.flip(2), atol=1e-5) for a, b in zip(shown, kept, strict=True)]
    straight = [torch.allclose(a, b, atol=1e-5) for a, b in zip(shown, kept, strict=True)]
    assert all(a != b for a, b in zip(flipped, straight, strict=True))
    assert any(flipped)
    assert any(straight)


def test_images_alone_are_refused_for_clip_and_pairs_serve_all_others() -> None:
    images = from_pairs(pairs(), pairs())
    split = make_split(images, Data(), 0)
    plan = plan_batches(split.retain, split.unlearn, "retain", 4, 0)
    feed, generator = make_feed(images.train, plan, 1, CPU), CPU.generator("views", 0)
    rest = (clip_views(), CPU, generator, 0)
    clip, simclr = (build_model(Model(kind, architecture="mlp"), 1, 8) for kind in ("clip", "simclr"))
    with pytest.raises(UserError, match="no captions; give --data glyph-pairs"):
        make_batches(clip, METHODS["retrain"](), feed, (), *rest)
    assert isinstance(make_batches(simclr, METHODS["retrain"](), feed, images.train_captions, *rest), TwoViews)
