"""muc reproduce."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro

from muc import config
from muc.cli.flags import RuntimeFlags, parse
from muc.errors import UserError, check_name
from muc.reproduce import RECIPES


@dataclass(frozen=True)
class Reproduce:
    name: Annotated[str, tyro.conf.Positional] = ""
    """Which table or figure; --list shows them."""
    list: bool = False
    """Show what can be reproduced."""
    out: Path | None = None
    """Folder for the table and its raw numbers (default: reproduced/NAME)."""
    methods: tuple[str, ...] = ()
    """Only these methods."""
    algorithm: str = "moco"
    """simclr or moco."""
    smoke: bool = False
    """The same path with tiny settings: minutes on a CPU, meaningless numbers."""
    runtime: RuntimeFlags = field(default_factory=config.Runtime)


def reproduce(argv: Sequence[str]) -> None:
    about = "Make one of the paper's tables or figures again, beside the paper's numbers."
    flags = parse(Reproduce, argv, "reproduce", about, "muc reproduce time-memory --device cuda")
    if flags.list or not flags.name:
        print("\n".join(f"{name:16} {what}" for name, (_, what) in RECIPES.items()))
        if not flags.list:
            raise UserError("no table or figure was named; give one of those above")
        return
    name = check_name("table or figure", flags.name, RECIPES)
    check_name("algorithm", flags.algorithm, config.ALGORITHMS)
    from muc.report.render import print_terminal
    from muc.reproduce import recipe

    out = flags.out or Path("reproduced") / name
    print_terminal(recipe(name)(out, flags.methods, flags.runtime, flags.smoke, flags.algorithm))
