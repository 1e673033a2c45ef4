"""What the numbers of one setting say, in sentences for people who do not read tables. Nothing is made to shine."""

from dataclasses import dataclass

from muc.report.cells import number
from muc.report.closest import (
    LITTLE,
    also_forget,
    as_close,
    gap_text,
    names_of,
    only_closest,
    seed_by_seed,
    unlearn_aucs,
    what_of,
    who_came_closest,
)
from muc.report.group import Comparison, Entry, Stat, stat
from muc.report.noise import Noise, noise_of
from muc.report.ranks import at_place
from muc.report.words import entry_name, minutes, setting_name, signed

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
            who_came_closest(comparison, noise),
            _without_decisions(comparison, noise),
            _cost(comparison),
            _something_to_forget(comparison),
        )
        if sentences
    ]
    return Summary(setting_name(comparison.setting), _tiles(comparison, noise), paragraphs)


def _without_decisions(c: Comparison, noise: Noise | None) -> list[str]:
    """What remains of the order where no attack's threshold has a say."""
    if len(c.ranked("AG_auc")) < 2:
        return []
    tied = at_place(c, 1, "AG_auc")
    following = at_place(c, 1 + len(tied), "AG_auc")
    text = "By AG auc, on which no attack's threshold has a say, "
    text += f"{names_of(tied)} {'is closest' if len(tied) == 1 else 'are tied'} at {gap_text(tied, 'AG_auc')}"
    text += f", then {names_of(following)} at {gap_text(following, 'AG_auc')}" if following else ""
    original, floor = c.entry("pretrain"), noise.between.get("AG_auc") if noise else None
    if original and (untouched := original.gap("AG_auc")):
        text += f"; the original is {number(untouched, 2)} away"
    return [text + (f", two Retrains are {floor:.2f} apart." if floor is not None else "."), *seed_by_seed(c, "AG_auc")]


def _cost(c: Comparison) -> list[str]:
    original, retrain, best = c.entry("pretrain"), c.entry("retrain"), only_closest(c)
    if best is None:
        return []
    text = []
    names = ("retain_similarity", "test_similarity") if c.of_pairs else ("RA", "TA")
    changes = [_change(best, original, metric) for metric in names]
    if all(changes):
        kept, test = (signed(change) for change in changes if change)
        text.append(
            f"Against the original model, {entry_name(best)} changes {'similarity' if c.of_pairs else 'accuracy'} by "
            f"{kept} points on kept {what_of(c)}s and by {test} on test {what_of(c)}s"
        )
        theirs = [_change(retrain, original, metric) for metric in names]
        text[-1] += f" (Retrain: {' and '.join(signed(t) for t in theirs if t)})." if all(theirs) else "."
    if times := _times(best, retrain):
        mine, exact = times
        text.append(f"{entry_name(best)} took {minutes(mine)}, Retrain {minutes(exact)}.")
    return text


def _change(entry: Entry | None, original: Entry | None, metric: str) -> Stat | None:
    """Seed by seed, against the original."""
    if entry is None or original is None:
        return None
    after, before = entry.by_seed(metric), original.by_seed(metric)
    return stat(after[seed] - before[seed] for seed in after.keys() & before.keys())


def _times(best: Entry, retrain: Entry | None) -> tuple[float, float] | None:
    mine, exact = best.metric("RTE_minutes"), retrain.metric("RTE_minutes") if retrain else None
    return (mine.mean, exact.mean) if mine and exact and mine.mean > 0 else None


def _something_to_forget(c: Comparison) -> list[str]:
    retrain, aucs = c.entry("retrain"), unlearn_aucs(c)
    original = c.entry("pretrain")
    before = original.metric("unlearn_AUC") if original else None
    if before is None:
        return ["Whether there was anything to forget is not known: it takes the original and Retrain to tell."]
    seen = (
        f"To the original model {'a pair' if c.of_pairs else 'an image'} to forget looked more familiar than an unseen "
        f"test {what_of(c)} in {100 * before.mean:.1f} % of comparisons (50 % is chance)"
    )
    if aucs is None:
        return [f"{seen}; it takes Retrain to tell how much of that there was to forget."]
    target = aucs[1]
    text = [f"{seen}; to Retrain in {100 * target.mean:.1f} %."]
    if target.mean - before.mean > max(SOMETHING, 2 * (target.sd or 0)):
        text.append(
            f"The original finds them less familiar than Retrain does, although it was trained on them: with so few "
            f"{what_of(c)}s that is chance, or they are of another kind than the test {what_of(c)}s."
        )
    elif before.mean - target.mean < max(SOMETHING, 2 * (target.sd or 0)):
        text.append(
            f"So there was hardly anything to forget: the original already treats these {what_of(c)}s almost like "
            f"{what_of(c)}s it never saw, and small gaps say little about a method."
        )
    else:
        little = before.mean - target.mean < LITTLE
        text.append("So there was something to forget, if little." if little else "So there was something to forget.")
        best = only_closest(c)
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
    best, untouched, tied = ranked[0], as_close(c), at_place(c, 1)
    names, closest = names_of(tied), f"average gap {gap_text(tied)} points"
    if untouched is not None:
        note = f"the model left as it was: average gap {number(untouched, 2)} points; {names}: {closest}"
        tiles.append(Tile("Closest to Retrain", "no method", note))
    elif len(tied) > 1:
        tiles.append(Tile("Closest to Retrain", f"{len(tied)} tied", f"{names}: {closest}"))
    else:
        tiles.append(Tile("Closest to Retrain", names, closest))
    if noise:
        note = f"average gap; they {also_forget(c, noise)} ({noise.seeds} seeds)"
        tiles.append(Tile("Between two Retrains", f"{noise.between['AG']:.2f} points", note))
    # What a method costs is of no interest at first glance where it did nothing, or is one of several.
    if untouched is not None or len(tied) > 1:
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
