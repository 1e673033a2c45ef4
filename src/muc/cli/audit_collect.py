"""muc audit collect: ask the models, wherever they are."""

import os
import shlex
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from muc.cli.audit import Audit, find_images
from muc.cli.flags import parse, say
from muc.errors import Interrupted, UserError

if TYPE_CHECKING:
    from muc.audit.protocol.endpoint import Endpoint


@dataclass(frozen=True)
class Collect:
    audit: Audit
    """The folder of the audit."""
    model: Literal["before", "after"] | None = None
    """Which model to ask: before the deletion is requested, or after it is done (default with --run: both)."""
    endpoint: str | None = None
    """Address of an embedding endpoint, as `muc serve` opens it."""
    key: str | None = None
    """Your key for it. Better in MUC_AUDIT_KEY or a file: what is typed here stays in the shell's history."""
    key_file: Path | None = None
    """A file that holds the key."""
    adapter: Path | None = None
    """For any other endpoint: your Python file that defines embed(pngs, model)."""
    run: Path | None = None
    """For runs on this computer: the run after unlearning."""
    before: Path | None = None
    """… and the run before it."""
    images: tuple[Path, ...] = ()
    """Where your images are now, if they were moved since the start."""


def collect(argv: Sequence[str]) -> None:
    about = "Ask a model about random views of your images. What was cut off goes on, and nothing is asked twice."
    example = "MUC_AUDIT_KEY=… muc audit collect audit --endpoint https://example.org --model before"
    flags = parse(Collect, argv, "audit collect", about, example)
    from muc.audit.protocol import collect as collecting
    from muc.audit.protocol.folder import PHASES, AuditFolder

    folder = AuditFolder(flags.audit)
    folder.commitment()
    paths = moved_images(folder, flags.images) if flags.images else None
    with ExitStack() as resources:
        endpoint = endpoint_of(flags, resources)
        phases = PHASES if flags.model is None else (flags.model,)
        try:
            collecting.check_endpoint(folder, phases, endpoint)
            for phase in phases:

                def report(done: int, total: int, phase: str = phase) -> None:
                    say(f"{phase}: {done} of {total} questions answered")

                collecting.collect(folder, phase, endpoint, paths, report)
        except KeyboardInterrupt:
            raise Interrupted(command(flags, flags.model)) from None
    left = [phase for phase in PHASES if not any(folder.answers.glob(f"{phase}-*.json"))]
    if not left:
        say(f"next: {shlex.join(['muc', 'audit', 'verdict', str(folder)])}")
        return
    when = "when the deletion is done, " if left == ["after"] else ""
    say(f"next: {when}{command(flags, left[0])}")


def command(flags: Collect, model: str | None) -> str:
    """To ask in the same way. A key that was typed is not repeated."""
    ways = ("endpoint", "key_file", "adapter", "run", "before")
    asked = {way: str(where) for way in ways if (where := getattr(flags, way)) is not None}
    asked |= {"model": model} if model else {}
    words = [word for way, where in asked.items() for word in (f"--{way.replace('_', '-')}", where)]
    images = ["--images", *map(str, flags.images)] if flags.images else []
    return shlex.join(["muc", "audit", "collect", str(flags.audit), *words, *images])


def endpoint_of(flags: Collect, resources: ExitStack) -> "Endpoint":
    ways = [name for name in ("endpoint", "adapter", "run") if getattr(flags, name) is not None]
    if len(ways) != 1:
        given = " and ".join(f"--{way}" for way in ways) or "none"
        raise UserError(f"give one of --endpoint, --adapter and --run to say whom to ask; {given} was given")
    if flags.model is None and flags.run is None:
        raise UserError(
            f"with --{ways[0]} say which model to ask: --model before, and when the deletion is done, --model after"
        )
    if flags.endpoint is not None:
        from muc.audit.protocol.http_client import HttpEndpoint

        if flags.endpoint.startswith("http://") and not _is_local(flags.endpoint):
            say("muc: warning: over http:// your key and pictures can be read on the way; ask for https://")
        endpoint = HttpEndpoint(flags.endpoint, key_of(flags), tell=say)
        resources.enter_context(endpoint.client)
        return endpoint
    if flags.adapter is not None:
        from muc.audit.protocol.adapter import Adapter

        return Adapter(flags.adapter)
    if flags.before is None or flags.run is None:
        raise UserError("--run names the run after unlearning; give the one before it with --before")
    from muc.cli.local_endpoint import LocalEndpoint

    return LocalEndpoint(flags.before, flags.run)


def _is_local(url: str) -> bool:
    from urllib.parse import urlsplit

    return urlsplit(url).hostname in ("localhost", "127.0.0.1", "::1")


def key_of(flags: Collect) -> str:
    if flags.key is not None:
        return flags.key
    if flags.key_file is not None:
        try:
            return flags.key_file.read_text().strip()
        except (OSError, ValueError):
            raise UserError(f"the key file '{flags.key_file}' cannot be read; give a text file that holds it") from None
    if key := os.environ.get("MUC_AUDIT_KEY", "").strip():
        return key
    raise UserError("there is no key; put it into the environment variable MUC_AUDIT_KEY, or give --key-file")


def moved_images(folder: Any, given: Sequence[Path]) -> list[Path]:
    """The audit's images among these files, by their content."""
    from muc.audit.protocol.records import digest, read_bytes

    paths, _ = find_images(given)
    known = {digest(read_bytes(path)): path for path in paths}
    images = folder.secret().asked
    if missing := [image.name for image in images if image.sha256 not in known]:
        raise UserError(f"the image '{missing[0]}' of the audit is not among the files given with --images; add it")
    return [known[image.sha256] for image in images]
