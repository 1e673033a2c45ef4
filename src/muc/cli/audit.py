"""muc audit: look, plan, start, collect, verdict, verify."""

import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro
from tyro.conf import OmitArgPrefixes, Positional

from muc import config
from muc.cli.flags import parse, print_json, say
from muc.errors import Interrupted, UserError, check_name

if TYPE_CHECKING:
    from muc.audit.protocol.endpoint import Endpoint

Audit = Annotated[Positional[Path], tyro.conf.arg(metavar="AUDIT")]
Images = Annotated[Positional[tuple[Path, ...]], tyro.conf.arg(metavar="IMAGES")]
ViewsFlags = OmitArgPrefixes[config.Views]

HELP = """\
usage: muc audit STEP …        muc audit STEP --help

Did a model's treatment of your images change more than chance allows? From embeddings alone, before and after.

  plan      what can be found with so many images, and what it costs
  start     draw at random which images to have deleted, and commit to it
  collect   ask the model before and the model after
  verdict   what may be said, as a signed file and a page
  verify    check somebody's audit from its files
  look      only look at two runs: similarity before and after, no verdict

  calibrate, redteam    the audit itself put to the test

Example: muc audit start my-images/ --out audit
"""


def audit(argv: Sequence[str]) -> None:
    if not argv or argv[0] in ("-h", "--help", "help"):
        print(HELP)
        if not argv:
            raise SystemExit(2)
        return
    STEPS[check_name("audit step", argv[0], STEPS)](argv[1:])


# --- plan ---


@dataclass(frozen=True)
class Plan:
    images: int
    """How many images you have: those to delete and those to hold back, together."""
    reference: Literal["ac", "retrain"] = "ac"
    """What the model owner says is done: Alignment Calibration, or training without the images (harder to see)."""
    views: int = 8
    """Random views of each image that each model is asked about."""
    json: bool = False
    """Print JSON."""


def plan(argv: Sequence[str]) -> None:
    about = "What an audit with so many images can find, and how many queries it takes."
    flags = parse(Plan, argv, "audit plan", about, "muc audit plan --images 20")
    from muc.audit import plan as planning
    from muc.audit.protocol.judge import EFFECTS
    from muc.audit.protocol.start import terms_for

    config.in_range("images", flags.images, 6, 10_000)
    terms = terms_for(flags.images, None, flags.views, config.Views())
    found = planning(flags.images, EFFECTS[flags.reference], views=flags.views, extras=terms.extras)
    if flags.json:
        print_json(vars(found))
        return
    print(f"have deleted      {found.n_forget} of {flags.images} images, drawn at random; hold back {found.n_control}")
    chance = f"{found.power:.0%} to {found.power_at_best:.0%}"
    print(f"would find        a change as large as {found.reference} with probability {chance}")
    least = found.minimal_effect
    print(
        "smallest change   "
        + ("more than 8 times that effect" if least is None else f"{least:.2g} times that effect")
        + " is found with probability 80 %"
    )
    print(f"queries           {found.queries} over both models ({found.queries // 2} each)")
    if found.power < 0.8:
        print("With so few images, a verdict of 'no change found' is unlikely to be possible; give more if you can.")


# --- start ---


@dataclass(frozen=True)
class Start:
    images: Images
    """Your images that the model was trained on: picture files, or folders of them."""
    out: Path
    """Folder for the audit; keep it to yourself until the verdict."""
    forget: int | None = None
    """How many to have deleted (default: half); the others are held back as controls."""
    views: int = 8
    """Random views of each image that each model is asked about."""
    augmentation: ViewsFlags = field(default_factory=config.Views)


def start(argv: Sequence[str]) -> None:
    about = (
        "Draw at random which of your images to have deleted, and commit to it. The randomness is the operating "
        "system's: there is no --seed, because who chooses a seed chooses a split."
    )
    flags = parse(Start, argv, "audit start", about, "muc audit start my-images/ --out audit")
    from muc.audit.protocol.start import start as begin
    from muc.data.files import read_image

    if not flags.images:
        raise UserError("no images were given; name picture files or folders of them")
    paths, names = find_images(flags.images)
    for path in paths:
        read_image(path, 32)  # a broken file is named now, not after the commitment
    folder = begin(paths, names, flags.out, flags.forget, flags.views, flags.augmentation)
    terms = folder.commitment().terms
    print(f"publish now            {folder.commitment_file}")
    print(f"  its SHA-256          {folder.commitment_digest()}")
    print(f"then ask the model     muc audit collect {folder} --endpoint URL --model before")
    print(f"then request deletion  of the {terms.n_forget} images in {folder.forget_file}, and no others")
    print(f"after the deletion     muc audit collect {folder} --endpoint URL --model after")
    print(f"keep secret            everything else in {folder}: {terms.n_control} images are held back, and whoever")
    print("                       knows which can make the audit say what they like")


def find_images(given: Sequence[Path]) -> tuple[list[Path], list[str]]:
    """The picture files, and a name for each: as the path goes on below the folder that was given."""
    from muc.data.sources import IMAGE_SUFFIXES

    found: list[tuple[str, Path]] = []
    for path in given:
        if not path.exists():
            raise UserError(f"there is no image '{path}'; give picture files or a folder of them")
        if path.is_dir():
            inside = [p for p in path.rglob("*") if p.suffix.lower() in IMAGE_SUFFIXES and p.is_file()]
            if not inside:
                raise UserError(f"the folder '{path}' holds no images ({', '.join(IMAGE_SUFFIXES)})")
            found += [(p.relative_to(path).as_posix(), p) for p in inside]
        else:
            found.append((path.name, path))
    found.sort()
    return [path for _, path in found], [name for name, _ in found]


# --- collect ---


@dataclass(frozen=True)
class Collect:
    audit: Audit
    """The folder of the audit."""
    model: Literal["before", "after"] | None = None
    """Which model to ask (default: both, where there is no choice of time)."""
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
    with ExitStack() as open_connections:
        endpoint = endpoint_of(flags, open_connections)
        for phase in PHASES if flags.model is None else (flags.model,):

            def report(done: int, total: int, phase: str = phase) -> None:
                say(f"{phase}: {done} of {total} questions answered")

            try:
                collecting.collect(folder, phase, endpoint, paths, report)
            except KeyboardInterrupt:
                raise Interrupted("the same muc audit collect") from None
    left = [phase for phase in PHASES if not any(folder.answers.glob(f"{phase}-*.json"))]
    say(f"next: muc audit collect {folder} --model {left[0]}" if left else f"next: muc audit verdict {folder}")


def endpoint_of(flags: Collect, open_connections: ExitStack) -> "Endpoint":
    ways = [name for name in ("endpoint", "adapter", "run") if getattr(flags, name) is not None]
    if len(ways) != 1:
        given = " and ".join(f"--{way}" for way in ways) or "none"
        raise UserError(f"give one of --endpoint, --adapter and --run to say whom to ask; {given} was given")
    if flags.endpoint is not None:
        from muc.audit.protocol.http_client import HttpEndpoint

        if flags.endpoint.startswith("http://") and not _is_local(flags.endpoint):
            say("muc: warning: over http:// your key and pictures can be read on the way; ask for https://")
        endpoint = HttpEndpoint(flags.endpoint, key_of(flags))
        open_connections.enter_context(endpoint.client)
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
    images = folder.secret().images
    if missing := [image.name for image in images if image.sha256 not in known]:
        raise UserError(f"the image '{missing[0]}' of the audit is not among the files given with --images; add it")
    return [known[image.sha256] for image in images]


# --- verdict and verify ---


@dataclass(frozen=True)
class VerdictFlags:
    audit: Audit
    """The folder of the audit, with both models' answers."""
    reference: Literal["ac", "retrain", "smaller"] = "smaller"
    """What the model owner says was done: decides when 'no change found' may be said (default: the harder to see)."""
    json: bool = False
    """Print verdict.json."""


def verdict(argv: Sequence[str]) -> None:
    about = "What may be said from both models' answers; writes verdict.json (signed) and report.html."
    flags = parse(VerdictFlags, argv, "audit verdict", about, "muc audit verdict audit")
    from muc.audit.protocol.folder import AuditFolder
    from muc.audit.protocol.publish import publish
    from muc.report.audit_page import audit_page

    folder = AuditFolder(flags.audit)
    found = publish(folder, audit_page, flags.reference)
    if flags.json:
        print(folder.verdict_file.read_text(), end="")
    else:
        print(found.judgement.finding)
        print(found.judgement.words)
    say(f"report: {folder.report_file}; for others to check: everything in {folder} but private/")


@dataclass(frozen=True)
class Verify:
    audit: Audit
    """The folder of an audit, yours or somebody's; the private key is not needed."""
    published: Path | None = None
    """The commitment.json that was published before the audit: whether it is this audit's."""


def verify(argv: Sequence[str]) -> None:
    about = "Check an audit from its files: signatures, the committed split, every hash, and all numbers once more."
    flags = parse(Verify, argv, "audit verify", about, "muc audit verify audit --published commitment.json")
    from muc.audit.protocol import verify as verifying
    from muc.audit.protocol.folder import AuditFolder
    from muc.audit.protocol.publish import read_verdict

    folder = AuditFolder(flags.audit)
    results = verifying.verify(folder, flags.published)
    for result in results:
        print(f"{'holds' if result.held else 'FAILS'}  {result.file}: {result.what}")
    failed = [result for result in results if not result.held]
    if failed:
        raise UserError(f"{len(failed)} of {len(results)} checks fail; the first: {failed[0].what}")
    judgement = read_verdict(folder).judgement
    print(f"\n{judgement.finding}: {judgement.words}")
    if flags.published is None:
        print(f"Compare with the commitment that was published before: SHA-256 {folder.commitment_digest()}")


# --- look ---


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
    from muc.report.figures import look_figure
    from muc.runs import embedder
    from muc.storage import RunFolder, replacing, write_json

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


def lab(step: str) -> Callable[[Sequence[str]], None]:
    """The audit itself put to the test; a command of its own file."""

    def run(argv: Sequence[str]) -> None:
        from muc.cli import audit_lab

        getattr(audit_lab, step)(argv)

    return run


STEPS: dict[str, Callable[[Sequence[str]], None]] = {
    "plan": plan,
    "start": start,
    "collect": collect,
    "verdict": verdict,
    "verify": verify,
    "look": look,
    "calibrate": lab("calibrate"),
    "redteam": lab("redteam"),
}
