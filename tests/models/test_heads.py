"""Projection heads come in whole, or not at all."""

from copy import deepcopy

import pytest
import torch
from foreign_encoders import digits, equal, save, settings_for
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from torch import nn

from muc import config, opening, runs
from muc.data import load_images
from muc.errors import UserError
from muc.methods import FineTune
from muc.models.backbones import build_backbone
from muc.models.exporting import export_run
from muc.models.fitting import find_head, shapes
from muc.models.heads import build_head, read_head
from muc.models.importing import import_run

RUNTIME = config.Runtime(threads=1)

blocks = st.tuples(
    st.integers(1, 9), st.sampled_from(["", " bias"]), st.sampled_from([(), ("norm",), ("norm plain",)]), st.booleans()
)


def layers_of(stack: list) -> tuple[str, ...]:
    layers = [[f"linear {width}{bias}", *norm, *(["relu"] if relu else [])] for width, bias, norm, relu in stack]
    flat = tuple(layer for block in layers for layer in block)
    return flat[:-1] if flat[-1] == "relu" else flat  # behind the last tensors nothing can be seen


@given(st.lists(blocks, min_size=1, max_size=4), st.integers(1, 9))
def test_what_is_built_is_read_again(stack, width):
    layers = layers_of(stack)
    head, made = build_head(layers, width)
    assert read_head(shapes({f"a.{k}": v for k, v in head.state_dict().items()}), "a.", width) == layers
    assert head.eval()(torch.zeros(2, width)).shape == (2, made)


def moco_v2_head() -> nn.Module:
    return nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 128))


def byol_head() -> nn.Module:
    return nn.Sequential(nn.Linear(256, 40, bias=False), nn.BatchNorm1d(40), nn.ReLU(), nn.Linear(40, 16, bias=False))


@pytest.mark.parametrize(
    ("algorithm", "prefix", "head_prefix", "make"),
    [
        ("moco", "module.encoder_q.", "module.encoder_q.fc.", moco_v2_head),
        ("simclr", "backbone.", "backbone.fc.", moco_v2_head),
        ("simclr", "online_encoder.net.", "online_encoder.projector.", byol_head),
        ("simclr", "backbone.", "contrastive_head.", moco_v2_head),
        ("simclr", "backbone.", "projector._orig_mod.", moco_v2_head),
        ("moco", "encoder_q._orig_mod.", "encoder_q._orig_mod.module.fc.", moco_v2_head),
    ],
)
def test_heads_of_other_forms_come_with_their_encoder(tmp_path, algorithm, prefix, head_prefix, make):
    network, head = build_backbone("mlp", 1, 8)[0].eval(), make().eval()
    state = {prefix + k: v for k, v in network.state_dict().items()}
    state |= {head_prefix + k: v for k, v in head.state_dict().items()}
    save_file(state, tmp_path / "in.safetensors")
    run, summary = import_run(tmp_path / "in.safetensors", settings_for("mlp", algorithm), tmp_path / "run", RUNTIME)
    assert "projection head (freshly initialised)" not in summary.fresh
    assert (summary.matched, summary.ignored) == (len(state), ())
    assert "note: projection head: linear" in summary.describe()
    model = opening.open_model(run, load_images(config.Data(name="digits")))
    assert torch.allclose(model.projected(digits()), head(network(digits())), atol=1e-6)
    if algorithm == "moco":
        assert equal(model.get_submodule("key_projector").state_dict(), head.state_dict())
    child = runs.unlearn_run(run, FineTune(epochs=1), config.Request(forget_fraction=0.1), tmp_path / "child", RUNTIME)
    assert opening.pretraining_of(child).model.head == opening.pretraining_of(run).model.head != None  # noqa: E711
    opening.open_model(child, load_images(config.Data(name="digits")))
    back = load_file(export_run(child, "safetensors", tmp_path / "out.safetensors"))
    assert back.keys() == {key for key in state if key.startswith(prefix) and not key.startswith(head_prefix)}


def test_a_classifier_is_no_projection_head(tmp_path):
    network = build_backbone("mlp", 1, 8)[0]
    state = {f"model.{k}": v for k, v in network.state_dict().items()}
    for name in ("model.fc", "model.head", "head"):
        found = shapes({**state, **{f"{name}.{k}": v for k, v in nn.Linear(256, 10).state_dict().items()}})
        assert find_head(found, 256) is None
    found = shapes({f"projector.{k}": v for k, v in nn.Linear(256, 10).state_dict().items()})
    assert find_head(found, 256) == ("linear 10 bias",)
    assert find_head(found, 128) is None  # of another encoder


@pytest.mark.parametrize(
    "head",
    [
        nn.Sequential(nn.Linear(256, 64), nn.LayerNorm(64), nn.ReLU(), nn.Linear(64, 16)),
        nn.Sequential(nn.Linear(256, 64), nn.ReLU(), nn.Dropout(), nn.Linear(64, 16)),
        nn.Sequential(nn.BatchNorm1d(256), nn.Linear(256, 16)),
        nn.Sequential(nn.Linear(256, 64), nn.Sequential(nn.Linear(64, 16))),
        nn.Sequential(nn.ReLU(), nn.Linear(256, 16)),
        nn.Sequential(nn.Linear(256, 16)),
    ],
)
def test_what_cannot_be_read_is_left_alone_and_said(tmp_path, head):
    file = save(tmp_path / "in.safetensors", nn.ModuleDict({"net": build_backbone("mlp", 1, 8)[0], "projector": head}))
    _, summary = import_run(file, settings_for(), tmp_path / "run", RUNTIME)
    assert len(summary.fresh) == 1
    assert "head (freshly initialised: what is under 'projector.' could not be read as linear" in summary.fresh[0]
    assert all(key.startswith("projector.") for key in summary.ignored)


@pytest.mark.parametrize("algorithm", ["simclr", "moco"])
def test_a_second_encoder_that_follows_is_told_of(tmp_path, algorithm):
    """SimCLR is what an import supposes."""
    encoder = build_backbone("mlp", 1, 8)[0]
    file = save(tmp_path / "in.safetensors", nn.ModuleDict({"encoder_q": encoder, "encoder_k": deepcopy(encoder)}))
    _, summary = import_run(file, settings_for("mlp", algorithm), tmp_path / "run", RUNTIME)
    told = "another encoder of this kind under 'encoder_k.', which was not taken; if MoCo" in summary.describe()
    assert told == (algorithm == "simclr")


@pytest.mark.parametrize("algorithm", ["simclr", "moco"])
def test_a_single_layer_of_a_classifiers_name_is_not_taken(tmp_path, algorithm):
    """Also where there are as many classes as the paper's projection has numbers."""
    network, classifier = build_backbone("mlp", 1, 8)[0], nn.Linear(256, 128)
    file = save(tmp_path / "in.safetensors", nn.ModuleDict({"net": network, "head": classifier}))
    _, summary = import_run(file, settings_for("mlp", algorithm), tmp_path / "run", RUNTIME)
    assert set(summary.ignored) == {"head.weight", "head.bias"}


def test_of_several_heads_the_files_first_that_does_not_follow_is_taken():
    names = ("momentum_projector", "b.projector", "a.projector")
    found = shapes(
        {
            f"{n}.{k}": v
            for n, w in zip(names, (3, 4, 5), strict=True)
            for k, v in nn.Linear(256, w).state_dict().items()
        }
    )
    assert find_head(found, 256) == ("linear 4 bias",)


def test_a_name_that_only_heads_have_comes_first():
    made = {"backbone.head": (96, 10), "projector": (128, 64)}
    found: dict[str, torch.Size] = {}
    for name, (hidden, out) in made.items():
        layers = nn.Sequential(nn.Linear(256, hidden), nn.ReLU(), nn.Linear(hidden, out))
        found |= shapes({f"{name}.{k}": v for k, v in layers.state_dict().items()})
    assert find_head(found, 256) == ("linear 128 bias", "relu", "linear 64 bias")


@pytest.mark.parametrize("key_head", [True, False])
def test_the_key_encoder_has_its_own_head(tmp_path, key_head):
    """In solo-learn's names."""
    parts = {f"{part}backbone": build_backbone("mlp", 1, 8)[0] for part in ("", "momentum_")}
    parts["projector"] = moco_v2_head()
    if key_head:
        parts["momentum_projector"] = moco_v2_head()
    file = save(tmp_path / "in.safetensors", nn.ModuleDict(parts))
    run, summary = import_run(file, settings_for("mlp", "moco"), tmp_path / "run", RUNTIME)
    model = opening.open_model(run, load_images(config.Data(name="digits")))
    keys = parts["momentum_projector" if key_head else "projector"]
    wanted = keys(parts["momentum_backbone"].eval()(digits()))
    assert torch.allclose(model.get_submodule("key_projector")(model.get_submodule("key_backbone")(digits())), wanted)
    assert ("key head (copied from the query's)" in summary.fresh) == (not key_head)


def test_an_unknown_layer_is_refused():
    for layers in ((), ("relu",), ("norm", "linear 3")):
        with pytest.raises(UserError, match=r"the projection head begins with .*; give a linear layer first"):
            build_head(layers, 3)
    with pytest.raises(UserError, match="layer 'gelu' is unknown; expected 'linear WIDTH', 'norm' or 'relu'"):
        build_head(("linear 3", "gelu"), 3)
