"""What cannot work over several processes says so."""

import pytest
from torch import nn

from muc import processes
from muc.errors import UserError
from muc.models.norm import BatchNorm


def test_norms_of_others_are_refused_where_there_are_several_processes(monkeypatch):
    layers = pytest.importorskip("timm.layers")
    foreign = nn.Sequential(nn.Conv2d(1, 4, 3), layers.BatchNormAct2d(4))
    processes.synchronise(foreign)  # one process: nothing to share
    monkeypatch.setattr(processes, "world", lambda: 2)
    processes.synchronise(nn.Sequential(nn.BatchNorm1d(4), BatchNorm(4), nn.LayerNorm(4)))
    with pytest.raises(UserError, match="BatchNormAct2d cannot work over several processes; train with one"):
        processes.synchronise(foreign)
