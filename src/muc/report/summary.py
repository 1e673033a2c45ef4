"""What the numbers of one setting say, in sentences for people who do not read tables. Nothing is made to shine."""

from dataclasses import dataclass

from muc.report.group import Comparison, Entry, Stat, stat
from muc.report.noise import Noise, lead_of, noise_of
from muc.report.ranks import ranks
from muc.report.tables import number
from muc.report.words import entry_name, listing, minutes, points, seed_count, setting_name, signed

AS_CLOSE = 0.05  # points of AG that make no difference, where no second Retrain tells what chance makes of it
LITTLE = 0.05  # an AUC difference below this is little to forget
SOMETHING = 0.02  # an AUC difference below this is called "hardly anything", however sure it is
GUESSING = 52.0  # an attack that is right less often than this (%) is little better than a coin


@dataclass(frozen=True)
class Tile:
    """One number to see at first glance."""

    label: str
    value: str
    note: str


@dataclass(frozen=True)
class Summary:
    heading: str
    tiles: list[Tile]
    paragraphs: list[str]

    def lines(self) -> list[str]:
        """For a text without headings; nothing of the tiles is missing in the sentences."""
        return [f"{self.heading}: {self.paragraphs[0]}", *self.paragraphs[1:]]


def summarise(comparison: Comparison) -> Summary:
    noise = noise_of(comparison)
    paragraphs = [
        " ".join(sentences).replace(" %", "\N{NO-BREAK SPACE}%")
        for sentences in (
            _closest(comparison, noise),
            _without_decisions(comparison, noise),
            _cost(comparison),
            _something_to_forget(comparison),
        )
        if sentences
    ]
    return Summary(setting_name(comparison.setting), _tiles(comparison, noise), paragraphs)


def _closest(c: Comparison, noise: Noise | None) -> list[str]:
    ranked = c.ranked()
    if not ranked and any(e.approximate for e in c.entries):
        return [
            "No Retrain run of the same seed is among these runs, so it cannot be said how close a method comes to "
            "exact unlearning; the tables show the metrics alone."
        ]
    if not ranked:
        return ["No approximate unlearning method was evaluated in this setting."]
    best, gap = ranked[0], ranked[0].gap("AG")
    assert gap is not None
    rest = [*_against_chance(ranked, gap, noise), *_calibration(ranked), *_selection(best, ranked)]
    if (untouched := _as_close(c)) is not None:
        return [*_left_as_it_was(c, best, gap, untouched), *_unequal_seeds(ranked), *_runner_up(ranked), *rest]
    name = entry_name(best)
    what = "candidates" if any(e.variant for e in ranked) else "methods"
    of = f"Of {len(ranked)} {what}, {name} came" if len(ranked) > 1 else f"{name} is the only method here; it came"
    closest = "closest to" if len(ranked) > 1 else f"to within {number(gap, 2)} points of"
    measured = (
        "the two similarities (times 100) it is {} points"
        if c.of_pairs
        else "the five metrics it is {} percentage points"
    )
    told = f": on average over {measured.format(number(gap, 2))} away" if len(ranked) > 1 else ""
    return [
        f"{of} {closest} Retrain, the model trained again without the {_what(c)}s{told} ({seed_count(gap.n)}).",
        *_unequal_seeds(ranked),
        *_runner_up(ranked),
        *rest,
    ]


def _as_close(c: Comparison) -> Stat | None:
    """The original's AG, where no method's is smaller, or none's by more than chance may make it and there was little
    to forget. (Where there was much, the metrics of membership show what a method did, however AG scatters.)"""
    original, ranked = c.entry("pretrain"), c.ranked()
    if original is None or not ranked:
        return None
    untouched, best = original.gap("AG"), ranked[0].gap("AG")
    if untouched is None or best is None:
        return None
    if untouched.mean - best.mean <= AS_CLOSE:
        return untouched
    lead, aucs = lead_of(ranked[0], original), _unlearn_aucs(c)
    little = aucs is not None and aucs[0].mean - aucs[1].mean < LITTLE
    return untouched if little and lead is not None and not lead.clear else None


def _left_as_it_was(c: Comparison, best: Entry, gap: Stat, untouched: Stat) -> list[str]:
    text = (
        "No method came measurably closer to Retrain than leaving the model as it was: the original is "
        f"{number(untouched, 2)} points away on average, the closest method, {entry_name(best)}, {number(gap, 2)} "
        f"({seed_count(gap.n)})"
    )
    text += ", which is no difference that these runs can tell." if gap.mean - untouched.mean <= AS_CLOSE else "."
    aucs = _unlearn_aucs(c)
    if aucs is None:
        return [text]
    told = f"(AUC of {_what(c)}s to forget against test {_what(c)}s {aucs[0].mean:.3f} for the original, "
    told += f"{aucs[1].mean:.3f} for Retrain; 0.5 is chance)"
    if aucs[0].mean - aucs[1].mean < LITTLE:
        return [text, f"That may be because there was little to forget {told}."]
    return [text, f"Yet there was something to forget {told}."]


def _unequal_seeds(ranked: list[Entry]) -> list[str]:
    if len({tuple(map(str, e.seeds)) for e in ranked}) == 1:
        return []
    return ["The methods were not all run with the same seeds, so their averages are not of the same trials."]


def _runner_up(ranked: list[Entry]) -> list[str]:
    if len(ranked) < 2:
        return []
    first, second = ranked[:2]
    gap, lead = second.gap("AG"), lead_of(first, second)
    assert gap is not None
    text = f"Next is {entry_name(second)} at {number(gap, 2)}."
    if lead is None:
        return [text, "With one common seed the order of the two may be chance."]
    interval = f"{points(lead.mean)} points (95 % interval {points(lead.low)} to {points(lead.high)})"
    if lead.clear:
        return [text, f"The lead of {interval} holds over the {lead.seeds} seeds."]
    return [text, f"The lead of {interval} is within the noise: {lead.seeds} seeds do not tell these two apart."]


def _against_chance(ranked: list[Entry], gap: Stat, noise: Noise | None) -> list[str]:
    if noise is None:
        return ["There is no second Retrain seed, so it is not known how much of these gaps is chance."]
    yardstick = noise.between["AG"]
    text = f"Two Retrains with different seeds are {yardstick:.2f} points apart by the same measure"
    within = [entry_name(e) for e in ranked if (g := e.gap("AG")) and g.mean <= yardstick]
    if not within:
        return [f"{text}; {entry_name(ranked[0])} is {gap.mean / max(yardstick, 1e-9):.1f} times as far from Retrain."]
    if len(within) == 1:
        return [f"{text}: {within[0]} is no further from Retrain than that."]
    return [f"{text}: {listing(within)} are no further from Retrain than that; between them, differences are noise."]


def _calibration(ranked: list[Entry]) -> list[str]:
    """The paper's own method gets no silence when it does not win."""
    gaps = {i: gap.mean for i, e in enumerate(ranked) if (gap := e.gap("AG"))}
    places = [(place, gaps[i]) for i, place in ranks(gaps).items() if ranked[i].method == "alignment_calibration"]
    place, gap = min(places, default=(1, 0.0))
    if place == 1:
        return []
    return [f"Alignment Calibration, the paper's method, is not the closest here: number {place} at {gap:.2f}."]


def _without_decisions(c: Comparison, noise: Noise | None) -> list[str]:
    """What remains of the order where no attack's threshold has a say."""
    ranked = [(entry_name(e), gap) for e in c.ranked("AG_auc") if (gap := e.gap("AG_auc"))]
    if len(ranked) < 2:
        return []
    (first, gap), (second, next_gap) = ranked[:2]
    text = f"By AG auc, on which no attack's threshold has a say, {first} is closest at {number(gap, 2)}, "
    text += f"then {second} at {number(next_gap, 2)}"
    original, floor = c.entry("pretrain"), noise.between.get("AG_auc") if noise else None
    if original and (untouched := original.gap("AG_auc")):
        text += f"; the original is {number(untouched, 2)} away"
    return [text + (f", two Retrains are {floor:.2f} apart." if floor is not None else ".")]


def _selection(best: Entry, ranked: list[Entry]) -> list[str]:
    tried = sum(e.method == best.method for e in ranked)
    if tried < 2:
        return []
    return [
        f"It is the best of {tried} settings of its method, chosen by the very gap that is reported here; "
        "expect a somewhat larger gap on a new request."
    ]


def _cost(c: Comparison) -> list[str]:
    original, retrain, ranked = c.entry("pretrain"), c.entry("retrain"), c.ranked()
    if not ranked:
        return []
    best, text = ranked[0], []
    names = ("retain_similarity", "test_similarity") if c.of_pairs else ("RA", "TA")
    changes = [_change(best, original, metric) for metric in names]
    if all(changes):
        kept, test = (signed(change) for change in changes if change)
        text.append(
            f"Against the original model, {entry_name(best)} changes {'similarity' if c.of_pairs else 'accuracy'} by "
            f"{kept} points on kept {_what(c)}s and by {test} on test {_what(c)}s"
        )
        theirs = [_change(retrain, original, metric) for metric in names]
        text[-1] += f" (Retrain: {' and '.join(signed(t) for t in theirs if t)})." if all(theirs) else "."
    if times := _times(best, retrain):
        mine, exact = times
        text.append(f"{entry_name(best)} took {minutes(mine)}, Retrain {minutes(exact)}.")
    return text


def _what(c: Comparison) -> str:
    return "pair" if c.of_pairs else "image"


def _change(entry: Entry | None, original: Entry | None, metric: str) -> Stat | None:
    """Seed by seed, against the original."""
    if entry is None or original is None:
        return None
    after, before = entry.by_seed(metric), original.by_seed(metric)
    return stat(after[seed] - before[seed] for seed in after.keys() & before.keys())


def _times(best: Entry, retrain: Entry | None) -> tuple[float, float] | None:
    mine, exact = best.metric("RTE_minutes"), retrain.metric("RTE_minutes") if retrain else None
    return (mine.mean, exact.mean) if mine and exact and mine.mean > 0 else None


def _unlearn_aucs(c: Comparison) -> tuple[Stat, Stat] | None:
    """How familiar the images to forget are to the original and to Retrain."""
    before, target = (e.metric("unlearn_AUC") if e else None for e in map(c.entry, ("pretrain", "retrain")))
    return (before, target) if before and target else None


def _something_to_forget(c: Comparison) -> list[str]:
    retrain, aucs = c.entry("retrain"), _unlearn_aucs(c)
    if aucs is None:
        return ["Whether there was anything to forget is not known: it takes the original and Retrain to tell."]
    before, target = aucs
    text = [
        f"To the original model {'a pair' if c.of_pairs else 'an image'} to forget looked more familiar than an unseen "
        f"test {_what(c)} in "
        f"{100 * before.mean:.1f} % of comparisons (50 % is chance); to Retrain in {100 * target.mean:.1f} %.",
    ]
    if before.mean - target.mean < max(SOMETHING, 2 * (target.sd or 0)):
        text.append(
            f"So there was hardly anything to forget: the original already treats these {_what(c)}s almost like "
            f"{_what(c)}s it never saw, and small gaps say little about a method."
        )
    else:
        little = before.mean - target.mean < LITTLE
        text.append("So there was something to forget, if little." if little else "So there was something to forget.")
        best = c.ranked()[0] if c.ranked() else None
        if best and (after := best.metric("unlearn_AUC")):
            text.append(f"After {entry_name(best)} it is {100 * after.mean:.1f} %.")
    attack = retrain.metric("EMIA_accuracy") if retrain else None
    if attack and attack.mean < GUESSING:
        text.append(
            f"The attack behind EMIA is right in only {attack.mean:.1f} % of cases where guessing gives 50 %, so EMIA "
            "and its gap are mostly noise here."
        )
    return text


def _tiles(c: Comparison, noise: Noise | None) -> list[Tile]:
    ranked, tiles = c.ranked(), []
    if not ranked:
        return []
    best, untouched = ranked[0], _as_close(c)
    closest = f"average gap {number(best.gap('AG'), 2)} points"
    if untouched is None:
        tiles.append(Tile("Closest to Retrain", entry_name(best), closest))
    else:
        note = f"the model left as it was: average gap {number(untouched, 2)} points; {entry_name(best)}: {closest}"
        tiles.append(Tile("Closest to Retrain", "no method", note))
    if noise:
        note = f"average gap by chance alone ({noise.seeds} seeds)"
        tiles.append(Tile("Between two Retrains", f"{noise.between['AG']:.2f} points", note))
    if untouched is not None:  # what such a method costs is of no interest at first glance
        return tiles
    label, metric = ("Test similarity", "test_similarity") if c.of_pairs else ("Test accuracy", "TA")
    if change := _change(best, c.entry("pretrain"), metric):
        exact = _change(c.entry("retrain"), c.entry("pretrain"), metric)
        note = "against the original" + (f" (Retrain {signed(exact)})" if exact else "")
        tiles.append(Tile(label, f"{signed(change)} points", note))
    if times := _times(best, c.entry("retrain")):
        ratio = times[1] / times[0]
        faster = f"{ratio:.0f}× faster" if ratio >= 10 else f"{ratio:.1f}× faster" if ratio > 1 else "not faster"
        tiles.append(Tile("Time", faster, f"{minutes(times[0])} instead of Retrain's {minutes(times[1])}"))
    return tiles
