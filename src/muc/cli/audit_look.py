"""muc audit look."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro
from tyro.conf import Positional

from muc.cli.flags import parse, print_json, say
from muc.errors import UserError


@dataclass(frozen=True)
class AuditLook:
    before: Annotated[Positional[Path], tyro.conf.arg(metavar="BEFORE")]
    """The run before unlearning."""
    after: Annotated[Positional[Path], tyro.conf.arg(metavar="AFTER")]
    """The run after unlearning."""
    images: tuple[Path, ...]
    """The owner's images: picture files, or a folder of them."""
    out: Path = Path("look")
    """Folder for look.json and look.png."""
    view_pairs: int = 8
    """How many pairs of random views of each image are averaged (the paper uses 1)."""
    seed: int = 0
    json: bool = False
    """Print the matrices as JSON."""


def look(argv: Sequence[str]) -> None:
    about = (
        "What a data owner sees from outside: how alike two models find the owner's images, before and after, as "
        "pictures and numbers, from the models' embeddings alone. It shows; it does not judge."
    )
    example = "muc audit look runs/moco runs/moco-alignment_calibration --images mine/*.png"
    flags = parse(AuditLook, argv, "audit look", about, example)
    from muc.audit import look as looking
    from muc.data.sources import read_owner_images
    from muc.opening import embedder
    from muc.report.heatmaps import look_figure
    from muc.run_folder import RunFolder
    from muc.storage import prepare_folder, replacing, write_json

    prepare_folder(flags.out)
    before, after = embedder(RunFolder(flags.before)), embedder(RunFolder(flags.after))
    if before.input_shape != after.input_shape:
        raise UserError(
            f"{flags.before} takes {before.input_shape} images (channels, side) and {flags.after} {after.input_shape}; "
            "compare a model with its own successor"
        )
    pixels, names = read_owner_images(flags.images, *before.input_shape)
    seen = looking(before, after, pixels, before.views, names, flags.view_pairs, flags.seed)
    write_json(flags.out / "look.json", seen.to_json())
    with replacing(flags.out / "look.png") as f:
        f.write(look_figure(seen.to_json(), pixels))
    print_json(seen.to_json()) if flags.json else print_look(seen)
    say(f"pictures: {flags.out / 'look.png'}")


def print_look(seen: Any) -> None:
    print(f"positive alignment  {seen.positive_alignment_before:.4f} -> {seen.positive_alignment_after:.4f}")
    print(f"negative alignment  {seen.negative_alignment_before:.4f} -> {seen.negative_alignment_after:.4f}")
    print(f"negative-alignment gap {seen.negative_alignment_gap:+.4f}")
    for name, score in zip(seen.names, seen.forgetting_scores, strict=True):
        print(f"forgetting score {score:+.4f}  {name}")
