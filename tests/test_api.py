"""The library on objects: what the README promises to users with encoders of their own."""

import os
import re
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import muc
from muc import api, config
from muc.data import load_images
from muc.data.images import ImageSet
from muc.errors import UserError
from muc.methods.recipes import default_method
from muc.models import build_model
from muc.recipes import recipe

README = Path(__file__).parents[1] / "README.md"
SOURCE = Path(muc.__file__).parents[1]
QUICK = muc.Optimisation(epochs=2, batch_size=16, learning_rate=0.1)
ONE_THREAD = muc.Runtime(device="cpu", threads=1)


def pictures(n: int, side: int = 8, channels: int = 3, seed: int = 0) -> list[tuple[np.ndarray, int]]:
    random = np.random.default_rng(seed)
    return [(random.integers(0, 256, (channels, side, side), dtype=np.uint8), i % 3) for i in range(n)]


@pytest.fixture
def images() -> ImageSet:
    return muc.from_dataset(pictures(40), pictures(20, seed=1))


def own_model(kind: str) -> muc.ContrastiveModel:
    torch.manual_seed(0)
    encoder = nn.Sequential(nn.Flatten(), nn.Linear(3 * 8 * 8, 12), nn.BatchNorm1d(12), nn.ReLU())
    return muc.SimCLR(encoder, 12) if kind == "simclr" else muc.MoCo(encoder, 12, queue_size=32)


@pytest.mark.parametrize("kind", ["simclr", "moco"])
def test_a_users_own_encoder_forgets(images: ImageSet, kind: str) -> None:
    model = muc.pretrain(own_model(kind), images, QUICK, runtime=ONE_THREAD)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    request = [3, 5, 8]
    method = muc.AlignmentCalibration(epochs=3, learning_rate=0.01)
    forgotten = muc.unlearn(model, images, request, method, batch_size=16, runtime=ONE_THREAD)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())  # the original stays
    assert not all(torch.equal(value, before[name]) for name, value in forgotten.state_dict().items())
    found = muc.evaluate(forgotten, model, images, request, probe=muc.Probe(epochs=2), runtime=ONE_THREAD)
    assert len(found["per_sample"]["FS"]) == 3
    assert np.mean(found["per_sample"]["FS"]) == pytest.approx(found["FS"], abs=1e-6)
    same = muc.evaluate(model, model, images, request, probe=muc.Probe(epochs=2), runtime=ONE_THREAD)
    assert same["FS"] == 0
    assert muc.gaps(same, same)["AG"] == 0
    ask = (muc.embedder(model, ONE_THREAD), muc.embedder(forgotten, ONE_THREAD))
    seen = muc.look(*ask, images.train[request], muc.Views())
    assert np.isfinite(seen.gap).all()
    assert np.abs(seen.gap).max() > 0


def test_retraining_leaves_the_images_out(images: ImageSet) -> None:
    with pytest.raises(muc.UserError, match="leave_out"):
        muc.unlearn(own_model("simclr"), images, [1, 2], muc.Retrain())
    kept = muc.pretrain(own_model("simclr"), images, QUICK, leave_out=[1, 2], runtime=ONE_THREAD)
    blanked = [(np.zeros_like(x), y) if i in (1, 2) else (x, y) for i, (x, y) in enumerate(pictures(40))]
    changed = muc.from_dataset(blanked, pictures(20, seed=1))
    same = muc.pretrain(own_model("simclr"), changed, QUICK, leave_out=[1, 2], runtime=ONE_THREAD)
    assert all(torch.equal(a, b) for a, b in zip(kept.parameters(), same.parameters(), strict=True))


def test_functions_stay_functions_whatever_was_imported() -> None:
    code = (
        "import muc; muc.unlearn, muc.evaluate, muc.pretrain\n"
        "import muc.methods, muc.evaluation.white_box, muc.evaluation.records\n"
        "assert all(map(callable, (muc.unlearn, muc.evaluate, muc.pretrain, muc.look, muc.gaps)))\n"
        "assert set(muc.__all__) <= set(dir(muc)) and all(hasattr(muc, name) for name in muc.__all__)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "PYTHONPATH": str(SOURCE)})


def test_every_method_is_public() -> None:
    for kind in muc.METHODS.values():
        assert getattr(muc, kind.__name__) is kind
        assert kind.__name__ in muc.__all__


def test_import_muc_is_light() -> None:
    code = "import sys, muc; assert not {'torch', 'numpy', 'tyro'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "PYTHONPATH": str(SOURCE)})


def test_the_readmes_example_runs() -> None:
    pytest.importorskip("timm")
    block = re.search(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    assert block is not None
    code = block[1]
    assert len(code.splitlines()) < 25
    # The same lines at a size for a test.
    for long, short in (("epochs=800", "epochs=1, batch_size=16"), ("[17, 256, 4095]", "[1, 2, 3]")):
        assert long in code
        code = code.replace(long, short)
    code = code.replace('"resnet18", num_classes=0', '"resnet10t", num_classes=0')
    code = code.replace("paper_beta=8)", "paper_beta=8, epochs=1)").replace("forget=forget)", "forget=forget, probe=P)")
    side = 32
    names = {"train_set": pictures(24, side), "test_set": pictures(12, side, seed=1), "P": muc.Probe(epochs=1)}
    exec(compile(code, "README.md", "exec"), names)
    assert np.isfinite(names["found"]["FS"])  # type: ignore[index]


def test_pairs_are_unlearned_with_the_defaults_for_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    monkeypatch.setattr(api, "_train", lambda model, method, *_: seen.append(method))
    images = load_images(config.Data(name="glyph-pairs", train_limit=20))
    settings = recipe("glyph-pairs", "clip")
    model = build_model(settings.model, images.channels, images.image_size)
    api.unlearn(model, replace(images, name="own"), [0, 1])
    assert seen == [default_method("alignment_calibration", "own", "clip")]
    assert seen[0].learning_rate == 2e-4


def test_a_single_image_can_be_left_out(images: ImageSet) -> None:
    seen = muc.pretrain(own_model("simclr"), images, QUICK, leave_out=[5], runtime=ONE_THREAD)
    other = muc.pretrain(own_model("simclr"), images, QUICK, leave_out=[6], runtime=ONE_THREAD)
    assert not torch.equal(seen.backbone[1].weight, other.backbone[1].weight)
    with pytest.raises(muc.UserError, match="names 1 image, and this method compares"):
        muc.unlearn(seen, images, [5], runtime=ONE_THREAD)


def test_ctrl_c_is_a_keyboard_interrupt(images: ImageSet, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing is on disk, it means what it means to any other Python."""
    for work in (
        lambda: muc.pretrain(own_model("simclr"), images, QUICK, runtime=ONE_THREAD),
        lambda: muc.unlearn(own_model("simclr"), images, [1, 2], muc.NegGrad(epochs=2), batch_size=16),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(api.Training, "advance", lambda _: signal.raise_signal(signal.SIGINT))
            with pytest.raises(KeyboardInterrupt):
                work()


@pytest.mark.parametrize(
    ("forget", "words"),
    [
        ([], "the request names no image that was trained on; name at least one"),
        (np.array([], dtype=np.int64), "the request names no image that was trained on"),
        (None, "forget is None; give a list of the indices of training images"),
        (5, "forget is 5; give a list of the indices"),
        ("all", "forget is 'all'; give a list of the indices"),
        ([[1, 2]], r"forget is \[\[1, 2\]\]; give a list of the indices"),
        ([[1], [2, 3]], r"forget is \[\[1\], \[2, 3\]\]; give a list of the indices"),
    ],
    ids=["empty", "empty array", "none", "number", "text", "table", "ragged"],
)
def test_a_request_for_nothing_is_one_sentence(images: ImageSet, forget: Any, words: str) -> None:
    model = own_model("simclr")
    for work in (lambda: muc.unlearn(model, images, forget), lambda: muc.evaluate(model, model, images, forget)):
        with pytest.raises(muc.UserError, match=words):
            work()


@pytest.mark.parametrize("rows", [None, 5, "all", [[1], [2, 3]], np.zeros((0, 3))], ids=str)
def test_what_is_left_out_is_a_list(images: ImageSet, rows: Any) -> None:
    with pytest.raises(muc.UserError, match=r"leave_out is .*; give a list of the indices of training images"):
        muc.pretrain(own_model("simclr"), images, QUICK, leave_out=rows)


def test_a_name_is_no_method(images: ImageSet) -> None:
    model: Any = own_model("simclr")
    for method, example in (("finetune", "FineTune"), ("oblivion", "NegGrad"), (muc.FineTune, "NegGrad")):
        with pytest.raises(muc.UserError, match=rf"method is .*; give a method object such as muc\.{example}\(\)"):
            muc.unlearn(model, images, [1, 2, 3], method)


def test_a_plain_dataset_or_encoder_is_refused_with_what_makes_one_of_ours(images: ImageSet) -> None:
    model, dataset, encoder = own_model("simclr"), pictures(10), nn.Flatten()
    wrong: Any
    for wrong in (dataset, (dataset, dataset)):
        for call in (
            lambda data: muc.pretrain(model, data),
            lambda data: muc.unlearn(model, data, [1, 2]),
            lambda data: muc.evaluate(model, model, data, [1, 2]),
        ):
            with pytest.raises(
                muc.UserError, match=r"images is of type (list|tuple); .*muc\.from_dataset\(train, test\)"
            ):
                call(wrong)
    wrong = encoder
    for call in (
        lambda: muc.pretrain(wrong, images),
        lambda: muc.unlearn(wrong, images, [1, 2]),
        lambda: muc.evaluate(model, wrong, images, [1, 2]),
    ):
        with pytest.raises(muc.UserError, match=r"the model is of type Flatten; wrap it: muc\.SimCLR"):
            call()


@pytest.mark.parametrize(
    ("item", "words"),
    [
        ((np.zeros((3, 8, 8), np.uint8), "cat"), r"mine\[0\] has the label 'cat'; give classes as whole numbers"),
        ((np.zeros((3, 8, 8), np.uint8), 1.5), r"has the label 1\.5; give classes as whole numbers"),
        ((np.zeros((3, 8, 8), np.uint8), np.arange(2)), "has the label .*; give classes as whole numbers"),
        (np.zeros((3, 8, 8), np.uint8), r"mine\[0\] is of type ndarray; give pairs of an image and its label"),
        ((np.zeros((3, 8, 8), np.uint8), 1, 2), "has 3 parts; give pairs of an image and its label"),
        ({"image": 0, "label": 1}, "is of type dict; give pairs of an image and its label"),
    ],
    ids=["name", "fraction", "several", "image", "three", "dict"],
)
def test_a_dataset_that_has_no_labels_is_one_sentence(item: Any, words: str) -> None:
    with pytest.raises(muc.UserError, match=words):
        muc.from_dataset([item] * 5, [item] * 5, "mine")


def test_labels_may_be_arrays_of_one_number() -> None:
    kinds = (2, np.int64(2), np.array([2]), np.array(2), torch.tensor(2), torch.tensor([2]))
    made = muc.from_dataset([(pictures(1)[0][0], label) for label in kinds], pictures(5))
    assert made.train_labels.tolist() == [2] * len(kinds)


def test_pairs_without_captions_are_one_sentence() -> None:
    with pytest.raises(muc.UserError, match=r"pairs\[0\] is of type ndarray; give pairs of an image and its caption"):
        muc.from_pairs([np.zeros((3, 8, 8), np.uint8)], [])


def test_colours_from_0_to_1_are_refused_where_they_would_be_black(images: ImageSet) -> None:
    encoder = nn.Sequential(nn.Flatten(), nn.Linear(3 * 8 * 8, 12))
    ask = muc.embedder(muc.SimCLR(encoder, 12), ONE_THREAD)
    some = np.asarray(images.train[:3])
    for wrong, words in ((some / 255, "float64, 3 x 3 x 8 x 8"), (some.transpose(0, 2, 3, 1), "uint8, 3 x 8 x 8 x 3")):
        for refused in (lambda x=wrong: ask(x), lambda x=wrong: muc.look(ask, ask, x, muc.Views())):
            with pytest.raises(muc.UserError, match=f"the images are {words}; give uint8"):
                refused()


@pytest.mark.parametrize("caption", [None, 5, {"a": 1}, b"a", ["a", None], []])
def test_captions_that_are_no_texts_are_one_sentence(caption: Any) -> None:
    with pytest.raises(muc.UserError, match=r"training image 0 has the captions .*; give one or more texts in a list"):
        muc.from_pairs([(pictures(1)[0][0], caption)], [(pictures(1)[0][0], "a")])


@pytest.mark.parametrize("kind", ["simclr", "moco"])
def test_a_wrong_feature_dim_is_said_with_both_numbers(images: ImageSet, kind: str) -> None:
    encoder = nn.Sequential(nn.Flatten(), nn.Linear(3 * 8 * 8, 12))
    model = muc.SimCLR(encoder, 100) if kind == "simclr" else muc.MoCo(encoder, 100, queue_size=32)
    words = "feature_dim is 100, but the backbone gives 12 features an image"
    with pytest.raises(muc.UserError, match=words):
        muc.pretrain(model, images, QUICK, runtime=ONE_THREAD)
    with pytest.raises(muc.UserError, match=words):
        muc.unlearn(model, images, [1, 2], muc.NegGrad(epochs=1), batch_size=16, runtime=ONE_THREAD)
    with pytest.raises(muc.UserError, match="feature_dim is 12, but the backbone gives 3 x 8 x 8 features an image"):
        muc.pretrain(muc.SimCLR(nn.Identity(), 12), images, QUICK, runtime=ONE_THREAD)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: muc.Optimisation(epochs=1.5), "epochs is 1.5; give a whole number from 1 to 1,000,000"),
        (lambda: muc.Optimisation(epochs="10"), "epochs is 10; give a number from"),
        (lambda: muc.Optimisation(learning_rate=None), "learning-rate is None; give a number"),
        (lambda: muc.FineTune(epochs=True), "epochs is True; give a number"),
        (lambda: muc.Views(flip=float("nan")), "flip is nan; give a number from 0 to 1"),
    ],
)
def test_settings_of_another_type_are_refused_where_they_are_made(make, said):
    with pytest.raises(UserError, match=said):
        make()


def test_numbers_of_numpy_are_numbers():
    made = muc.Optimisation(epochs=np.int64(3), learning_rate=np.float32(0.5))
    assert (made.epochs, made.learning_rate) == (3, 0.5)
