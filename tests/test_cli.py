"""The command line: help at once, and for every bad input one sentence, exit code 2, and nothing half-written."""

import errno
import io
import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest
import torch
import tyro

import muc
from muc.__main__ import COMMANDS, main
from muc.cli.flags import peek
from muc.cli.training import recipe_of
from muc.errors import Interrupted
from muc.run_folder import RunFolder
from muc.storage import read_json, write_json

TINY = ("--data", "digits", "--train-limit", "40", "--batch-size", "20", "--epochs", "1", "--threads", "1")


@pytest.fixture(scope="module")
def runs_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A pretrained run and one that was unlearned from it."""
    folder = tmp_path_factory.mktemp("runs")
    assert main(["pretrain", *TINY, "--out", str(folder / "original")]) == 0
    request = ["--forget-fraction", "0.2", "--epochs", "1", "--threads", "1"]
    assert main(["unlearn", str(folder / "original"), "--method", "finetune", *request]) == 0
    return folder


@pytest.fixture
def copied(runs_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy to damage, which is also where commands run: nothing may be written there by a command that fails."""
    shutil.copytree(runs_folder, tmp_path / "runs")
    monkeypatch.chdir(tmp_path)
    return Path("runs")


def everything_below(folder: Path) -> set[Path]:
    return set(folder.rglob("*"))


@pytest.fixture
def complaint(capsys: pytest.CaptureFixture[str], copied: Path) -> Callable[..., str]:
    """Run a command that must fail -> its one sentence."""

    def run(*argv: object) -> str:
        capsys.readouterr()
        before = everything_below(Path())
        assert main([str(argument) for argument in argv]) == 2
        said = capsys.readouterr()
        assert said.out == ""
        lines = said.err.splitlines()
        assert len(lines) == 1, said.err
        assert lines[0].startswith("muc: error: ")
        assert everything_below(Path()) == before
        return lines[0]

    return run


# --- help ---


def test_help_needs_no_torch_and_shows_an_example() -> None:
    script = """
import sys
from muc.__main__ import COMMANDS, main
for argv in (["--help"], ["--version"], *([name, "--help"] for name in COMMANDS), ["audit", "look", "--help"]):
    print("#", *argv)
    try:
        assert main(argv) == 0
    except SystemExit as stop:
        assert stop.code == 0
heavy = {"torch", "torchvision", "sklearn", "scipy", "matplotlib", "PIL"} & set(sys.modules)
assert not heavy, heavy
"""
    environment = {**os.environ, "PYTHONPATH": str(Path(muc.__file__).parents[1]), "COLUMNS": "200"}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    pages = dict(page.split("\n", maxsplit=1) for page in done.stdout.split("# ")[1:])
    assert f"muc {muc.__version__}" in pages["--version"]
    for command in COMMANDS:
        assert f"  {command}" in pages["--help"]
        assert "Example: muc" in pages[f"{command} --help"]


@pytest.mark.parametrize("argv", [["--help"], ["-h"], ["help"]])
def test_help_is_asked_for_in_several_ways(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(argv) == 0
    assert "Example: muc pretrain" in capsys.readouterr().out


def test_no_command_shows_the_help_and_fails(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "muc COMMAND --help" in capsys.readouterr().out


def test_the_version_is_the_package_s(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"muc {muc.__version__}\n"


def help_page(argv: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as stop:
        main([*argv, "--help"])
    assert stop.value.code == 0
    return " ".join(capsys.readouterr().out.replace("│", " ").split())


def test_help_shows_what_a_flag_does_and_not_what_it_undoes(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    assert "--no-stem-relu No ReLU after the first convolution" in help_page(["pretrain"], capsys)
    for command in ("evaluate", "report"):
        shown = help_page([command], capsys)
        assert "(at least one)" in shown
        assert "(default: )" not in shown


def test_help_says_how_to_see_the_flags_of_another_method(capsys: pytest.CaptureFixture[str]) -> None:
    assert "flags of others: muc unlearn --method NAME --help" in help_page(["unlearn"], capsys)
    assert "(here: neggrad;" in help_page(["unlearn", "--method", "neggrad"], capsys)


# --- flags ---


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["pretrain", "--epochs", "abc"], "--epochs is 'abc'; give a whole number"),
        (["pretrain", "--epochs", "3", "--epochs=1.5"], "--epochs is '1.5'; give a whole number"),
        (["pretrain", "--train_limit", "many"], "--train-limit is 'many'; give a whole number"),
        (["pretrain", "--learning-rate", "fast"], "--learning-rate is 'fast'; give a number"),
        (["demo", "--seeds", "x"], "--seeds is 'x'; give a whole number"),
        (["reproduce", "cifar10-10", "--seeds", "1", "x", "2"], "--seeds is 'x'; give a whole number"),
        (["pretrain", "--epochs"], "--epochs has no value; give a whole number"),
        (["pretrain", "--data", "--epochs", "3"], "--data has no value"),
        (["pretrain", "--stream", "onn"], "unknown --stream 'onn'; did you mean 'on'? valid: auto, off, on"),
        (
            ["pretrain", "--dta", "glyphs"],
            "muc pretrain has no --dta; did you mean --data? `muc pretrain --help` lists",
        ),
        (["pretrain", "--dta=glyphs"], "muc pretrain has no --dta; did you mean --data?"),
        (["pretrain", "--colour", "red"], "muc pretrain has no --colour; `muc pretrain --help` lists its flags"),
        (["pretrain", "glyphs"], "muc pretrain has no place for 'glyphs'; put a value behind its flag"),
        (["pretrain", "--force", "yes"], "muc pretrain has no place for 'yes'"),
        (["resume", "one", "two"], "muc resume has no place for 'two'"),
        (["unlearn"], "needs RUN; for example: muc unlearn runs/moco --method"),
        (["serve", "keys", "add", "RUN"], "muc serve keys add needs --name; for example: muc serve keys add"),
        (["serve", "keys", "add", "RUN", "--nam", "x"], "muc serve keys add has no --nam; did you mean --name?"),
        (
            ["unlearn", "runs/original", "--method", "neggrad", "--beta", "3"],
            "muc unlearn --method neggrad has no --beta; `muc unlearn --method neggrad --help` lists its flags",
        ),
        (["unlearn", "--bta", "3", "runs/original"], "has no --bta; did you mean --beta?"),
        (
            ["unlearn", "runs/original", "--beta", "3", "--paper-beta=4"],
            "--beta 3 and --paper-beta 4 are one weight in two units; leave one of them out",
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_wrong_flag_is_one_sentence(complaint: Callable[..., str], argv: list[str], words: str) -> None:
    assert words in complaint(*argv)


def test_of_a_flag_that_comes_twice_the_last_gives_the_defaults_too() -> None:
    argv = ["--data", "glyphs", "--train_limit=3", "--data=cifar10", "--force", "runs/a"]
    assert peek(argv, "--data", "svhn") == "cifar10"
    assert peek(argv, "--train-limit", "") == "3"
    assert peek(argv, "--algorithm", "moco") == "moco"


def test_a_parser_that_gives_no_account_of_faults_speaks_for_itself(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """That account is not public: another version of tyro may have none."""
    monkeypatch.delattr(tyro._errors, "on_parse_error")
    with pytest.raises(SystemExit) as stop:
        main(["pretrain", "--epochs", "many"])
    assert stop.value.code == 2
    assert "'many'" in capsys.readouterr().err


# --- names and numbers ---


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["pretrian"], "unknown command 'pretrian'; did you mean 'pretrain'?"),
        (["audit", "lok"], "unknown audit step 'lok'; did you mean 'look'?"),
        (["pretrain", "--algorithm", "simclrr"], "unknown algorithm 'simclrr'; did you mean 'simclr'?"),
        (["pretrain", "--architecture=resnet19"], "unknown architecture 'resnet19'; did you mean 'resnet18'?"),
        (["pretrain", "--data", "cifar-10"], "unknown data set 'cifar-10'; did you mean 'cifar10'?"),
        (["pretrain", "--data", "nowhere"], "svhn, or the path of a folder, a .tar or an .npz"),
        (["pretrain", "--out", ""], "one of the values is empty"),
        (["pretrain", "--out="], "--out is empty; give it a value, or leave it out"),
        (
            ["export", "runs/original", "--to", "onnx", "--out", "x.safetensors"],
            "x.safetensors is named as another kind",
        ),
        (["audit", "verify", "runs"], "there is no audit at runs; give the folder of one"),
        (["pretrain", "--data", "nowhere.npz"], "there is no file or folder 'nowhere.npz'"),
        (["unlearn", "runs/original", "--method", "fintune"], "unknown method 'fintune'; did you mean 'finetune'?"),
        (["compare", "runs/original", "--methods", "negrad"], "unknown method 'negrad'; did you mean 'neggrad'?"),
        (["unlearn", "runs/orignal", "--forget-fraction", "0.1"], "there is no run at runs/orignal"),
        (["resume", "runs"], "is runs a run folder?"),
        (["resume", "runs/original"], "is finished; there is nothing to resume"),
        (["report", "runs/original/config.json"], "config.json is a file, not a run; give run folders"),
        (["runs", "nowhere"], "there is no folder 'nowhere'"),
        (["evaluate"], "no run was given"),
        (["evaluate", "runs/original"], "none of the runs serves a request"),
        (["evaluate", "runs/original-finetune", "--against", "runs/retrain"], "there is no run at runs/retrain"),
        (["pretrain", "--epochs", "0"], "epochs is 0; give a number from 1"),
        (["pretrain", "--learning-rate", "nan"], "learning-rate is nan"),
        (["pretrain", "--temperature", "0"], "temperature is 0.0"),
        (["pretrain", "--seed", "-1"], "seed is -1"),
        (["pretrain", "--threads", "0"], "threads is 0"),
        (["pretrain", "--image-size", "1000000"], "image-size is 1000000"),
        (["pretrain", "--validation-fraction", "1.5"], "validation-fraction is 1.5"),
        (["unlearn", "runs/original", "--forget-fraction", "0.1", "--epochs", "0"], "epochs is 0"),
        (["unlearn", "runs/original", "--forget-fraction", "0.1", "--learning-rate", "inf"], "learning-rate is inf"),
        (["unlearn", "runs/original", "--forget-fraction", "0.1", "--beta", "-1"], "beta is -1"),
        (["unlearn", "runs/original", "--reading", "compat", "--gamma", "2"], "gamma is 2.0; the compat reading knows"),
        (["unlearn", "runs/original", "--method", "l1_sparsity", "--l1", "nan"], "l1 is nan"),
        (
            ["unlearn", "runs/original", "--forget-fraction", "0.1", "--out", "runs/original"],
            "is, holds or lies inside the run",
        ),
        (
            ["unlearn", "runs/original", "--forget-fraction", "0.1", "--out", "runs", "--force"],
            "is, holds or lies inside the run",
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_wrong_name_or_number_is_one_sentence(complaint: Callable[..., str], argv: list[str], words: str) -> None:
    assert words in complaint(*argv)


@pytest.mark.parametrize("device", ["cuda", "cuda:0", "cuda:7", "gpu", "tpu", "meta"])
def test_a_device_that_is_not_there_is_never_replaced_in_silence(
    complaint: Callable[..., str], monkeypatch: pytest.MonkeyPatch, device: str
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert f"device '{device}'" in complaint("pretrain", *TINY, "--device", device, "--out", "new")
    assert f"device '{device}'" in complaint(
        "unlearn", "runs/original", "--forget-fraction", "0.1", "--device", device, "--out", "new"
    )


# --- requests ---


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ([], "is empty"),
        ([0, 1_000_000], "names image 1000000, but digits has images 0 to"),
        (["cat.png"], "digits has no file names"),
        ("validation", "names 3 images that were held out for validation and none that was trained on"),
        ("duplicate", "more than once"),
        ("all", "leaves 0 images to retain"),
    ],
    ids=str,
)
def test_a_bad_request_is_one_sentence(
    complaint: Callable[..., str], copied: Path, lines: list[object] | str, words: str
) -> None:
    split = RunFolder(copied / "original").split()
    if isinstance(lines, str):
        kinds = {
            "validation": split.validation[:3],
            "duplicate": split.retain[[0, 1, 0]],
            "all": split.retain,
        }
        lines = kinds[lines].tolist()
    Path("request.txt").write_text("\n".join(map(str, lines)))
    assert words in complaint("unlearn", "runs/original", "--forget", "request.txt", "--out", "new")
    assert words in complaint("compare", "runs/original", "--forget", "request.txt", "--out", "new")


def test_a_search_needs_images_that_a_request_leaves_held_out(copied: Path, capsys: pytest.CaptureFixture[str]) -> None:
    split = RunFolder(copied / "original").split()
    Path("request.txt").write_text("\n".join(map(str, [*split.validation, *split.retain[:4]])))
    argv = ["compare", "runs/original", "--forget", "request.txt", "--search", "2", "--out", "new"]
    assert main(argv) == 2
    note, said = capsys.readouterr().err.splitlines()
    assert f"{len(split.validation)} images asked for were held out" in note
    assert "has no validation images left after this request to search with; leave --search out" in said
    assert not Path("new").exists()


def test_a_request_of_one_image_is_not_for_every_method(complaint: Callable[..., str], copied: Path) -> None:
    Path("request.txt").write_text(str(RunFolder(copied / "original").split().retain[0]))
    said = complaint("unlearn", "runs/original", "--forget", "request.txt", "--out", "new")
    assert "names 1 image, and this method compares" in said


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ([], "exactly one of --forget-fraction, --forget and --forget-class"),
        (["--forget-fraction", "0.1", "--forget-class", "3"], "exactly one of"),
        (["--forget-fraction", "0.001"], "forget-fraction is 0.001, which is none of 40 images"),
        (["--forget-fraction", "1"], "forget-fraction is 1"),
        (["--forget-class", "eleven"], "unknown class 'eleven'"),
        (["--forget", "nowhere.txt"], "cannot read the request nowhere.txt"),
    ],
)
def test_a_bad_request_on_the_command_line_is_one_sentence(
    complaint: Callable[..., str], flags: list[str], words: str
) -> None:
    assert words in complaint("unlearn", "runs/original", *flags, "--out", "new")


def test_what_was_forgotten_cannot_be_forgotten_again(complaint: Callable[..., str], copied: Path) -> None:
    gone = RunFolder(copied / "original-finetune").split().unlearn
    Path("request.txt").write_text("\n".join(map(str, gone)))
    assert "was forgotten before" in complaint("unlearn", "runs/original-finetune", "--forget", "request.txt")


def test_a_comparison_that_cannot_end_well_does_not_begin(complaint: Callable[..., str], copied: Path) -> None:
    ask = ["compare", "runs/original", "--out", "new", "--forget-fraction"]
    assert "nothing to compare" in complaint(*ask, "0.2", "--methods", "retrain")
    assert "does not serve this request" in complaint(*ask, "0.5", "--against", "runs/original-finetune")
    assert "is a run of finetune, not of retrain" in complaint(*ask, "0.2", "--against", "runs/original-finetune")
    assert "there is no run at nowhere" in complaint(*ask, "0.2", "--against", "nowhere")
    assert "search is -4" in complaint(*ask, "0.2", "--search", "-4")


def test_what_stands_in_a_methods_place_is_seen_before_another_trains(
    complaint: Callable[..., str], copied: Path
) -> None:
    request = ["--forget-fraction", "0.2"]
    assert (
        main(["unlearn", "runs/original", *request, "--method", "neggrad", "--epochs", "1", "--out", "new/neggrad"])
        == 0
    )
    ask = ["compare", "runs/original", *request, "--out", "new", "--methods", "finetune", "neggrad"]
    assert "new/neggrad holds another run" in complaint(*ask)
    assert not Path("new/finetune").exists()


def test_an_encoder_from_elsewhere_was_trained_on_all_images_unless_said_otherwise(copied: Path) -> None:
    assert main(["export", "runs/original", "--out", "encoder.safetensors"]) == 0
    flags = ["--algorithm", "simclr", "--data", "digits", "--architecture", "mlp"]
    assert main(["import", "encoder.safetensors", *flags, "--out", "all"]) == 0
    assert main(["import", "encoder.safetensors", *flags, "--validation-fraction", "0.1", "--out", "most"]) == 0
    assert [len(RunFolder(Path(run)).split().validation) > 0 for run in ("all", "most")] == [False, True]


def test_runs_of_different_requests_are_not_compared(complaint: Callable[..., str], copied: Path) -> None:
    request = ["--forget-fraction", "0.5", "--method", "finetune", "--epochs", "1", "--threads", "1", "--out", "other"]
    assert main(["unlearn", "runs/original", *request]) == 0
    assert "do not serve the same request" in complaint("evaluate", "other", "--against", "runs/original-finetune")


def test_gaps_are_to_a_retrain_of_the_same_original(complaint: Callable[..., str], copied: Path) -> None:
    assert main(["pretrain", *TINY, "--learning-rate", "0.01", "--out", "other"]) == 0
    request = ["--forget-fraction", "0.2"]
    assert main(["unlearn", "other", "--method", "retrain", *request, "--threads", "1"]) == 0
    mine, theirs = "runs/original-finetune", "other-retrain"
    assert "unlearned from different models" in complaint("evaluate", mine, "--against", theirs)
    assert "unlearned from different models" in complaint("evaluate", mine, theirs)
    assert "was not made from runs/original" in complaint(
        "compare", "runs/original", *request, "--against", theirs, "--out", "new"
    )
    assert "is a run of finetune, not of retrain" in complaint("evaluate", mine, "--against", mine)
    assert "is a run of pretrain, not of retrain" in complaint("evaluate", mine, "--against", "runs/original")


@pytest.mark.parametrize(
    ("text", "words"),
    [("[]", "holds no JSON object"), ('{"x": 1}', "format version"), ('{"format_version": 1}', "has no 'run'")],
)
def test_a_damaged_record_is_one_sentence(complaint: Callable[..., str], copied: Path, text: str, words: str) -> None:
    (copied / "original-finetune" / "evaluation.json").write_text(text)
    assert words in complaint("report", "runs/original-finetune", "--out", "new")


# --- data ---


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"images": np.zeros((9, 4, 5), dtype=np.uint8), "labels": np.arange(9)}, "crop or resize them to squares"),
        ({"images": np.full((9, 4, 4), np.nan), "labels": np.arange(9)}, "NaN or infinite values"),
        ({"images": np.zeros((9, 4, 4), dtype=np.uint8), "labels": np.arange(8)}, "give one label an image"),
        ({"images": np.zeros((4, 4, 4), dtype=np.uint8), "labels": np.arange(4)}, "at least 4 are needed"),
        ({"images": np.array([None] * 9), "labels": np.arange(9)}, "holds Python objects"),
    ],
    ids=["shape", "nan", "labels", "few", "objects"],
)
def test_arrays_that_are_no_images_are_one_sentence(
    complaint: Callable[..., str], arrays: dict[str, Any], words: str
) -> None:
    np.savez("mine.npz", **arrays)
    assert words in complaint("pretrain", "--data", "mine.npz", "--out", "new")


def test_a_header_that_promises_terabytes_is_one_sentence(complaint: Callable[..., str]) -> None:
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "|u1", "fortran_order": False, "shape": (8 * 2**40,)})
    with zipfile.ZipFile("mine.npz", "w") as archive:
        archive.writestr("images.npy", header.getvalue())
    assert "promises 8,796,093,022,208 bytes but holds 0" in complaint("pretrain", "--data", "mine.npz", "--out", "new")


def test_a_broken_image_in_a_folder_is_named(complaint: Callable[..., str]) -> None:
    from PIL import Image

    for i in range(9):
        path = Path("pets") / "cat" / f"{i}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8, 8), (i, i, i)).save(path)
    path.write_bytes(path.read_bytes()[:-30])
    assert "pets/cat/8.png is not a readable image" in complaint("pretrain", "--data", "pets", "--out", "new")


# --- places to write ---


def test_a_place_that_is_taken_is_one_sentence(complaint: Callable[..., str]) -> None:
    Path("file").write_text("mine")
    Path("papers").mkdir()
    Path("papers/thesis.tex").write_text("years of work")
    assert "is a file, not a folder" in complaint("pretrain", *TINY, "--out", "file")
    assert "is inside a file" in complaint("pretrain", *TINY, "--out", "file/run")
    assert "not empty and not a run" in complaint("pretrain", *TINY, "--out", "papers", "--force")
    assert "holds a finished run" in complaint("pretrain", *TINY, "--out", "runs/original")


def test_no_permission_is_one_sentence(complaint: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise PermissionError(13, "Permission denied", "new")

    monkeypatch.setattr(os, "mkdir", refuse)
    assert "no permission to write new; give another --out" in complaint("pretrain", *TINY, "--out", "new")


@pytest.mark.usefixtures("copied")
def test_a_full_disk_is_one_sentence_and_the_run_can_go_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    usage = shutil.disk_usage(".")
    for before_it_is_full, goes_on in ((0, ["pretrain", *TINY, "--out", "new"]), (1, ["resume", "new"])):
        found = [usage] * before_it_is_full
        with monkeypatch.context() as patch:
            patch.setattr(shutil, "disk_usage", lambda _, f=found: f.pop() if f else usage._replace(free=1000))
            assert main(["pretrain", *TINY, "--out", "new"]) == 2
        assert "are free; make room and run the same command again" in capsys.readouterr().err
        assert main(goes_on) == 0
        shutil.rmtree("new")


# --- damaged runs ---

USES = (
    ["unlearn", "runs/original", "--forget-fraction", "0.1", "--threads", "1", "--out", "new"],
    ["evaluate", "runs/original-finetune", "--threads", "1"],
)


@pytest.mark.parametrize("argv", USES, ids=["unlearn", "evaluate"])
def test_weights_with_a_flipped_bit_are_named(complaint: Callable[..., str], copied: Path, argv: list[str]) -> None:
    path = copied / "original" / "model.safetensors"
    damaged = bytearray(path.read_bytes())
    damaged[len(damaged) // 2] ^= 4
    path.write_bytes(damaged)
    assert f"{path} is damaged" in complaint(*argv)


@pytest.mark.parametrize("argv", USES, ids=["unlearn", "evaluate"])
def test_a_run_of_a_newer_version_asks_for_an_upgrade(
    complaint: Callable[..., str], copied: Path, argv: list[str]
) -> None:
    path = copied / "original" / "config.json"
    write_json(path, {**read_json(path), "format_version": 99})
    assert f"{path} has format version 99" in complaint(*argv)


@pytest.mark.parametrize("argv", USES, ids=["unlearn", "evaluate"])
@pytest.mark.parametrize(
    ("setting", "value"), [("architecture", "convnet"), ("projection_dim", 7), ("algorithm", "moco")]
)
def test_weights_of_another_architecture_are_refused(
    complaint: Callable[..., str], copied: Path, argv: list[str], setting: str, value: Any
) -> None:
    path = copied / "original" / "config.json"
    values = read_json(path)
    values["pretraining"]["model"][setting] = value
    write_json(path, values)
    assert "the weights in runs/original do not fit its architecture" in complaint(*argv)


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (
            lambda values: values["pretraining"]["model"].update(architecture="resnet5"),
            "unknown architecture 'resnet5'",
        ),
        (
            lambda values: values["pretraining"]["model"].update(heads=8),
            "pretraining has a field 'model.heads' that",
        ),
        (
            lambda values: values["pretraining"]["optimisation"].update(epochs="ten"),
            "pretraining: 'optimisation.epochs' is 'ten'; expected a whole number",
        ),
        (lambda values: values.update(pretraining=[]), "config.json: 'pretraining' is []; expected an object"),
        (lambda values: values.pop("pretraining"), "config.json has no 'pretraining'"),
        (
            lambda values: values["pretraining"]["optimisation"].update(epochs=-1),
            "config.json: pretraining: epochs is -1; give a number",
        ),
        (lambda values: values.update(seed="x"), "config.json: 'seed' is 'x'; expected a whole number"),
        (lambda values: values.update(seed=None), "config.json: 'seed' is None; expected a whole number"),
        (lambda values: values.update(kind="guess"), "config.json: 'kind' is 'guess'; expected one of pretrain,"),
        (lambda values: values.update(ancestry=5), "config.json: 'ancestry' is 5; expected a list"),
        (lambda values: values.update(method=5), "config.json: 'method' is 5; expected an object"),
        (lambda values: values.update(parent={"path": 5}), "config.json: 'parent.path' is 5; expected a text"),
    ],
    ids=["architecture", "newer", "type", "list", "missing", "range", "seed", "null", "kind", "past", "how", "whence"],
)
def test_a_damaged_config_is_one_sentence(
    complaint: Callable[..., str], copied: Path, damage: Callable[[dict[str, Any]], Any], words: str
) -> None:
    path = copied / "original" / "config.json"
    values = read_json(path)
    damage(values)
    write_json(path, values)
    assert words in complaint(*USES[0])


@pytest.mark.parametrize("name", ["config.json", "split.json", "result.json", "model.safetensors"])
@pytest.mark.parametrize("how", ["missing", "empty", "noise"])
def test_a_run_that_lost_a_file_is_one_sentence(
    complaint: Callable[..., str], copied: Path, name: str, how: str
) -> None:
    path = copied / "original" / name
    path.unlink()
    if how != "missing":
        path.write_bytes(b"" if how == "empty" else bytes(range(256)))
    said = complaint(*USES[0])
    assert str(path) in said or "is not finished" in said


@pytest.mark.parametrize(
    ("name", "damage", "words"),
    [
        ("result.json", {"seconds": "x"}, "result.json: 'seconds' is 'x'; expected a number"),
        ("result.json", {"peak_memory_bytes": [1]}, "result.json: 'peak_memory_bytes' is [1]; expected a whole number"),
        ("config.json", {"method": {"name": 5}}, "config.json has no complete 'method'; restore it"),
    ],
)
def test_values_of_another_kind_are_one_sentence(
    complaint: Callable[..., str], copied: Path, name: str, damage: dict[str, Any], words: str
) -> None:
    path = copied / "original-finetune" / name
    write_json(path, {**read_json(path), **damage})
    assert words in complaint("evaluate", copied / "original-finetune")


def test_a_split_that_names_images_outside_the_data_is_refused(complaint: Callable[..., str], copied: Path) -> None:
    path = copied / "original" / "split.json"
    values = read_json(path)
    write_json(path, {**values, "retain": [*values["retain"], 1_000_000]})
    assert "names image 1000000" in complaint(*USES[0])


# --- muc runs ---


def test_runs_are_listed_with_their_state(copied: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(copied / "original", copied / "interrupted")
    (copied / "interrupted" / "result.json").unlink()
    files = ("model.safetensors", "images.safetensors", "config.json", "split.json", "result.json")
    for name in files:
        shutil.copytree(copied / "original", copied / f"corrupt-{name}")
        path = copied / f"corrupt-{name}" / name
        path.write_bytes(path.read_bytes()[:-9])
    capsys.readouterr()
    assert main(["runs", "runs", "--json"]) == 0
    rows = {row["run"]: row for row in json.loads(capsys.readouterr().out)}
    states = {name.removeprefix("runs/"): row["state"] for name, row in rows.items()}
    assert states == {
        "original": "done",
        "original-finetune": "done",
        "interrupted": "interrupted",
        **{f"corrupt-{name}": "corrupt" for name in files},
    }
    assert rows["runs/original-finetune"]["from"] == "runs/original"
    assert rows["runs/original-finetune"]["what"].startswith("finetune simclr mlp")
    assert main(["runs", "runs"]) == 0
    table = capsys.readouterr().out
    assert "runs/original-finetune" in table
    assert "corrupt" in table


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_terminal_without_a_letter_shows_another(
    copied: Path, monkeypatch: pytest.MonkeyPatch, encoding: str
) -> None:
    (copied / "original").rename(copied / "画 ünï…")
    streams = {name: io.TextIOWrapper(io.BytesIO(), encoding) for name in ("stdout", "stderr")}
    with monkeypatch.context() as patch:
        for name, stream in streams.items():
            patch.setattr(sys, name, stream)
        assert main(["runs", "runs"]) == 0
        assert main(["runs", "画"]) == 2
    shown = {}
    for name, stream in streams.items():
        stream.seek(0)
        shown[name] = stream.read()
    assert f"runs/{'? ?n??' if encoding == 'ascii' else '? ünï?'} " in shown["stdout"]
    assert "there is no folder '?'" in shown["stderr"]


def test_defaults_are_those_of_the_run_and_not_of_the_one_that_is_replaced(tmp_path: Path) -> None:
    for name, data, algorithm in (("old", "glyphs", "simclr"), ("clip", "glyph-pairs", "clip")):
        settings = {"pretraining": {"data": {"name": data}, "model": {"algorithm": algorithm}}}
        others = {"format_version": 1, "seed": 0, "data_sha256": "", "ancestry": [], "runtime": {}}
        write_json(tmp_path / name / "config.json", {**others, "kind": "pretrain", **settings})
    old, clip = str(tmp_path / "old"), str(tmp_path / "clip")
    for flags in (["--out", old, "--force", clip], [f"--out={old}", clip], [clip, "--out", old]):
        assert recipe_of(flags) == ("glyph-pairs", "clip")


@pytest.mark.parametrize(
    ("argv", "hint"),
    [
        (["demo", "--seeds", "1", "--epochs", "40", "--out", "dem o"], "muc demo --seeds 1 --epochs 40 --out 'dem o'"),
        (["compare", "my run", "--forget-fraction", "0.1"], "muc compare 'my run' --forget-fraction 0.1"),
        (["reproduce", "all", "--out", "my tables"], "muc reproduce all --out 'my tables'"),
        (["resume", "my run"], "muc resume 'my run'"),
        (["audit", "calibrate", "--runs", "my runs"], "muc audit calibrate --runs 'my runs'"),
        (["audit", "redteam"], "muc audit redteam"),
        (["pretrain"], None),
        (["evaluate", "my run"], None),
        (["audit", "plan"], None),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
@pytest.mark.parametrize("saved", [True, False], ids=["saved", "between"])
def test_how_to_go_on_can_be_pasted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], argv: list[str], hint: str | None, saved: bool
) -> None:
    """Only what begins anew when given again says how the run in it goes on, if one was saved."""

    def stopped(_: Any) -> None:
        raise Interrupted("muc resume somewhere") if saved else KeyboardInterrupt

    monkeypatch.setattr("muc.__main__.find_command", lambda _: stopped)
    assert main(argv) == 130
    expected = hint or ("muc resume somewhere" if saved else None)
    ending = f"; nothing is lost. Go on with: {expected}" if expected else ""
    assert capsys.readouterr().err == f"\nmuc: stopped{ending}\n"


def test_a_second_ctrl_c_does_not_say_that_nothing_is_lost(
    copied: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def at_once(*_: Any, **__: Any) -> NoReturn:
        raise KeyboardInterrupt

    monkeypatch.setattr("muc.runs._execute", at_once)
    assert main(["unlearn", "runs/original", "--method", "finetune", "--forget-fraction", "0.2", "--out", "new"]) == 130
    ending = "what was not saved yet is lost. Go on with: muc resume new"
    assert capsys.readouterr().err == f"\nmuc: stopped; {ending}\n"


def raise_error(error: Exception) -> NoReturn:
    raise error


MORE = 1 << 58


@pytest.mark.parametrize(
    ("work", "size"),
    [
        (lambda: torch.empty(MORE), f" for {4 * MORE:,} bytes more"),
        (lambda: np.empty(MORE), " for 2.00 EiB more"),
        (lambda: bytearray(1 << 62), ""),
        (
            lambda: raise_error(torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.50 GiB. GPU 0 has")),
            " for 20.50 GiB more",
        ),
        (lambda: raise_error(RuntimeError("CUDA error: out of memory\nCUDA kernel errors might be")), ""),
        (lambda: raise_error(OSError(errno.ENOMEM, "Cannot allocate memory")), ""),
    ],
    ids=["torch", "numpy", "python", "cuda", "cuda elsewhere", "system"],
)
def test_too_little_memory_is_one_sentence(
    complaint: Callable[..., str], monkeypatch: pytest.MonkeyPatch, work: Callable[[], Any], size: str
) -> None:
    monkeypatch.setenv("RANK", "1")  # it may be so in one process of several
    monkeypatch.setattr("muc.runs.load_images", lambda _: work())
    said = complaint("pretrain", *TINY, "--out", "new")
    assert said.strip() == (
        f"muc: error: there is not enough memory{size}; give a smaller --batch-size, a smaller model or --stream on"
    )


def test_other_faults_of_torch_are_no_want_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    fault = RuntimeError("mat1 and mat2 shapes cannot be multiplied")
    monkeypatch.setattr("muc.__main__.find_command", lambda _: lambda _: raise_error(fault))
    with pytest.raises(RuntimeError, match="mat1"):
        main(["pretrain"])


def test_a_demo_needs_a_seed(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    assert main(["demo", "--seeds", "0", "--out", str(tmp_path / "demo")]) == 2
    assert "seeds is 0" in capsys.readouterr().err
