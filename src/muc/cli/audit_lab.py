"""muc audit calibrate, muc audit redteam: the audit itself put to the test."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from muc.cli.flags import parse, say
from muc.config import in_range
from muc.errors import UserError, check_name

RUNS = Path("runs/audit-lab")
RESULTS = Path("results/audit")
SMOKE_RESULTS = RUNS / "smoke"
"""Results that are about nothing must not take the place of those that the docs quote."""


@dataclass(frozen=True)
class Calibrate:
    data: Literal["glyphs", "digits"] = "glyphs"
    pairs: int = 20
    """Pairs of encoders, each of two seeds; no encoder is in two of them."""
    audits: int = 200
    """Audits for each pair, each kind of owner and each number of images (5, 10, 20)."""
    runs: Path = RUNS
    """Folder for the encoders; those that are there already are taken."""
    out: Path | None = None
    """Folder for calibration.json and calibration.md (default: results/audit; with --smoke, runs/audit-lab/smoke)."""
    figure: Path | None = None
    """Where the figure goes (default: calibration.png in --out)."""
    epochs: int | None = None
    """Train encoders for fewer epochs (for a quick look; less is memorised then)."""
    seed: int = 0
    smoke: bool = False
    """Two pairs, hardly trained, and 40 audits: does it run at all?"""


def calibrate(argv: Sequence[str]) -> None:
    about = (
        "How often does each test of the audit cry 'changed' where nothing was unlearned? Trains encoders of the same "
        "images with different seeds, swaps them, and simulates thousands of audits."
    )
    flags = parse(Calibrate, argv, "audit calibrate", about, "muc audit calibrate --pairs 20")
    in_range("--pairs", flags.pairs, 1, 10_000)
    in_range("--audits", flags.audits, 1, 1_000_000)
    in_range("--seed", flags.seed, 0, 2**63)
    from muc.audit_lab import calibrate as lab
    from muc.audit_lab.calibration_report import figure, table
    from muc.audit_lab.encoders import lab_settings, train_encoders
    from muc.report.render import markdown, print_terminal
    from muc.storage import prepare_folder, replacing, write_json, write_text

    out = flags.out or (SMOKE_RESULTS if flags.smoke else RESULTS)
    picture = flags.figure or out / "calibration.png"
    prepare_folder(out)
    prepare_folder(picture.parent)
    pairs, audits, epochs = (2, 5, 2) if flags.smoke else (flags.pairs, flags.audits, flags.epochs)
    sizes, folder = ((5, 10), f"smoke-{flags.data}") if flags.smoke else (lab.SIZES, flags.data)
    encoders = train_encoders(lab_settings(flags.data, epochs), 2 * pairs, flags.runs / folder)
    seen = list(lab.exchanges(encoders))
    found = lab.calibrate(seen, flags.data, audits, sizes=sizes, seed=flags.seed)
    write_json(out / "calibration.json", found.to_json())
    write_text(out / "calibration.md", markdown(table(found)))
    with replacing(picture) as f:
        f.write(figure(found))
    print_terminal(table(found))
    say(f"results: {out / 'calibration.json'}, figure: {picture}")


@dataclass(frozen=True)
class RedTeam:
    run: Path | None = None
    """Attack this pretrained run instead of small encoders (needs its data; a GPU helps: Retrain trains anew)."""
    retrained: Path | None = None
    """A finished Retrain of --run: its request is that of every round, and nobody trains Retrain anew."""
    swap: Path | None = None
    """A finished pretrained run of the same data as --run and another seed, for those who swap models."""
    data: Literal["glyphs", "digits"] = "glyphs"
    encoders: int = 4
    """Encoders (seeds); as many again serve those who swap models."""
    rounds: int = 5
    """Rounds for each encoder: in each, other owners ask for deletion."""
    owners: int = 4
    """How many ask in a round; even, because two are also audited as one."""
    images: int = 10
    """Images each owner has deleted, and as many held back."""
    checks: tuple[str, ...] = ()
    """Only these counter-measures beside controls and fresh crops: repeats, near_duplicates, decoys, second_key,
    borders."""
    without: tuple[str, ...] = ()
    """Model owners to leave out, by name; 'Retrain' and 'seed swap' train anew unless --retrained and --swap are
    given."""
    runs: Path = RUNS
    """Folder for the encoders and unlearned models; those that are there already are taken."""
    out: Path | None = None
    """Folder for redteam.json and redteam.md (default: results/audit; with --smoke, runs/audit-lab/smoke)."""
    epochs: int | None = None
    """Train encoders for fewer epochs (for a quick look; less is memorised then)."""
    device: str | None = None
    """Where to compute (default: cpu for small encoders, auto for --run)."""
    smoke: bool = False
    """One encoder, hardly trained, and one round: does it run at all?"""


def redteam(argv: Sequence[str]) -> None:
    about = (
        "Which model owners does the audit believe? Three serve the request honestly, fourteen cheat: swapped seeds, "
        "API shims, routing, faked traces. One table says what every test and counter-measure is worth."
    )
    flags = parse(RedTeam, argv, "audit redteam", about, "muc audit redteam --encoders 4 --rounds 5")
    in_range("--encoders", flags.encoders, 1, 10_000)
    in_range("--rounds", flags.rounds, 1, 10_000)
    in_range("--images", flags.images, 4, 10_000)
    if flags.owners < 2 or flags.owners % 2:
        raise UserError(f"{flags.owners} owners cannot be joined two by two; give an even number of --owners")
    if flags.run is None and (flags.retrained or flags.swap):
        raise UserError("--retrained and --swap are runs that belong to the encoder of --run; give that, too")
    from muc.audit_lab.asking import CHECKS
    from muc.audit_lab.encoders import lab_settings, open_encoder, train_encoders
    from muc.audit_lab.given_runs import open_retrained, open_swap
    from muc.audit_lab.model_owners import MODEL_OWNERS
    from muc.audit_lab.redteam import red_team
    from muc.audit_lab.redteam_report import markdown, sizes, verdict_table
    from muc.config import Runtime
    from muc.report.render import print_terminal
    from muc.run_folder import RunFolder
    from muc.storage import prepare_folder, write_json, write_text

    checks = tuple(check_name("counter-measure", name, CHECKS) for name in flags.checks) or tuple(CHECKS)
    names = [owner.name for owner in MODEL_OWNERS]
    left_out = {check_name("model owner", name, names) for name in flags.without}
    owners = [owner for owner in MODEL_OWNERS if owner.name not in left_out]
    runtime = Runtime(device=flags.device or "auto") if flags.run else Runtime(device=flags.device or "cpu", threads=1)
    out = flags.out or (SMOKE_RESULTS if flags.smoke else RESULTS)
    prepare_folder(out)
    retrained = None
    count, rounds, epochs = (1, 1, 2) if flags.smoke else (flags.encoders, flags.rounds, flags.epochs)
    if flags.run:
        run = RunFolder(flags.run)
        retrained = open_retrained(RunFolder(flags.retrained), run, runtime) if flags.retrained else None
        swaps = [open_swap(RunFolder(flags.swap), run, runtime)] if flags.swap else []
        chosen = [open_encoder(run, runtime)]
        folder = flags.runs / "redteam" / flags.run.resolve().name
    else:
        name = f"smoke-{flags.data}" if flags.smoke else flags.data
        found = train_encoders(lab_settings(flags.data, epochs), 2 * count, flags.runs / name)
        opened = [open_encoder(run, runtime) for run in found]
        chosen, swaps, folder = opened[:count], opened[count:], flags.runs / "redteam" / name
    result = red_team(chosen, folder, rounds, flags.images, runtime, swaps, owners, checks, flags.owners, retrained)
    write_json(out / "redteam.json", result.to_json())
    write_text(out / "redteam.md", markdown(result))
    for size in sizes(result):
        print_terminal(verdict_table(size))
    say(f"every test and check: {out / 'redteam.md'}, results: {out / 'redteam.json'}")
