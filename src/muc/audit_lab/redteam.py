"""Rounds in which owners ask for deletion, model owners serve or cheat, and every test and counter-measure judges.

In a round several owners ask at once, each for N of their N + M images; the service answers all of them. The small
audits (N = M) of a round are joined two by two into large ones, of the same answers.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from muc.audit import Effect, Embed, decide_by_memory, hold_back_test, memory_of, planted_power
from muc.audit.hold_back import ALPHA
from muc.audit.verdict import CHANGED, INCONCLUSIVE, NO_CHANGE, UNCHANGED
from muc.audit_lab.asking import CHECKS, Answers, Questions, put, questions, some_crops
from muc.audit_lab.encoders import Encoder
from muc.audit_lab.given_runs import Retrained
from muc.audit_lab.judging import DRAWS, controlled_p_values, uncontrolled
from muc.audit_lab.model_owners import MODEL_OWNERS, Desk, ModelOwner, pretrained_again
from muc.audit_lab.owners import Owner
from muc.audit_lab.rates import Rate, rate_of
from muc.audit_lab.rounds import OWNERS, Office, joined, rounds_of
from muc.config import Runtime
from muc.errors import UserError
from muc.progress import meter

DECOYS = 20
POWER_REPETITIONS = 50
REFUSED = "refused"
"""A verdict beside the audit's three: the answers contradict each other, so no model is behind them."""

DEFENCES = {
    "pair_t": "t-test over pairs (the paper's)",
    "jackknife": "jackknife",
    "disjoint_pairs": "disjoint pairs",
    "hold_back_plain": "hold-back, plain images",
    "hold_back": "hold-back, fresh crops",
    "FS": "FS alone",
    "negative_alignment": "negative alignment alone",
    "hold_back_harder": "hold-back, harder crops",
    "repeats": "+ repeats",
    "near_duplicates": "+ near-duplicates",
    "decoys": "+ decoys",
    "second_key": "+ second key",
    "borders": "+ borders",
    "all": "+ all of these",
}
"""What an owner relies on -> its name in tables. From `repeats` on: the hold-back test on fresh crops, plus checks
(those that are switched on)."""


@dataclass(frozen=True)
class Judgement:
    """Of one audit: whether each defence lets the model owner pass, and the verdict with all counter-measures on."""

    passed: dict[str, bool]
    caught: dict[str, bool]
    """By which check."""
    verdict: str


@dataclass(frozen=True)
class Row:
    """One model owner at one size of audit."""

    model_owner: str
    honest: bool
    n: int
    accepted: dict[str, Rate]
    caught: dict[str, float]
    """By check: of honest owners, those who are wronged."""
    verdicts: dict[str, float]


@dataclass(frozen=True)
class RedTeam:
    data: str
    encoders: int
    rounds: int
    owners: int
    """Who ask in one round."""
    recognised: float
    """Share of fresh crops of listed images that the service took for listed."""
    mistaken: float
    """The same of controls."""
    rows: list[Row]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def red_team(
    encoders: Sequence[Encoder],
    folder: Path,
    rounds: int = 5,
    n: int = 10,
    runtime: Runtime | None = None,
    swaps: Sequence[Encoder] = (),
    model_owners: Sequence[ModelOwner] = MODEL_OWNERS,
    checks: Sequence[str] = tuple(CHECKS),
    n_owners: int = OWNERS,
    retrained: Retrained | None = None,
) -> RedTeam:
    """All model owners in all rounds; `swaps` are models of the same data for those who swap (else trained here).
    `checks` are the counter-measures that are switched on. `retrained` is of the only encoder."""
    runtime = runtime or Runtime()
    found: dict[tuple[str, int], list[list[Judgement]]] = {}
    seen: list[tuple[float, float]] = []
    with meter("red team", len(encoders) * rounds * len(model_owners), "services") as progress:
        for number, encoder in enumerate(encoders):
            name = f"{encoder.settings.data.name.replace('/', '-')}-{encoder.settings.seed}"
            swap = cache(partial(another_model, encoder, swaps[number : number + 1], folder, name, runtime))
            for owner in model_owners:
                for size in (n, 2 * n):
                    found.setdefault((owner.name, size), []).append([])
            office = Office(encoder, folder, name, runtime, swap)
            for desk, owners in rounds_of(office, rounds, n, n_owners, retrained):
                seen.append(recognition_rates(desk, owners))
                asked = prepared(desk, owners)
                for who in model_owners:
                    answers = put(asked, who.serve(desk), checks)
                    for size, audits in ((n, owners), (2 * n, joined(owners))):
                        parts = np.arange(len(asked.images)).reshape(len(audits), -1)
                        # Any seed is valid; few, so that audits share the splits that the test draws.
                        found[who.name, size][-1] += [
                            judge(asked, answers, mine, owner, desk.seed % 8)
                            for mine, owner in zip(parts, audits, strict=True)
                        ]
                    progress.advance(note=who.name)
    rows = [summarise(who, size, found[who.name, size]) for size in (n, 2 * n) for who in model_owners]
    recognised, mistaken = np.mean(seen, axis=0)
    data = encoders[0].settings.data.name
    return RedTeam(data, len(encoders), rounds, n_owners, float(recognised), float(mistaken), rows)


def another_model(encoder: Encoder, swaps: Sequence[Encoder], folder: Path, name: str, runtime: Runtime) -> Embed:
    """For those who swap models: one that is there, or the same training again with another seed."""
    return swaps[0].embed if swaps else pretrained_again(encoder, folder, name, runtime)


def prepared(desk: Desk, owners: Sequence[Owner]) -> Questions:
    """All owners' queries of a round. Decoys, and half as many withheld images as others, are from among those that the
    model was not trained on; where these are few, owners share them."""
    rows = np.concatenate([owner.rows for owner in owners])
    decoys, others = np.split(np.asarray(desk.encoder.images.test), [DECOYS])
    views, together = desk.encoder.settings.views, 2 * len(owners[0].rows)  # two owners are joined
    if len(others) < together // 2:
        raise UserError(f"{desk.encoder.settings.data.name} has {len(others)} withheld images; give a smaller --images")
    drawn = np.resize(np.random.default_rng(desk.seed % 2**31).permutation(len(others)), len(rows) // 2)
    ask = desk.encoder.embed, desk.pixels[rows], others[drawn], decoys
    return questions(*ask, views, desk.seed % 2**31, together)


def judge(asked: Questions, answers: Answers, mine: np.ndarray, owner: Owner, seed: int) -> Judgement:
    """One owner's share of the answers (`mine`: where in them), under every test and counter-measure."""
    part = {way: answers.gaps(way, mine) for way in answers.agm}
    evidence = hold_back_test(part["crops"], owner.forget, DRAWS, seed)
    passed = {name: p <= ALPHA for name, p in controlled_p_values(evidence).items()}
    for name, (p, gap) in uncontrolled(part["crops"], owner.forget).items():
        passed[name] = p <= ALPHA and gap < 0  # a gap in the other direction convinces nobody
    for way in ("plain", "harder"):
        passed[f"hold_back_{way}"] = hold_back_test(part[way], owner.forget, DRAWS, seed).p <= ALPHA
    caught = {check: bool(found[mine].any()) for check, found in answers.suspicious.items()}
    passed |= {check: passed["hold_back"] and not caught[check] for check in caught}
    passed["all"] = passed["hold_back"] and not any(caught.values())
    if np.abs(part["crops"]).max() < UNCHANGED:
        return Judgement(passed, caught, NO_CHANGE)
    if any(caught.values()):
        return Judgement(passed, caught, REFUSED)
    if passed["hold_back"]:  # power, which takes most of the time, matters only where no change was found
        return Judgement(passed, caught, CHANGED)
    withheld = asked.withheld_before[mine[0] // 2 : (mine[-1] + 1) // 2]

    def power_of(effect: Effect) -> float:
        return planted_power(part["crops"], int(owner.forget.sum()), effect, ALPHA, POWER_REPETITIONS, seed)

    memory = memory_of(asked.alike_before[mine], withheld)
    return Judgement(passed, caught, decide_by_memory(evidence, memory, power_of).verdict)


def recognition_rates(desk: Desk, owners: Sequence[Owner]) -> tuple[float, float]:
    """How well a cheat recognises fresh crops: of listed images, and wrongly of controls."""
    rows = np.concatenate([owner.rows for owner in owners])
    listed = np.isin(rows, desk.listed)
    hit = desk.recognise(some_crops(desk.pixels[rows], desk.encoder.settings.views, desk.seed % 2**31))
    return float(hit[listed].mean()), float(hit[~listed].mean())


def summarise(who: ModelOwner, n: int, found: list[list[Judgement]]) -> Row:
    """(encoders, audits) judgements -> rates."""
    used = [name for name in DEFENCES if name in found[0][0].passed]
    accepted = {name: rate_of(np.array([[j.passed[name] for j in part] for part in found])) for name in used}
    audits = [judgement for part in found for judgement in part]
    caught = {check: sum(j.caught[check] for j in audits) / len(audits) for check in audits[0].caught}
    kinds = (CHANGED, NO_CHANGE, INCONCLUSIVE, REFUSED)
    verdicts = {kind: sum(j.verdict == kind for j in audits) / len(audits) for kind in kinds}
    return Row(who.name, who.honest, n, accepted, caught, verdicts)
