"""muc audit: plan, start, verdict, verify; the other steps have files of their own."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Annotated, Literal

import tyro
from tyro.conf import OmitArgPrefixes, Positional

from muc import config
from muc.cli.flags import parse, print_json, say
from muc.errors import UserError, check_name, printable

Audit = Annotated[Positional[Path], tyro.conf.arg(metavar="AUDIT")]
Images = Annotated[Positional[tuple[Path, ...]], tyro.conf.arg(metavar="IMAGES", help_behavior_hint="(at least one)")]
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
    withheld: int = 0
    """How many images you have, besides, that the model owner never had (see muc audit start --help)."""
    reference: Literal["ac", "retrain"] = "retrain"
    """How large a change: what training without the images does, or Alignment Calibration; in the paper, and on an
    encoder of muc's. A model that remembers less changes less."""
    views: int = 8
    """Random views of each image that each model is asked about."""
    json: bool = False
    """Print JSON."""


def plan(argv: Sequence[str]) -> None:
    about = "What an audit with so many images can find, and how many queries it takes."
    flags = parse(Plan, argv, "audit plan", about, "muc audit plan --images 20")
    from muc.audit import EFFECTS, MEASURED, enough_images
    from muc.audit import plan as planning
    from muc.audit.power import ENOUGH, MOST_SIMULATED
    from muc.audit.protocol.start import terms_for

    config.in_range("images", flags.images, 6, 10_000)
    terms = terms_for(flags.images, None, flags.views, config.Views(), flags.withheld)
    extras = terms.extras + flags.withheld * flags.views
    found, ours = (
        planning(flags.images, e[flags.reference], views=flags.views, extras=extras) for e in (EFFECTS, MEASURED)
    )
    if flags.json:
        print_json({**vars(found), "measured": {k: vars(ours)[k] for k in ("reference", "power", "power_at_best")}})
        return
    print(f"have deleted      {found.n_forget} of {flags.images} images, drawn at random; hold back {found.n_control}")
    for made, words in ((found, "would find        a change"), (ours, "                  one")):
        chance = " to ".join(dict.fromkeys(f"{power:.0%}" for power in sorted((made.power, made.power_at_best))))
        print(f"{words} as large as {made.reference} with probability {chance}")
    least = found.minimal_effect
    print(
        "smallest change   "
        + ("more than 8 times the paper's effect" if least is None else f"{least:.2g} times the paper's effect")
        + " is found with probability 80 %"
    )
    print(f"queries           {found.queries} over both models ({found.queries // 2} each)")
    if found.images_simulated < flags.images:
        print(f"Power was computed for {found.images_simulated} images; with more it is higher.")
    if found.power < ENOUGH:
        more = enough_images(EFFECTS[flags.reference], flags.images)
        at = f"{more} images would" if more else f"not even {MOST_SIMULATED} images would"
        print(f"Give more images if you can: {at} find the paper's change with probability 80 % or more.")
    if not flags.withheld:
        print("Without withheld images an audit can find a change, but hardly ever say that there was none.")


# --- start ---


@dataclass(frozen=True)
class Start:
    images: Images
    """Your images that the model was trained on: picture files, or folders of them."""
    out: Path
    """Folder for the audit; keep it to yourself until the verdict."""
    withheld: tuple[Path, ...] = ()
    """Images of the same kind that the model owner never had, about as many: they show how much the model remembers of
    the others. Without them an audit can say that something changed, but hardly ever that nothing did."""
    forget: int | None = None
    """How many to have deleted (default: half); the others are held back as controls."""
    views: int = 8
    """Random views of each image that each model is asked about."""
    endpoint: str | None = None
    """Address of the embedding endpoint, to take the views from that the model was trained with: it remembers images by
    these. (Nothing is asked about images yet; the key is taken as by muc audit collect.)"""
    key_file: Path | None = None
    """A file that holds the key for it (default: the environment variable MUC_AUDIT_KEY)."""
    augmentation: ViewsFlags = field(default_factory=config.Views)


def start(argv: Sequence[str]) -> None:
    about = (
        "Draw at random which of your images to have deleted, and commit to it. The randomness is the operating "
        "system's: there is no --seed, because who chooses a seed chooses a split."
    )
    flags = parse(Start, argv, "audit start", about, "muc audit start my-images/ --out audit")
    from muc.audit.protocol.start import start as begin
    from muc.pictures.decode import read_image

    if not flags.images:
        raise UserError("no images were given; name picture files or folders of them")
    paths, names = find_images(flags.images)
    withheld = find_images(flags.withheld)
    for path in [*paths, *withheld[0]]:
        read_image(path, 32)  # a broken file is named now, not after the commitment
    augmentation = flags.augmentation if flags.endpoint is None else trained_views(flags)
    folder = begin(paths, names, flags.out, flags.forget, flags.views, augmentation, withheld=withheld)
    terms = folder.commitment().terms
    if flags.endpoint is None and flags.augmentation == config.Views():
        say(
            "The views are the usual ones. A model remembers images by the views it was trained with: an audit with "
            "those sees more (--endpoint asks for them, or give --min-scale and so on)."
        )
    print(f"publish now            {folder.commitment_file}")
    print(f"  its SHA-256          {folder.commitment_digest()}")
    print(f"then ask the model     muc audit collect {folder} --endpoint URL --model before")
    print(f"then request deletion  of the {terms.n_forget} images in {folder.forget_file}, and no others")
    print(f"after the deletion     muc audit collect {folder} --endpoint URL --model after")
    if terms.n_withheld:
        print(
            f"give to nobody         the {terms.n_withheld} withheld images, before the verdict (`collect` sends views)"
        )
    print(f"keep secret            everything else in {folder}: {terms.n_control} images are held back, and whoever")
    print("                       knows which can make the audit say what they like")


def trained_views(flags: Start) -> config.Views:
    """As the endpoint states them; an untrue word costs power, and cannot make a change appear."""
    if flags.augmentation != config.Views():
        raise UserError("--endpoint takes the views from the model; leave out --min-scale and the other views' flags")
    from muc.cli.audit_collect import Collect, endpoint_of

    with ExitStack() as open_connections:
        asked = Collect(flags.out, "before", endpoint=flags.endpoint, key_file=flags.key_file)
        views = endpoint_of(asked, open_connections).about("before").views
    if views is None:
        raise UserError(
            f"the endpoint {flags.endpoint} does not say which views its model was trained with; leave out --endpoint, "
            "or ask the operator and give them as --min-scale and so on"
        )
    return views


def find_images(given: Sequence[Path]) -> tuple[list[Path], list[str]]:
    """The picture files by name, and their names."""
    from muc.data.folders import find_given

    found = sorted(find_given(given))
    return [path for _, path in found], [name for name, _ in found]


# --- verdict and verify ---


@dataclass(frozen=True)
class VerdictFlags:
    audit: Audit
    """The folder of the audit, with both models' answers."""
    reference: Literal["ac", "retrain", "memory"] = "memory"
    """When 'no change found' may be said: if forgetting what this model remembers of the images is ruled out (needs
    withheld images), or, if the model owner says that this was done, what it does in the paper."""
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
    if not any(path.exists() for path in (folder.commitment_file, folder.secret_file, folder.verdict_file)):
        raise UserError(f"there is no audit at {folder}; give the folder of one, as its data owner hands it on")
    results = verifying.verify(folder, flags.published)
    for result in results:
        print(f"{'holds' if result.held else 'FAILS'}  {printable(result.file, 200)}: {result.what}")
    failed = [result for result in results if not result.held]
    if failed:
        raise UserError(f"{len(failed)} of {len(results)} checks fail; the first: {failed[0].what}")
    if more := verifying.unlisted(folder):
        print(f"note   not of the audit, and not checked: {printable(', '.join(more), 2000)}")
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
