"""Who asks in a round of the red team, and what lies on the model owner's desk then."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from muc.audit import Embed
from muc.audit_lab.encoders import Encoder
from muc.audit_lab.given_runs import Retrained
from muc.audit_lab.model_owners import Desk
from muc.audit_lab.owners import Owner
from muc.config import Runtime
from muc.errors import UserError
from muc.seeds import derive_seed

OWNERS = 4
"""Who ask in one round."""

Round = tuple[Desk, list[Owner]]


@dataclass(frozen=True)
class Office:
    """What a model owner has before anybody asks."""

    encoder: Encoder
    folder: Path
    name: str
    runtime: Runtime
    another: Callable[[], Embed]
    """A model of the same data and another seed."""

    def desk(self, request: str, listed: np.ndarray, half: np.ndarray, seed: int, retrain: Embed | None = None) -> Desk:
        name = f"{self.name}-{request}"
        return Desk(self.encoder, listed, half, self.folder, name, seed, self.runtime, self.another, retrain)


def rounds_of(
    office: Office, rounds: int, n: int, n_owners: int, retrained: Retrained | None = None
) -> Iterator[Round]:
    """A new request in each round; or, of a Retrain that is there already, one desk, to which other owners come."""
    if retrained is None:
        yield from (set_up(office, index, n, n_owners) for index in range(rounds))
        return
    check_request(retrained, n, n_owners)
    desk = desk_of(retrained, office, n)
    for index in range(rounds):
        yield desk, draw_askers(desk, retrained.retained, n, n_owners, index)


def set_up(office: Office, index: int, n: int, n_owners: int = OWNERS) -> Round:
    """Owners with images of their own, chance's choice of what each has deleted, and the request that follows."""
    seed, available = office.encoder.settings.seed, len(office.encoder.images.train)
    if n_owners * 2 * n > available:
        raise UserError(
            f"{n_owners} owners of {2 * n} images need more than the {available} trained on; "
            "give a smaller --images or --owners"
        )
    rng = np.random.default_rng(derive_seed("red team", seed, index))
    rows = rng.choice(available, n_owners * 2 * n, replace=False)
    owners = [Owner(part, rng.permutation(2 * n) < n) for part in rows.reshape(n_owners, 2 * n)]
    listed = [owner.rows[owner.forget] for owner in owners]
    half = np.concatenate([part[: n // 2] for part in listed])
    training_seed = derive_seed("red team training", seed, index)
    return office.desk(f"round{index}-n{n}", np.concatenate(listed), half, training_seed), owners


def check_request(retrained: Retrained, n: int, n_owners: int) -> None:
    for what, rows in (("forgot", retrained.listed), ("retained", retrained.retained)):
        if n_owners * n > len(rows):
            raise UserError(
                f"{n_owners} owners need {n_owners * n} of the images that {retrained.name} {what}, which are "
                f"{len(rows)}; give a smaller --images or --owners"
            )


def desk_of(retrained: Retrained, office: Office, n: int) -> Desk:
    """The request that the Retrain served. Its half is the same whoever asks, so that models are trained once."""
    seed, listed = office.encoder.settings.seed, retrained.listed
    rng = np.random.default_rng(derive_seed("red team half", seed))
    half = rng.permutation(listed)[: len(listed) * (n // 2) // n]  # n // 2 for each owner, however many there are
    return office.desk(f"request{len(listed)}", listed, half, derive_seed("red team training", seed), retrained.embed)


def draw_askers(desk: Desk, retained: np.ndarray, n: int, n_owners: int, index: int) -> list[Owner]:
    """Owners whose listed images are part of a request that was served before they came.

    Chance drew the request from all training images, knowing nothing of owners, and chance deals its images and as many
    retained ones to them. So each choice of n among an owner's 2 n images is as likely to be the listed ones as any
    other: the same as if the owner had drawn the split. `half` is a random part of the request, and changes nothing.
    """
    rng = np.random.default_rng(derive_seed("red team", desk.encoder.settings.seed, index))
    pools = (desk.half, n // 2), (np.setdiff1d(desk.listed, desk.half), n - n // 2), (retained, n)
    dealt = np.concatenate([rng.choice(rows, (n_owners, each), replace=False) for rows, each in pools], axis=1)
    orders = rng.permuted(np.tile(np.arange(2 * n), (n_owners, 1)), axis=1)
    return [Owner(rows[order], order < n) for rows, order in zip(dealt, orders, strict=True)]


def joined(owners: Sequence[Owner]) -> list[Owner]:
    """Every two owners as one with twice as many images.

    Images were dealt to owners at random, so the joint split is as random as one drawn over all of them.
    """
    pairs = zip(owners[::2], owners[1::2], strict=True)
    return [Owner(np.concatenate([a.rows, b.rows]), np.concatenate([a.forget, b.forget])) for a, b in pairs]
