"""muc serve, and muc serve keys."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro
from tyro.conf import Positional

from muc import config
from muc.cli.flags import Run, RuntimeFlags, parse, print_json, run_at, say
from muc.errors import UserError, check_name

if TYPE_CHECKING:
    from muc.serve.keys import KeyFile


@dataclass(frozen=True)
class Serve:
    run: Run
    """The original run, before unlearning. Keys are kept with it: muc serve keys add RUN --name NAME."""
    after: Path | None = None
    """The run after unlearning (default: nothing is unlearned yet, and the original answers as both)."""
    host: str = "127.0.0.1"
    """Address to listen on. Others than this machine's own need TLS in front."""
    port: int = 8000
    """Port to listen on; 0 takes any that is free."""
    runtime: RuntimeFlags = field(default_factory=config.Runtime)


def serve(argv: Sequence[str]) -> None:
    if argv[:1] == ["keys"]:
        keys(argv[1:])
        return
    about = (
        "Answer data owners: vectors of their images, from a model before and after unlearning, for those who have a "
        "key. The same keys open both. Keys: muc serve keys add|budget|list|revoke RUN."
    )
    flags = parse(Serve, argv, "serve", about, "muc serve runs/moco --after runs/moco-alignment_calibration")
    before, after = run_at(flags.run), run_at(flags.after) if flags.after else None
    from muc.serve.server import serve as run_server

    run_server(before, after, flags.host, flags.port, flags.runtime, say)


Named = Annotated[str, tyro.conf.arg(metavar="NAME")]


@dataclass(frozen=True)
class AddKey:
    run: Annotated[Positional[Path], tyro.conf.arg(metavar="RUN")]
    """The original run that is served."""
    name: Named
    """Whom the key is for."""
    budget: int = 2000
    """How many pictures may be embedded, both models together. 40 images and 20 withheld ones take the page 1600, `muc
    audit` 1080 (see `muc audit plan`), and more where a connection breaks."""


@dataclass(frozen=True)
class SetBudget:
    run: Annotated[Positional[Path], tyro.conf.arg(metavar="RUN")]
    """The original run that is served."""
    name: Named
    """Whose key."""
    budget: int
    """How many images may be embedded in all, both models together; those embedded already count."""


@dataclass(frozen=True)
class RevokeKey:
    run: Annotated[Positional[Path], tyro.conf.arg(metavar="RUN")]
    """The original run that is served."""
    name: Named
    """Whose key."""


@dataclass(frozen=True)
class ListKeys:
    run: Annotated[Positional[Path], tyro.conf.arg(metavar="RUN")]
    """The original run that is served."""
    json: bool = False
    """Print JSON."""


def keys(argv: Sequence[str]) -> None:
    if not argv:
        raise UserError(f"muc serve keys needs a step; give one of {', '.join(KEY_STEPS)}")
    step = "list" if argv[0] in ("-h", "--help") else check_name("step", argv[0], KEY_STEPS)
    KEY_STEPS[step](argv[1:] if argv[0] == step else argv)


def add_key(argv: Sequence[str]) -> None:
    about = "Make a key for a data owner. It is printed once; only its hash is kept."
    flags = parse(AddKey, argv, "serve keys add", about, "muc serve keys add runs/moco --name alice")
    token = key_file(flags.run).add(flags.name, flags.budget)
    say(f"the key of {flags.name}, for {flags.budget} images; it is shown this once:")
    print(token)


def set_budget(argv: Sequence[str]) -> None:
    about = "Raise a key's budget, or lower it, on a running server too. The key stays the same."
    flags = parse(
        SetBudget, argv, "serve keys budget", about, "muc serve keys budget runs/moco --name alice --budget 800"
    )
    key = key_file(flags.run).set_budget(flags.name, flags.budget)
    say(f"{key.name}: {key.left} of {key.budget} images left")


def revoke_key(argv: Sequence[str]) -> None:
    about = "From now on a key opens nothing, on a running server too."
    flags = parse(RevokeKey, argv, "serve keys revoke", about, "muc serve keys revoke runs/moco --name alice")
    key = key_file(flags.run).revoke(flags.name)
    say(f"revoked: {key.name}, {key.used} of {key.budget} images used")


def list_keys(argv: Sequence[str]) -> None:
    about = "The keys of a run and what is left of their budgets. Also: muc serve keys add|budget|revoke."
    flags = parse(ListKeys, argv, "serve keys list", about, "muc serve keys list runs/moco")
    found = key_file(flags.run).all()
    if flags.json:
        shown = ("id", "name", "budget", "used", "created", "revoked")
        print_json([{name: getattr(key, name) for name in shown} for key in found])
        return
    for key in found:
        state = f"revoked {key.revoked}" if key.revoked else f"{key.left} of {key.budget} left"
        print(f"{key.name}  {state}  (created {key.created})")
    if not found:
        say("no keys")


def key_file(run: Path) -> "KeyFile":
    from muc.run_folder import RunFolder
    from muc.serve.keys import KeyFile

    RunFolder(run).result()  # a sentence where there is no finished run
    return KeyFile(run)


KEY_STEPS: dict[str, Callable[[Sequence[str]], None]] = {
    "add": add_key,
    "budget": set_budget,
    "list": list_keys,
    "revoke": revoke_key,
}
