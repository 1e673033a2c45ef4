"""Who came closest to Retrain, in sentences: ties are named as ties, and chance as chance."""

from muc.report.cells import number
from muc.report.group import Comparison, Entry, Stat
from muc.report.held_out import held_out_order
from muc.report.noise import Noise, lead_of, led, pairs_among
from muc.report.ranks import at_place, ranks
from muc.report.words import entry_name, listing, method_name, points, seed_count

AS_CLOSE = 0.05  # points of AG that make no difference, where no second Retrain tells what chance makes of it
LITTLE = 0.05  # an AUC difference below this is little to forget
FOR_ALL = ", for all pairs of methods together"


def who_came_closest(c: Comparison, noise: Noise | None) -> list[str]:
    ranked = c.ranked()
    if not ranked and any(e.approximate for e in c.entries):
        return [
            "No Retrain run of the same seed is among these runs, so it cannot be said how close a method comes to "
            f"exact unlearning{'.' if (order := held_out_order(c)) else '; the tables show the metrics alone.'}",
            *([order] if order else []),
        ]
    if not ranked:
        return ["No approximate unlearning method was evaluated in this setting."]
    gap = ranked[0].gap("AG")
    assert gap is not None
    rest = [*seed_by_seed(c), *_against_chance(c, gap, noise), *_calibration(ranked), *_selection(c)]
    if (untouched := as_close(c)) is not None:
        return [*_left_as_it_was(c, gap, untouched), *_unequal_seeds(ranked), *_runner_up(c), *rest]
    return [
        f"{_who(c)} Retrain, the model trained again without the {what_of(c)}s{_how_far(c)} ({seed_count(gap.n)}).",
        *_unequal_seeds(ranked),
        *_runner_up(c),
        *rest,
    ]


def _who(c: Comparison) -> str:
    """Who came closest, up to the name of what they came close to."""
    tied, ranked = at_place(c, 1), c.ranked()
    names, what = names_of(tied), "candidates" if any(e.variant for e in ranked) else "methods"
    if len(ranked) == 1:
        return f"{names} is the only method here; it came to within {gap_text(tied)} points of"
    if len(tied) == 1:
        return f"Of {len(ranked)} {what}, {names} came closest to"
    if len(tied) < len(ranked):
        return f"Of {len(ranked)} {what}, {names} are tied as the closest to"
    return f"The {len(ranked)} {what} {names} are tied, all equally far from"


def _how_far(c: Comparison) -> str:
    tied = at_place(c, 1)
    if len(c.ranked()) == 1:
        return ""
    of, unit = ("two similarities (times 100)", "points") if c.of_pairs else ("five metrics", "percentage points")
    return f": on average over the {of} {'it is' if len(tied) == 1 else 'they are'} {gap_text(tied)} {unit} away"


def names_of(entries: list[Entry]) -> str:
    return listing([entry_name(e) for e in entries])


def gap_text(tied: list[Entry], average: str = "AG") -> str:
    """Of entries that share a place; one alone with its deviation."""
    gap = tied[0].gap(average)
    return number(gap if gap is None or len(tied) == 1 else Stat(gap.mean, None, gap.n), 2)


def as_close(c: Comparison) -> Stat | None:
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
    lead, aucs = lead_of(ranked[0], original, among=len(ranked)), unlearn_aucs(c)
    little = aucs is not None and aucs[0].mean - aucs[1].mean < LITTLE
    return untouched if little and lead is not None and not lead.clear else None


def _left_as_it_was(c: Comparison, gap: Stat, untouched: Stat) -> list[str]:
    tied = at_place(c, 1)
    closest = f"{'method' if len(tied) == 1 else 'methods, which are tied'}, {names_of(tied)}, {gap_text(tied)}"
    text = (
        "No method came measurably closer to Retrain than leaving the model as it was: the original is "
        f"{number(untouched, 2)} points away on average, the closest {closest} "
        f"({seed_count(gap.n)})"
    )
    text += ", which is no difference that these runs can tell." if gap.mean - untouched.mean <= AS_CLOSE else "."
    aucs = unlearn_aucs(c)
    if aucs is None:
        return [text]
    told = f"(AUC of {what_of(c)}s to forget against test {what_of(c)}s {aucs[0].mean:.3f} for the original, "
    told += f"{aucs[1].mean:.3f} for Retrain; 0.5 is chance)"
    if aucs[0].mean - aucs[1].mean < LITTLE:
        return [text, f"That may be because there was little to forget {told}."]
    return [text, f"Yet there was something to forget {told}."]


def _unequal_seeds(ranked: list[Entry]) -> list[str]:
    if len({tuple(map(str, e.seeds)) for e in ranked}) == 1:
        return []
    return ["The methods were not all run with the same seeds, so their averages are not of the same trials."]


def _runner_up(c: Comparison) -> list[str]:
    tied = at_place(c, 1)
    following = at_place(c, 1 + len(tied))
    if not following:
        return []
    first, second = tied[0], following[0]
    pairs = pairs_among(c.ranked())
    gap, lead = second.gap("AG"), lead_of(first, second, among=pairs)
    assert gap is not None
    if len(following) > 1:
        return [f"Next are {names_of(following)}, tied at {gap_text(following)}."]
    if len(tied) > 1:
        return [f"Next is {entry_name(second)} at {gap_text(following)}."]
    text = f"Next is {entry_name(second)} at {number(gap, 2)}."
    if lead is None:
        return [text, "With one common seed the order of the two may be chance."]
    held = f"95 % interval{FOR_ALL if pairs > 1 else ''}"
    interval = f"{points(lead.mean)} points ({held}: {points(lead.low)} to {points(lead.high)})"
    if lead.clear:
        return [text, f"The lead of {interval} holds over the {lead.seeds} seeds."]
    return [text, f"The lead of {interval} is within the noise: {lead.seeds} seeds do not tell these two apart."]


def _against_chance(c: Comparison, gap: Stat, noise: Noise | None) -> list[str]:
    if noise is None:
        return ["There is no second Retrain seed, so it is not known how much of these gaps is chance."]
    yardstick = noise.between["AG"]
    text = (
        f"Two Retrains with different seeds, which {also_forget(c, noise)}, are {yardstick:.2f} points apart by the "
        "same measure"
    )
    within = [entry_name(e) for e in c.ranked() if (g := e.gap("AG")) and g.mean <= yardstick]
    if not within:
        tied = at_place(c, 1)
        who = f"{names_of(tied)} {'is' if len(tied) == 1 else 'are'}"
        return [f"{text}; {who} {gap.mean / max(yardstick, 1e-9):.1f} times as far from Retrain."]
    return [f"{text}: {listing(within)} {'is' if len(within) == 1 else 'are'} no further from Retrain than that."]


def seed_by_seed(c: Comparison, average: str = "AG") -> list[str]:
    """Differences between methods of one seed have the request and its Retrain in common: the spread between seeds says
    nothing about them."""
    if (found := led(c, average)) is None or len(found[0]) + len(found[1]) < 2:
        return []
    (clear, unclear), first = found, entry_name(c.ranked(average)[0])
    if not clear:
        return [f"Seed by seed {first} cannot be told from any other (95 % intervals{FOR_ALL})."]
    text = f"Seed by seed {first} is closer than {names_of(clear)} by more than chance (95 % intervals{FOR_ALL})"
    return [f"{text}; not so than {names_of(unclear)}." if unclear else f"{text}."]


def _calibration(ranked: list[Entry]) -> list[str]:
    """The paper's own method gets no silence when it does not win."""
    gaps = {i: gap.mean for i, e in enumerate(ranked) if (gap := e.gap("AG"))}
    places = [(place, gaps[i]) for i, place in ranks(gaps).items() if ranked[i].method == "alignment_calibration"]
    place, gap = min(places, default=(1, 0.0))
    if place == 1:
        return []
    return [f"Alignment Calibration, the paper's method, is not the closest here: number {place} at {gap:.2f}."]


def only_closest(c: Comparison) -> Entry | None:
    """None where several are tied: what holds of one of them is then not said of it alone."""
    tied = at_place(c, 1)
    return tied[0] if len(tied) == 1 else None


def _selection(c: Comparison) -> list[str]:
    tied = at_place(c, 1)
    methods = {e.method for e in tied}
    tried = sum(e.method in methods for e in c.ranked())
    if tried == len(methods):
        return []
    who, whose = ("It is", "its method") if len(tied) == 1 else ("They are", listing(sorted(map(method_name, methods))))
    return [
        f"{who} the best of {tried} settings of {whose}, chosen by the very gap that is reported here; "
        "expect a somewhat larger gap on a new request."
    ]


def also_forget(c: Comparison, noise: Noise) -> str:
    """What else is different between Retrains of several seeds, if anything is."""
    return f"{'forget the same' if noise.one_request else 'also forget different'} {what_of(c)}s"


def what_of(c: Comparison) -> str:
    return "pair" if c.of_pairs else "image"


def unlearn_aucs(c: Comparison) -> tuple[Stat, Stat] | None:
    """How familiar the images to forget are to the original and to Retrain."""
    before, target = (e.metric("unlearn_AUC") if e else None for e in map(c.entry, ("pretrain", "retrain")))
    return (before, target) if before and target else None
