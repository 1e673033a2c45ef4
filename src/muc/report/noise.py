"""How much chance there is in the numbers: the spread between Retrains, and whether a lead is more than that."""

import itertools
from dataclasses import dataclass

from scipy.stats import t

from muc.evaluation.gaps import gaps
from muc.report.group import Comparison, Entry, stat
from muc.report.ranks import at_place


@dataclass(frozen=True)
class Noise:
    """What differs between models that are all equally right: Retrains with different seeds."""

    sd: dict[str, float]
    """The noise floor: per metric, the standard deviation of Retrain over seeds."""
    between: dict[str, float]
    """Mean over all pairs of Retrains of the gaps (and AGs) of one to the other: what a perfect method would show."""
    seeds: int
    one_request: bool = False
    """Whether all of them are known to forget the same images."""


def noise_of(comparison: Comparison) -> Noise | None:
    """None with fewer than two Retrain seeds."""
    retrain = comparison.entry("retrain")
    if retrain is None:
        return None
    names = comparison.metrics
    by_seed = {r["seed"]: r["metrics"] for r in retrain.records}
    trials = [m for m in by_seed.values() if all(m.get(name) is not None for name in names)]
    if len(trials) < 2:
        return None
    spread = {name: stat(m[name] for m in trials) for name in names}
    pairs = [gaps(a, b) for a, b in itertools.combinations(trials, 2)]
    keys = [*(f"{name}_gap" for name in names), "AG", *(["AG_auc"] if all("AG_auc" in p for p in pairs) else [])]
    return Noise(
        sd={name: found.sd for name, found in spread.items() if found and found.sd is not None},
        between={key: sum(p[key] for p in pairs) / len(pairs) for key in keys},
        seeds=len(trials),
        one_request=len(asked := {r.get("request_sha256") for r in retrain.records}) == 1 and None not in asked,
    )


@dataclass(frozen=True)
class Lead:
    """By how much the AG of one entry is below another's, seed by seed, with a 95 % interval of the mean."""

    mean: float
    low: float
    high: float
    seeds: int

    @property
    def clear(self) -> bool:
        return self.low > 0


def lead_of(first: Entry, second: Entry, average: str = "AG", among: int = 1) -> Lead | None:
    """None with fewer than two common seeds: then nothing is known about chance.

    The interval holds together with those of all comparisons `among` which this one was chosen (Bonferroni): who is
    closest was found out from the same seeds, and among methods that are all alike somebody always is.
    """
    a, b = _average_gaps(first, average), _average_gaps(second, average)
    found = stat(b[seed] - a[seed] for seed in a.keys() & b.keys())
    if found is None or found.sd is None:
        return None
    half = float(t.ppf(1 - 0.025 / among, found.n - 1)) * found.sd / found.n**0.5
    return Lead(found.mean, found.mean - half, found.mean + half, found.n)


def _average_gaps(entry: Entry, average: str) -> dict[object, float]:
    return {r["seed"]: g[average] for r, g in zip(entry.records, entry.gaps, strict=True) if g and average in g}


def led(comparison: Comparison, average: str = "AG") -> tuple[list[Entry], list[Entry]] | None:
    """The methods that the closest one leads by more than chance, and those of which that cannot be said. None where
    nobody is closest alone, or nothing is known about chance."""
    ranked = comparison.ranked(average)
    leads = [(e, lead_of(ranked[0], e, average, pairs_among(ranked))) for e in ranked[1:]]
    if not leads or any(lead is None for _, lead in leads) or len(at_place(comparison, 1, average)) > 1:
        return None
    return [e for e, lead in leads if lead and lead.clear], [e for e, lead in leads if lead and not lead.clear]


def pairs_among(ranked: list[Entry]) -> int:
    """All that could have been the closest and the one it is compared with."""
    return len(ranked) * (len(ranked) - 1) // 2
