"""False alarms of every test, on encoders between which nothing was unlearned: every "changed" is one.

Each pair of encoders was trained on the same images with different seeds. Both answer the same random views of all
their training images once, through the black-box interface; an owner's alignment gap matrix is a part of that, so
thousands of audits cost no further query.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any

import numpy as np

from muc.audit import look
from muc.audit.hold_back import ALPHA
from muc.audit_lab.encoders import open_encoder
from muc.audit_lab.judging import TESTS, all_p_values
from muc.audit_lab.owners import KINDS, Kind, draw_owner
from muc.audit_lab.rates import Rate, rate_of
from muc.progress import meter
from muc.run_folder import RunFolder

SIZES = (5, 10, 20)
AUDITS = 200
"""Simulated audits for each pair of encoders, size and kind of owner."""


@dataclass(frozen=True)
class Cell:
    """One test on one kind of owner."""

    test: str
    owner: Kind
    n: int
    """Images to forget, and as many controls."""
    rate: Rate


@dataclass(frozen=True)
class Calibration:
    data: str
    pairs: int
    audits: int
    view_pairs: int
    alpha: float
    cells: list[Cell]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def find(self, test: str, owner: str, n: int) -> Rate:
        return next(c.rate for c in self.cells if (c.test, c.owner, c.n) == (test, owner, n))


@dataclass(frozen=True)
class Exchange:
    """What two encoders of the same training images answered: the gap matrix of all of them."""

    agm: np.ndarray
    labels: np.ndarray


def exchange(before: RunFolder, after: RunFolder, view_pairs: int, seed: int) -> Exchange:
    """Swap one seed's encoder for another's, and look at every training image."""
    first, second = open_encoder(before), open_encoder(after)
    images = first.images
    seen = look(first.embed, second.embed, np.asarray(images.train), first.settings.views, None, view_pairs, seed)
    return Exchange(np.array(seen.gap), images.train_labels)


def exchanges(runs: Sequence[RunFolder], view_pairs: int = 8) -> Iterator[Exchange]:
    """Disjoint pairs: no encoder serves twice, so what one pair shows says nothing about another."""
    for pair, (before, after) in enumerate(zip(runs[::2], runs[1::2], strict=False)):
        yield exchange(before, after, view_pairs, seed=pair)


def calibrate(
    pairs: Sequence[Exchange],
    data: str,
    audits: int = AUDITS,
    view_pairs: int = 8,
    sizes: Sequence[int] = SIZES,
    kinds: Sequence[Kind] = KINDS,
    seed: int = 0,
) -> Calibration:
    """Simulate `audits` audits for each pair, size and kind of owner, and count the false alarms of every test."""
    cells = []
    with meter("audits", len(sizes) * len(kinds) * len(pairs) * audits, "audits") as progress:
        for n, kind in product(sizes, kinds):
            alarms = {test: np.zeros((len(pairs), audits), dtype=bool) for test in TESTS}
            for i, pair in enumerate(pairs):
                rng = np.random.default_rng([seed, n, KINDS.index(kind), i])
                for j in range(audits):
                    for test, p in one_audit(pair, kind, n, rng).items():
                        alarms[test][i, j] = p <= ALPHA
                progress.advance(audits, f"{kind}, N = M = {n}")
            cells += [Cell(test, kind, n, rate_of(found)) for test, found in alarms.items()]
    total = len(sizes) * len(kinds) * len(pairs) * audits
    return Calibration(data, len(pairs), total, view_pairs, ALPHA, cells)


def one_audit(pair: Exchange, kind: Kind, n: int, rng: np.random.Generator) -> dict[str, float]:
    """-> p of every test for one random owner with one random split.

    Eight seeds for the splits that the test draws: it is valid for any, and drawing them anew takes most of the time.
    """
    owner = draw_owner(pair.labels, kind, n, n, rng)
    return all_p_values(pair.agm[np.ix_(owner.rows, owner.rows)], owner.forget, seed=int(rng.integers(8)))
