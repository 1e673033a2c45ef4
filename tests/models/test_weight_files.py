"""Weight files are read without running anything from them, and unusable ones are refused with the reason."""

import os
import pickle
from pathlib import Path

import pytest
import torch
from foreign_encoders import save, settings_for, simclr_state

from muc.errors import UserError
from muc.models import convert_pickle, weight_files
from muc.models.backbones import build_backbone
from muc.models.importing import import_run


class Payload:
    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self):
        return os.mkdir, (str(self.mark),)


def test_a_malicious_pickle_is_refused_and_does_not_run(tmp_path):
    file, mark = tmp_path / "evil.pt", tmp_path / "it-ran"
    torch.save({"state_dict": simclr_state(), "extra": Payload(mark)}, file)
    with pytest.raises(UserError, match=r"evil\.pt cannot be read without running code.*state_dict"):
        import_run(file, settings_for(), tmp_path / "run")
    assert not mark.exists()
    assert not (tmp_path / "run").exists()


def test_a_checkpoint_may_be_called_pth_tar(tmp_path):
    torch.save({"state_dict": {"weight": torch.ones(2)}}, tmp_path / "moco.pth.tar")
    assert weight_files.read_weights(tmp_path / "moco.pth.tar")["weight"].tolist() == [1, 1]


def test_a_few_bytes_that_claim_gigabytes_are_refused(tmp_path):
    torch.save({"weight": torch.zeros(1).expand(10**9)}, tmp_path / "bomb.pt")
    with pytest.raises(UserError, match=r"bomb\.pt asks for far more memory"):
        weight_files.read_weights(tmp_path / "bomb.pt")


@pytest.mark.parametrize(
    ("content", "said"), [("cut", "damaged"), ("text", "damaged"), ("payload", "unsafe"), ("strings", "empty")]
)
def test_the_converter_says_why_it_refuses(tmp_path, monkeypatch, capsys, content, said):
    """In this process, to save the start of another."""
    monkeypatch.setattr("resource.setrlimit", lambda *args: None)
    file = tmp_path / "in.pt"
    torch.save({"note": "no weights"} if content == "strings" else simclr_state(), file)
    match content:
        case "cut":
            file.write_bytes(file.read_bytes()[:-1000])
        case "text":
            file.write_text("these are not the weights you are looking for" * 9)
        case "payload":
            file.write_bytes(pickle.dumps(Payload(tmp_path / "it-ran"), protocol=2))
    with pytest.raises(SystemExit):
        convert_pickle.main(str(file), str(tmp_path / "out"), "0")
    assert capsys.readouterr().out.split()[0] == said
    assert not (tmp_path / "it-ran").exists()


def test_damaged_safetensors_are_refused(tmp_path):
    file = save(tmp_path / "in.safetensors", build_backbone("mlp", 1, 8)[0])
    file.write_bytes(file.read_bytes()[:-1000])
    with pytest.raises(UserError, match=r"in\.safetensors is not a readable safetensors file"):
        weight_files.read_weights(file)
    with pytest.raises(UserError, match="there is no file"):
        weight_files.read_weights(tmp_path / "absent.pt")
    (tmp_path / "in.h5").touch()
    with pytest.raises(UserError, match="unknown kind"):
        weight_files.read_weights(tmp_path / "in.h5")


@pytest.mark.parametrize(
    ("checkpoint", "keys"),
    [
        ({"a": 1}, {"a"}),
        ({"model": {"state_dict": {"a": 1}}, "optimizer": {"b": 2}}, {"a"}),
        ({"hyper_parameters": {"b": 2}, "state_dict": {"a": 1}, "c": 3}, {"a"}),
        ({"student": {"b": 2}, "teacher": {"a": 1}}, {"a"}),
        ({"backbone": {"a": 1}, "projector": {"0.a": 1}, "optimizer": {"c": 3}}, {"backbone.a", "projector.0.a"}),
        ({"optimizer": {"a": 1}}, set()),
        ([1, 2], set()),
    ],
)
def test_the_state_dict_is_found_in_a_checkpoint(checkpoint, keys):
    def with_tensors(value):
        return {k: with_tensors(v) for k, v in value.items()} if isinstance(value, dict) else torch.tensor(value)

    assert convert_pickle.find_state(with_tensors(checkpoint)).keys() == keys


def test_the_separate_process_has_a_time_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(weight_files, "TIMEOUT_SECONDS", 0.01)
    torch.save(simclr_state(), tmp_path / "slow.pt")
    with pytest.raises(UserError, match=r"slow\.pt was not read within"):
        weight_files.read_weights(tmp_path / "slow.pt")
