"""muc import, export, runs."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Literal

import tyro
from tyro.conf import Positional

from muc import config
from muc.cli.flags import PretrainingFlags, Run, RuntimeFlags, parse, print_json, run_at, say
from muc.errors import UserError


@dataclass(frozen=True, kw_only=True)
class Import(PretrainingFlags):
    file: Annotated[Positional[Path], tyro.conf.arg(metavar="FILE")]
    """Weights: .safetensors, or a PyTorch, lightly or timm checkpoint (.pt, .pth, .ckpt, .bin); with --algorithm clip:
    of open_clip (say which: --architecture open_clip/ViT-B-32), or the folder of a Hugging Face CLIPModel."""
    runtime: RuntimeFlags = field(default_factory=config.Runtime)
    out: Path | None = None
    """The run folder to make (default: runs/FILE's name)."""
    force: bool = False
    """Replace a run that is there."""


def import_(argv: Sequence[str]) -> None:
    about = "Make a run of your own encoder, so that everything else works on it. Say how it was trained, and on what."
    example = (
        "muc import encoder.ckpt --architecture resnet18 --algorithm moco --data cifar10\n"
        "         muc import clip-vit-base-patch32 --algorithm clip --data PAIRS --image-size 224"
    )
    default = Import.recipe(argv, file=tyro.MISSING)
    # It was trained on all of them, unless one says otherwise: none may pass for images that it never saw.
    default = replace(default, data=replace(default.data, validation_fraction=0.0))
    flags = parse(Import, argv, "import", about, example, default)
    from muc.models.exporting import description_of
    from muc.models.importing import import_run

    out = flags.out or Path("runs") / flags.file.resolve().stem
    run, summary = import_run(flags.file, flags.settings(), out, flags.runtime, flags.force)
    print(summary.describe())
    if flags.model.algorithm != "clip":
        takes = description_of(run)["input"]
        say(
            f"note: images reach it scaled to [0, 1], then normalised by mean {numbers(takes['mean'])} and deviation "
            f"{numbers(takes['std'])}; if it was trained with others, import it again with --mean and --std"
        )
    say(f"done: {run}")


@dataclass(frozen=True)
class Export:
    run: Run
    """The run whose encoder to hand out."""
    to: Literal["safetensors", "onnx", "torchvision"] = "safetensors"
    """safetensors: in the naming it was imported with (of CLIP both towers; only open_clip's can be imported again);
    torchvision: torchvision's names; onnx: to run anywhere (of CLIP the image tower)."""
    out: Path | None = None
    """File to write (default: RUN.safetensors, RUN.onnx or RUN-torchvision.safetensors)."""
    force: bool = False
    """Replace a file that is there."""


def export(argv: Sequence[str]) -> None:
    about = "Hand the encoder back as a file."
    flags = parse(Export, argv, "export", about, "muc export runs/moco-alignment_calibration --to onnx")
    run = run_at(flags.run)
    from muc.models.exporting import description_of, export_run

    suffix = ".onnx" if flags.to == "onnx" else ".safetensors"
    kind = "-torchvision" if flags.to == "torchvision" else ""
    out = flags.out or flags.run.with_name(flags.run.name + kind + suffix)
    if {out.suffix, suffix} == {".onnx", ".safetensors"}:
        raise UserError(f"--out {out} is named as another kind of file than --to {flags.to} writes; call it …{suffix}")
    print(export_run(run, flags.to, out, flags.force))
    found = description_of(run)
    takes = found["input"]
    say(
        f"it takes images of {takes['channels']} channels, scaled to [0, 1], then normalised by mean "
        f"{numbers(takes['mean'])} and deviation {numbers(takes['std'])}"
    )
    if flags.to == "torchvision":
        changed = ["fc = Identity()"]
        if not found["architecture"].startswith(config.TIMM):
            changed += ["conv1 = Conv2d(channels, 64, 3, padding=1, bias=False)", "maxpool = Identity()"]
        if not found["stem_relu"]:  # torchvision uses self.relu there alone
            changed.append("relu = Identity()")
        say(f"for torchvision's ResNet with {', '.join(changed)}")


def numbers(values: Sequence[float]) -> str:
    """As --mean and --std take them."""
    return " ".join(map(str, values))


@dataclass(frozen=True)
class ListRuns:
    folder: Annotated[Positional[Path], tyro.conf.arg(metavar="DIR")] = Path("runs")
    """Where to look for runs."""
    json: bool = False
    """Print JSON."""


def list_runs(argv: Sequence[str]) -> None:
    flags = parse(
        ListRuns, argv, "runs", "List the runs below a folder: what, from which, when, state.", "muc runs runs"
    )
    from muc.listing import list_runs as find

    rows = find(flags.folder)
    if flags.json:
        print_json(rows)
        return
    names = ("run", "what", "data", "from", "when", "state")
    table = [names, *([str(row[name]) for name in names] for row in rows)]
    widths = [max(len(line[i]) for line in table) for i in range(len(names))]
    for line in table:  # not wrapped or shortened, however long: paths are there to be copied
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
