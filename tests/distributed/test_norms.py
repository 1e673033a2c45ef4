"""Batch norms over the rows of several processes; those that cannot be say so."""

from pathlib import Path

import pytest
import torch
from torch import distributed, nn

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


@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("kind", [nn.BatchNorm1d, nn.BatchNorm2d])
def test_a_norm_of_all_rows_is_torchs(tmp_path: Path, kind: type[nn.BatchNorm1d], affine: bool) -> None:
    torch.manual_seed(0)
    rows = torch.randn(6, 4, *([3, 3] if kind is nn.BatchNorm2d else []), dtype=torch.float64)
    ours, plain = (kind(4, affine=affine).double() for _ in range(2))
    distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/meet", rank=0, world_size=1)
    try:
        found = processes.norm_of_all(ours, rows)
    finally:
        distributed.destroy_process_group()
    assert torch.allclose(found, plain(rows))
    assert all(torch.allclose(ours.state_dict()[k], v) for k, v in plain.state_dict().items())
