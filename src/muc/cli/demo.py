"""muc demo."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from muc.cli.flags import parse, say
from muc.errors import UserError


@dataclass(frozen=True)
class Demo:
    out: Path | None = None
    """Folder for results.json, report.html and the runs (default: demo, for other algorithms demo-ALGORITHM); a demo
    that was cut off goes on there."""
    algorithm: Literal["simclr", "moco", "clip"] | None = None
    """What is trained (default: simclr)."""
    clip: bool = False
    """Of image-text pairs (letters and their names): the same as --algorithm clip."""
    seeds: int = 4
    """How many trials, so that every number has its spread."""
    epochs: int | None = None
    """Pretrain for fewer epochs (for a quick look; less is memorised then)."""


def demo(argv: Sequence[str]) -> None:
    about = (
        "The paper's story on real images in minutes of CPU: an encoder is trained, a request for deletion arrives, "
        "several methods serve it, and one page shows which comes closest to retraining and what a data owner sees."
    )
    flags = parse(Demo, argv, "demo", about, "muc demo --out demo")
    if flags.clip and flags.algorithm not in (None, "clip"):
        raise UserError(f"--clip is --algorithm clip, and --algorithm {flags.algorithm} was given; give one of the two")
    from muc.demo import run_demo

    algorithm = flags.algorithm or ("clip" if flags.clip else "simclr")
    out = flags.out or Path("demo" if algorithm == "simclr" else f"demo-{algorithm}")
    page = run_demo(out, algorithm, flags.seeds, flags.epochs)
    print((out / "tables.md").read_text())
    say(f"open {page}")
