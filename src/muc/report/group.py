"""Evaluation records sorted into what can be compared: settings, their methods, and the trials of each."""

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from muc.errors import UserError
from muc.evaluation.gaps import PAIR_METRICS, compared, gaps, of_means
from muc.run_folder import identity
from muc.storage import check_version

Record = dict[str, Any]

REFERENCES = ("pretrain", "retrain")
CALIBRATIONS = ("alignment_calibration", "balanced_calibration")
ORDER = (*REFERENCES, "finetune", "gradient_ascent", "neggrad", "l1_sparsity", *CALIBRATIONS)
REQUIRED = ("run", "method", "seed", "metrics", "data", "algorithm", "architecture", "epochs", "forget_fraction")


@dataclass(frozen=True)
class Stat:
    """Mean and standard deviation over trials (ddof=1; None where there is one trial only)."""

    mean: float
    sd: float | None
    n: int


def stat(values: Iterable[float | None]) -> Stat | None:
    """Of the finite values; None where there are none."""
    finite = [float(v) for v in values if v is not None and math.isfinite(v)]
    if not finite:
        return None
    return Stat(statistics.fmean(finite), statistics.stdev(finite) if len(finite) > 1 else None, len(finite))


@dataclass(frozen=True)
class Setting:
    """What runs must share for their numbers to be comparable."""

    data: str
    algorithm: str
    architecture: str
    epochs: int
    forget_fraction: float
    stem_relu: bool = True
    """False in encoders of the paper's released code. Records before 2026-11-19 do not say, and none was without."""


@dataclass(frozen=True)
class Entry:
    """One row of a table: a method (or one of its searched settings) with its trials."""

    method: str
    variant: str
    """The settings that tell it from the method's other entries; empty where there is only one."""
    records: tuple[Record, ...]
    retrains: tuple[Record | None, ...]
    """The Retrain that each record is judged by: that of its own seed, where there is one."""
    gaps: tuple[dict[str, float] | None, ...]
    """Each record's gaps to that Retrain."""

    @property
    def approximate(self) -> bool:
        return self.method not in REFERENCES

    @property
    def seeds(self) -> list[Any]:
        return sorted({r["seed"] for r in self.records}, key=str)

    def metric(self, name: str) -> Stat | None:
        return stat(r["metrics"].get(name) for r in self.records)

    def gap(self, name: str) -> Stat | None:
        return stat(g.get(name) for g in self.gaps if g)

    def average_gap_of_means(self) -> float | None:
        """AG as the paper computes it."""
        pairs = [
            (r["metrics"], t["metrics"])
            for r, t, g in zip(self.records, self.retrains, self.gaps, strict=True)
            if t and g
        ]
        return of_means(pairs, compared(pairs[0][0])) if pairs else None

    def by_seed(self, name: str) -> dict[Any, float]:
        """{seed: the metric's value}, for differences within a seed."""
        found = {r["seed"]: r["metrics"].get(name) for r in self.records}
        return {seed: value for seed, value in found.items() if value is not None}


@dataclass(frozen=True)
class Comparison:
    """All that is known of one setting, rows in the order of the tables."""

    setting: Setting
    entries: tuple[Entry, ...]

    @property
    def metrics(self) -> tuple[str, ...]:
        """Those whose gaps make up AG."""
        return compared(self.entries[0].records[0]["metrics"])

    @property
    def of_pairs(self) -> bool:
        """Whether the models compare images with texts."""
        return self.metrics == PAIR_METRICS

    @property
    def judged(self) -> bool:
        """Whether there is a Retrain, or what was stored of the gaps to one."""
        return self.entry("retrain") is not None or any(e.gap("AG") for e in self.entries)

    def entry(self, method: str) -> Entry | None:
        return next((e for e in self.entries if e.method == method), None)

    def ranked(self, average: str = "AG") -> list[Entry]:
        """The approximate methods from the smallest average gap up."""
        known = [(found.mean, i) for i, e in enumerate(self.entries) if e.approximate and (found := e.gap(average))]
        return [self.entries[i] for _, i in sorted(known)]


def without_samples(record: Record) -> Record:
    """Without the values of single images, which are for drawing and tests."""
    return {key: value for key, value in record.items() if key != "per_sample"}


def compare(records: list[Record]) -> list[Comparison]:
    """One comparison per setting, in the order in which settings first occur."""
    grouped: dict[Setting, dict[Any, Record]] = defaultdict(dict)
    for record in records:
        check(record)
        setting = Setting(**{f.name: record[f.name] for f in fields(Setting) if f.name in record})
        grouped[setting][key_of(record)] = record
    for found in grouped.values():
        check_trials(list(found.values()))
    return [Comparison(setting, _entries(list(found.values()))) for setting, found in grouped.items()]


def check_trials(records: list[Record]) -> None:
    """A seed is one trial: two requests or two originals are no repetitions of one another."""
    first: dict[Any, Record] = {}
    for record in (record for record in records if record["method"] != "pretrain"):
        other = first.setdefault(record["seed"], record)
        for name, what in (("request_sha256", "requests"), ("original_sha256", "original models")):
            if record.get(name) and other.get(name) and record[name] != other[name]:
                raise UserError(
                    f"{other['run']} and {record['run']} have one seed and different {what}, so that they are no "
                    "repetitions of one another; report them apart"
                )


def key_of(record: Record) -> Any:
    """What tells records apart: a model that was evaluated again counts once, and the original is judged on every
    request. Equal models can come from two methods: ℓ1-sparsity with nothing of ℓ1 is fine-tuning."""
    return record.get("method"), repr(record.get("method_settings")), *identity(record)


def check(record: Record) -> None:
    if missing := [name for name in REQUIRED if name not in record]:
        raise UserError(
            f"an evaluation record of {record.get('run', 'a run')} has no '{missing[0]}'; evaluate it again"
        )
    check_version(record.get("format_version", 1), Path(str(record["run"])))


def _entries(records: list[Record]) -> tuple[Entry, ...]:
    retrains = [r for r in records if r["method"] == "retrain"]
    methods = sorted({r["method"] for r in records}, key=lambda m: (ORDER.index(m) if m in ORDER else len(ORDER), m))
    found = []
    for method in methods:
        for variant, group in _variants([r for r in records if r["method"] == method]):
            group.sort(key=lambda r: str(r["seed"]))
            exact = [None if method == "retrain" else _retrain_of(r, retrains) for r in group]
            found_gaps = tuple(_gaps(r, e) for r, e in zip(group, exact, strict=True))
            found.append(Entry(method, variant, tuple(group), tuple(exact), found_gaps))
    return tuple(found)


def _variants(records: list[Record]) -> list[tuple[str, list[Record]]]:
    """Records of one method, apart by settings only where a seed was run with several: that was a search.

    Settings that differ between seeds alone (tuned for each) stay one entry.
    """
    by_seed: dict[Any, set[str]] = defaultdict(set)
    for record in records:
        by_seed[record["seed"]].add(repr(record.get("method_settings")))
    if all(len(settings) == 1 for settings in by_seed.values()):
        return [("", list(records))]
    differing = varying_settings(records)

    def values(record: Record) -> list[Any]:
        return [(record.get("method_settings") or {}).get(key) for key in differing]

    apart: dict[str, list[Record]] = defaultdict(list)
    for record in sorted(records, key=lambda r: [*map(_sortable, values(r))]):
        settings = zip(differing, values(record), strict=True)
        apart[", ".join(f"{key}={show(value)}" for key, value in settings)].append(record)
    return list(apart.items())


def varying_settings(records: Iterable[Record]) -> list[str]:
    """Names of the method settings that are not the same in all records."""
    settings = [r.get("method_settings") or {} for r in records]
    names = dict.fromkeys(name for values in settings for name in values)
    return [name for name in names if len({repr(values.get(name)) for values in settings}) > 1]


def show(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _sortable(value: Any) -> tuple[bool, float, str]:
    number = isinstance(value, int | float)
    return (not number, float(value) if number else 0.0, str(value))


def _retrain_of(record: Record, retrains: list[Record]) -> Record | None:
    """The Retrain of the same seed: the one it was evaluated against, where there are several."""
    same_seed = [r for r in retrains if r["seed"] == record["seed"]]
    named = [r for r in same_seed if record.get("against") == r["run"]]
    return next(iter(named or same_seed), None)


def _gaps(record: Record, retrain: Record | None) -> dict[str, float] | None:
    """Without a Retrain at hand, the gaps that were stored with the record are taken."""
    if record["method"] == "retrain":
        return None
    if retrain is None:
        return record.get("gaps")
    return gaps(record["metrics"], retrain["metrics"]) if _complete(record) and _complete(retrain) else None


def _complete(record: Record) -> bool:
    values = [record["metrics"].get(name) for name in compared(record["metrics"])]
    return all(v is not None and math.isfinite(v) for v in values)
