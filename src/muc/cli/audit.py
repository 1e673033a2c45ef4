"""muc audit: plan, start, verdict, verify; the other steps have files of their own."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Annotated, Literal

import tyro
from tyro.conf import OmitArgPrefixes, Positional

from muc import config
from muc.cli.flags import parse, print_json, say
from muc.errors import UserError, check_name

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
    from muc.audit import EFFECTS
    from muc.audit import plan as planning
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
    if found.images_simulated < flags.images:
        print(f"Power was computed for {found.images_simulated} images; with more it is higher.")
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


# --- verdict and verify ---


@dataclass(frozen=True)
class VerdictFlags:
    audit: Audit
    """The folder of the audit, with both models' answers."""
    reference: Literal["ac", "retrain", "smaller"] = "smaller"
    """What the model owner says was done: 'no change found' has to rule it out (default: both have to be)."""
    json: bool = False
    """Print verdict.json."""


def verdict(argv: Sequence[str]) -> None:
    about = "What may be said from both models' answers; writes verdict.json (signed) and report.html."
    flags = parse(VerdictFlags, argv, "audit verdict", about, "muc audit verdict audit")
    from muc.audit.power import MOST_PLANTED
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
    evidence = found.judgement.verdict.evidence
    if (images := evidence.n_forget + evidence.n_control) > MOST_PLANTED:
        say(f"power was computed for {MOST_PLANTED} of the {images} images; with all of them it is higher")
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
    if more := verifying.unlisted(folder):
        print(f"note   not of the audit, and not checked: {', '.join(more)}")
    judgement = read_verdict(folder).judgement
    print(f"\n{judgement.finding}: {judgement.words}")
    if flags.published is None:
        print(f"Compare with the commitment that was published before: SHA-256 {folder.commitment_digest()}")


def elsewhere(module: str, step: str) -> Callable[[Sequence[str]], None]:
    """A step that has a file of its own."""
    return lambda argv: getattr(import_module(f"muc.cli.{module}"), step)(argv)


STEPS: dict[str, Callable[[Sequence[str]], None]] = {
    "plan": plan,
    "start": start,
    "collect": elsewhere("audit_collect", "collect"),
    "verdict": verdict,
    "verify": verify,
    "look": elsewhere("audit_look", "look"),
    "calibrate": elsewhere("audit_lab", "calibrate"),
    "redteam": elsewhere("audit_lab", "redteam"),
}
