"""Streams beside the main one: what of them can be seen without a GPU."""

from copy import deepcopy

import pytest
import torch

from muc.models import lane
from muc.models.lane import Lane
from muc.models.resnet import ResNet


def test_a_model_that_was_trained_beside_can_be_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream cannot be copied; `muc.unlearn` copies the model that it starts from."""
    stream = torch.Stream(device="cpu")
    with pytest.raises(TypeError):
        deepcopy(stream)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(lane, "side_stream", lambda *_: stream)
    model = ResNet("resnet18")
    model._lane = model._convolutions[0].lane = Lane()
    model._lane.keep(torch.zeros(3))
    copied = deepcopy(model)
    assert copied._lane is not model._lane
    assert copied._lane is copied._convolutions[0].lane
    assert copied._lane is not None
    assert copied._lane.stream is stream
    assert copied._lane.kept == ()
