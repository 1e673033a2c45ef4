"""The folder of one audit: what is in which file, and who may see it when.

commitment.json       public at once: terms in the clear, the secret as a hash; signed
forget.txt            goes to the model owner: the images to delete, no others
secret.json           images given away and withheld, split, salt, seed; secret until the verdict, then it opens the
                      commitment
private/key.pem       never leaves the folder
private/images.json   where the image files are on this computer; never needed by anybody else
answers/              what the models answered, one signed file a batch
verdict.json          signed; names every file above by its hash
report.html           the same for people
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from muc.audit.contrasts import FEWEST, check_sizes
from muc.audit.hold_back import ALPHA
from muc.audit.protocol.records import as_record, digest, is_digest, read_bytes, read_object
from muc.audit.protocol.signing import check_signature
from muc.audit.splits import DRAWS
from muc.config import Views, in_range
from muc.errors import UserError

Phase = Literal["before", "after"]
PHASES: tuple[Phase, Phase] = ("before", "after")
COMMITMENT, SECRET, VERDICT, IMAGES = (
    "muc-audit-commitment",
    "muc-audit-secret",
    "muc-audit-verdict",
    "muc-audit-images",
)
STATISTIC = "smaller one-sided p of FS and negative alignment, over the same splits"
FEWEST_VIEWS = 4  # two that both models see and two of its own each, so that either half has a pair


@dataclass(frozen=True)
class Terms:
    """What is fixed before anything is asked. Public: nothing here tells which images are controls."""

    n_forget: int
    n_control: int
    n_withheld: int
    """Images that the model owner never had: 0, or enough to tell what the model remembers of the others."""
    views: int
    """Random views of each image that each model sees: half of them the same for both models."""
    decoys: int
    repeats: int
    near_duplicates: int
    augmentation: Views
    statistic: str = STATISTIC
    alpha: float = ALPHA
    confidence: float = 0.95
    draws: int = DRAWS
    margin: float = 0.02
    """Deleted images are treated like withheld ones if no alignment differs by so much: half of what Retrain's does in
    the paper."""

    def __post_init__(self) -> None:
        check_sizes(self.n_forget, self.n_control)
        if self.n_withheld:
            in_range("the number of withheld images", self.n_withheld, FEWEST, 1_000_000)
        in_range("views", self.views, FEWEST_VIEWS, 1000)
        in_range("decoys", self.decoys, 2, 100_000)
        in_range("repeats", self.repeats, 1, self.n_asked * self.views // 4)
        in_range("near_duplicates", self.near_duplicates, 1, self.n_asked * self.shared_views)
        in_range("alpha", self.alpha, 1e-6, 0.5)
        in_range("confidence", self.confidence, 0.5, 0.9999)
        in_range("draws", self.draws, 99, 1_000_000)
        in_range("margin", self.margin, 1e-6, 2)
        if self.statistic != STATISTIC:
            raise UserError(f"the statistic is '{self.statistic[:80]}'; this version knows '{STATISTIC}'")

    @property
    def n_images(self) -> int:
        """Given to the model owner."""
        return self.n_forget + self.n_control

    @property
    def n_asked(self) -> int:
        """Those and the withheld ones, which come last."""
        return self.n_images + self.n_withheld

    @property
    def shared_views(self) -> int:
        return self.views // 2

    @property
    def queries(self) -> int:
        """Pictures that one model is asked about."""
        return self.n_asked * self.views + self.extras

    @property
    def extras(self) -> int:
        """Of these, what only tells whether the others can be believed."""
        return self.decoys + self.repeats + self.near_duplicates


@dataclass(frozen=True)
class ImageRecord:
    name: str
    sha256: str
    """Of the file."""


@dataclass(frozen=True)
class Secret:
    """What the commitment's hash stands for."""

    images: list[ImageRecord]
    forget: list[int]
    """Which of the images deletion is requested for; the others are the controls."""
    withheld: list[ImageRecord]
    """Images that the model owner never had."""
    seed: str
    """Views, decoys, order of the queries and the draws of the permutation test all follow from it."""
    salt: str
    """Makes the hash tell nothing about images and split, which would be easy to try out."""

    @property
    def asked(self) -> list[ImageRecord]:
        """All images that the models are asked about, in the order of the queries."""
        return self.images + self.withheld

    @property
    def mask(self) -> np.ndarray:
        """(n,) true where deletion was requested."""
        return np.isin(np.arange(len(self.images)), self.forget)

    @property
    def names(self) -> list[str]:
        return [image.name for image in self.images]

    def forget_text(self) -> str:
        return "".join(f"{name}\n" for name in sorted(self.images[i].name for i in self.forget))


@dataclass(frozen=True)
class Commitment:
    created: str
    public_key: str
    secret_sha256: str
    terms: Terms


@dataclass(frozen=True)
class Locations:
    """Where the image files are, in the order of `Secret.asked`."""

    paths: list[str]


class AuditFolder:
    """One audit on disk."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self.commitment_file = self.path / "commitment.json"
        self.secret_file = self.path / "secret.json"
        self.forget_file = self.path / "forget.txt"
        self.key_file = self.path / "private" / "key.pem"
        self.images_file = self.path / "private" / "images.json"
        self.answers = self.path / "answers"
        self.verdict_file = self.path / "verdict.json"
        self.report_file = self.path / "report.html"

    def __str__(self) -> str:
        return str(self.path)

    def commitment(self) -> Commitment:
        """Whose signature is right; by itself this only says that it is whole."""
        if not self.commitment_file.is_file():
            raise UserError(f"there is no audit at {self}; begin one with: muc audit start IMAGES --out {self}")
        values = read_object(self.commitment_file, COMMITMENT)
        plain = check_signature(values, str(values.get("public_key")), self.commitment_file)
        return as_record(Commitment, plain, self.commitment_file)

    def commitment_digest(self) -> str:
        return digest(read_bytes(self.commitment_file))

    def secret(self) -> Secret:
        """Which must be what was committed to."""
        commitment = self.commitment()
        if digest(read_bytes(self.secret_file)) != commitment.secret_sha256:
            raise UserError(f"{self.secret_file} is not what {self.commitment_file} commits to; restore it from a copy")
        secret = as_record(Secret, read_object(self.secret_file, SECRET), self.secret_file)
        n, terms = len(secret.images), commitment.terms
        whole = (
            n == terms.n_images
            and secret.forget == sorted(set(secret.forget))
            and len(secret.forget) == terms.n_forget
            and all(0 <= i < n for i in secret.forget)
            and len(secret.withheld) == terms.n_withheld
            and all(is_digest(image.sha256) for image in secret.asked)
        )
        if not whole:
            raise UserError(f"{self.secret_file} does not fit the terms in {self.commitment_file}; start another audit")
        return secret

    def locations(self) -> list[Path]:
        values = read_object(self.images_file, IMAGES)
        paths = as_record(Locations, values, self.images_file).paths
        if len(paths) != self.commitment().terms.n_asked:
            raise UserError(f"{self.images_file} names {len(paths)} images; restore it from a copy")
        return [Path(path) for path in paths]
