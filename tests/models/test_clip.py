"""CLIP keeps the contract: what it says of a batch is what its embeddings say, pair by pair."""

import sys
from dataclasses import replace
from math import exp, log
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from naive import cosine
from torch import Tensor, nn

from muc.config import Model
from muc.errors import UserError
from muc.methods import AlignmentCalibration
from muc.models import CLIP, Batch, ByteTransformer, build_model
from muc.storage import write_json

SIZE, CONTEXT = 4, 6


def tiny_model(temperature: float = 0.07) -> CLIP:
    torch.manual_seed(0)
    backbone = nn.Sequential(nn.Flatten(), nn.Linear(3 * SIZE * SIZE, 8), nn.Tanh())
    text = ByteTransformer(width=8, layers=1, heads=2, context=CONTEXT)
    return CLIP(backbone, 8, text, projection_dim=5, temperature=temperature).double()


def tiny_batch(n_retain: int, n_forget: int, third: bool = False, seed: int = 0) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    n = n_retain + n_forget
    tokens = torch.randint(1, 257, (n, CONTEXT), generator=generator)
    return Batch(
        first=torch.randn(n, 3, SIZE, SIZE, dtype=torch.float64, generator=generator),
        second=tokens,
        n_retain=n_retain,
        log_weight=torch.randn(n, generator=generator),
        epsilon=n_forget / max(1, n_retain),
        third=tokens[n_retain:] if third else None,
    )


def logs(values: list[float]) -> float:
    return log(sum(values))


@given(
    n_retain=st.integers(0, 4),
    n_forget=st.integers(2, 4),
    third=st.booleans(),
    temperature=st.floats(0.05, 1.0),
    seed=st.integers(0, 99),
)
def test_contrast_is_what_the_embeddings_say(
    n_retain: int, n_forget: int, third: bool, temperature: float, seed: int
) -> None:
    model, batch = tiny_model(temperature), tiny_batch(n_retain, n_forget, third, seed)
    given_batch = batch.swapped() if third else batch
    contrast = model.contrast(given_batch)
    images = model.projected(batch.first).tolist()
    texts, own = (model.projected_texts(tokens).tolist() for tokens in (given_batch.second, batch.second))
    n, weight = n_retain + n_forget, [exp(w) for w in batch.log_weight.tolist()]

    def s(x: list[float], y: list[float]) -> float:
        return cosine(x, y) / temperature

    forget = range(n_retain, n)
    expected = {
        "positive": [s(images[i], texts[i]) for i in range(n)],
        "negatives": [
            [logs([weight[j] * exp(s(images[i], texts[j])) for j in range(n) if j != i]) for i in range(n)],
            [logs([weight[j] * exp(s(images[j], texts[i])) for j in range(n) if j != i]) for i in range(n)],
        ],
        "within_forget": [[s(images[i], texts[j]) for j in forget] for i in forget],
    }
    if third:  # captions are swapped: the third view is the pair's own caption
        expected["third"] = [s(images[i], own[i]) for i in forget]
    for name, values in expected.items():
        found = getattr(contrast, name).double()
        torch.testing.assert_close(found, torch.tensor(values).double(), rtol=1e-5, atol=2e-5, msg=name)
    assert (contrast.third is None) == (not third)
    assert float(contrast.temperature.detach()) == pytest.approx(temperature, rel=1e-6)


def test_the_loss_is_open_clips() -> None:
    """Values and gradients, with the weights that a batch of one kind has."""
    open_clip = pytest.importorskip("open_clip")
    model, batch = tiny_model(0.1).float(), tiny_batch(6, 0)
    batch = replace(batch, first=batch.first.float(), log_weight=torch.zeros(6))

    def gradients(loss: Tensor) -> list[Tensor]:
        return list(torch.autograd.grad(loss, list(model.parameters())))

    mine = model.contrast(batch).infonce().mean()
    images, texts = model.projected(batch.first), model.projected_texts(batch.second)
    unit = (nn.functional.normalize(x, dim=-1) for x in (images, texts))
    theirs = open_clip.ClipLoss()(*unit, model.log_scale.exp())
    torch.testing.assert_close(mine, theirs)
    for a, b in zip(gradients(mine), gradients(theirs), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-6)


def test_gradient_reaches_every_parameter() -> None:
    model = tiny_model()
    model.contrast(tiny_batch(3, 2)).infonce().mean().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        assert parameter.grad.abs().max() > 0, name


def test_the_temperature_starts_where_it_is_told_and_stays_in_bounds() -> None:
    model = tiny_model(0.07)
    assert float(model.log_scale.detach().exp()) == pytest.approx(1 / 0.07)
    for pushed, kept in ((9.0, log(100)), (-3.0, 0.0), (1.5, 1.5)):
        with torch.no_grad():
            model.log_scale.fill_(pushed)
        model.after_step()
        assert float(model.log_scale.detach()) == pytest.approx(kept)


def test_alignment_calibration_treats_images_and_texts_alike() -> None:
    """Its terms, written out: both directions of each pair of pairs count, and no direction counts twice."""
    model, batch = tiny_model(0.5), tiny_batch(3, 3)
    terms = AlignmentCalibration(alpha=0.7, beta=0.4, gamma=0.9).loss(model, batch)
    images, texts = model.projected(batch.first).tolist(), model.projected_texts(batch.second).tolist()
    weight, forget = [exp(w) for w in batch.log_weight.tolist()], range(3, 6)

    def s(i: int, j: int) -> float:
        """Image i and text j."""
        return cosine(images[i], texts[j]) / 0.5

    across = [s(i, j) + s(j, i) for i in forget for j in forget if i < j]
    text_side = [logs([weight[j] * exp(s(j, i)) for j in range(6) if j != i]) for i in range(6)]
    image_side = [logs([weight[j] * exp(s(i, j)) for j in range(6) if j != i]) for i in range(6)]

    def infonce(i: int) -> float:
        return -s(i, i) + sum(log(exp(s(i, i)) + exp(side[i])) for side in (image_side, text_side)) / 2

    expected = {
        "retain": sum(infonce(i) for i in range(3)) / 3,
        "negative_calibration": -0.7 * sum(across) / (2 * len(across)),
        "positive_calibration": 0.4 * sum(s(i, i) for i in forget) / 3,
        "performance_preserving": 0.9 * sum(image_side[i] + text_side[i] for i in forget) / 6,
    }
    assert {k: float(v.detach()) for k, v in terms.items()} == pytest.approx(expected, rel=1e-5)


def test_the_printed_beta_weighs_the_cosine_and_leaves_the_temperature_alone() -> None:
    model, batch = tiny_model(0.1), tiny_batch(3, 3)
    term = AlignmentCalibration(paper_beta=2.0).loss(model, batch)["positive_calibration"]
    images, texts = model.projected(batch.first).tolist(), model.projected_texts(batch.second).tolist()
    assert float(term.detach()) == pytest.approx(2.0 * sum(cosine(images[i], texts[i]) for i in range(3, 6)) / 3)
    (gradient,) = torch.autograd.grad(term, [model.log_scale])
    assert float(gradient) == pytest.approx(0, abs=1e-6)


def test_tokens_are_bytes_cut_off_and_padded() -> None:
    tower = ByteTransformer(width=8, layers=1, heads=2, context=5)
    assert tower.tokenise(["ab", "abcdefg", "", "ä"]).tolist() == [
        [98, 99, 0, 0, 0],
        [98, 99, 100, 101, 102],
        [0, 0, 0, 0, 0],
        [0xC3 + 1, 0xA4 + 1, 0, 0, 0],
    ]
    assert tower(tower.tokenise(["", "a"])).isfinite().all()


def test_padding_does_not_change_what_a_text_means() -> None:
    torch.manual_seed(0)
    long = ByteTransformer(width=8, layers=2, heads=2, context=9)
    short = ByteTransformer(width=8, layers=2, heads=2, context=4)
    state = {name: value[:4] if name == "position" else value for name, value in long.state_dict().items()}
    short.load_state_dict(state)
    text = ["abcd", "xy"]
    torch.testing.assert_close(long(long.tokenise(text)), short(short.tokenise(text)), rtol=1e-5, atol=1e-6)


def test_open_clips_towers_are_built_offline_and_trained(tmp_path: Path) -> None:
    open_clip = pytest.importorskip("open_clip")
    text = {"context_length": 77, "vocab_size": 49408, "width": 16, "heads": 2, "layers": 1}
    vision = {"image_size": 224, "layers": [1, 1, 1, 1], "width": 8, "patch_size": None}
    write_json(tmp_path / "tiny-RN.json", {"embed_dim": 16, "vision_cfg": vision, "text_cfg": text})
    open_clip.add_model_config(tmp_path)
    torch.manual_seed(0)
    model = build_model(Model("clip", architecture="open_clip/tiny-RN", temperature=0.07), 3, 64)
    assert isinstance(model, CLIP)
    tokens = model.tokenise(["a cat", "two dogs", "a cow"])
    assert tokens.shape == (3, 77)
    batch = Batch(torch.randn(3, 3, 64, 64), tokens, 3, torch.zeros(3))
    loss = model.contrast(batch).infonce().mean()
    loss.backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())
    with torch.no_grad():
        for p in model.parameters():
            p -= 1e-4 * p.grad
    assert model.contrast(batch).infonce().mean() < loss


@pytest.mark.parametrize(
    ("architecture", "channels", "said"),
    [
        ("open_clip/RN51", 3, "did you mean 'RN50'"),
        ("open_clip/RN50", 1, "reads colour images"),
        ("open_clip/roberta-ViT-B-32", 3, "has to be downloaded"),
    ],
)
def test_what_open_clip_cannot_do_is_said(architecture: str, channels: int, said: str) -> None:
    pytest.importorskip("open_clip")
    with pytest.raises(UserError, match=said):
        build_model(Model("clip", architecture=architecture), channels, 64)


def test_without_the_extra_its_name_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "open_clip", None)
    with pytest.raises(UserError, match=r"needs open_clip_torch; .*\./muc setup"):
        build_model(Model("clip", architecture="open_clip/RN50"), 3, 64)


def test_two_towers_are_refused_for_other_algorithms() -> None:
    with pytest.raises(UserError, match="for --algorithm clip"):
        Model("moco", architecture="open_clip/RN50")
