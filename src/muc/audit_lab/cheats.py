"""Model owners behind the black-box interface, who do something else than what they were asked for.

They know the images that the request lists, all of their own training images and every query as it comes, but not
which of the owner's other images are controls. A service answers (images, key): who asks is known to it, too.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256

import numpy as np
import torch

from muc.audit import Embed

Service = Callable[[np.ndarray, str], np.ndarray]
OWNER_KEY, OTHER_KEY = "owner", "somebody"
"""Under which key the request was made, and one that the service does not connect with it."""

QUERIES = 2048
"""How many queries are compared with all training images at once."""
PUSH = 0.2
"""As strong as it takes to match Alignment Calibration's gap."""


def unit(vectors: np.ndarray) -> np.ndarray:
    exact = np.asarray(vectors, dtype=np.float64)
    return exact / np.maximum(np.linalg.norm(exact, axis=1, keepdims=True), 1e-12)


@dataclass(frozen=True)
class Plain:
    """Answers from one model, the same to everybody: every honest owner, and those who only trained dishonestly."""

    embed: Embed

    def __call__(self, images: np.ndarray, key: str) -> np.ndarray:
        return self.embed(images)


class Recognition:
    """Tells queries that show a listed image: the nearest training image, by the old model's own embedding.

    Fresh crops make that harder than comparing pixels, but the model was trained to see past crops.
    """

    def __init__(
        self, embed: Embed, trained: np.ndarray, listed: np.ndarray, device: torch.device | str = "cpu"
    ) -> None:
        """(n, c, h, w) training images, (n,) true where listed in the request; queries are compared on the device."""
        self.embed, self.device = embed, device
        self.listed, self.others = self._directions(trained[listed]), self._directions(trained[~listed])

    def __call__(self, images: np.ndarray) -> np.ndarray:
        """(q, c, h, w) -> (q,) true where taken for a listed image."""
        return self.margin(images) > 0

    def margin(self, images: np.ndarray) -> np.ndarray:
        """(q, c, h, w) -> (q,) how much nearer the nearest listed image is than the nearest other, in cosine."""
        parts = self._directions(images).split(QUERIES)
        margins = [(q @ self.listed.T).amax(dim=1) - (q @ self.others.T).amax(dim=1) for q in parts]
        return torch.cat(margins).double().cpu().numpy()

    def _directions(self, images: np.ndarray) -> torch.Tensor:
        """In single precision: comparing is most of a cheat's work, and the last digits decide nothing."""
        return torch.from_numpy(unit(self.embed(images))).to(self.device, torch.float32)


class ExactInputs:
    """Tells queries that are a listed image, pixel by pixel."""

    def __init__(self, listed: np.ndarray) -> None:
        self.digests = {fingerprint(image) for image in listed}

    def __call__(self, images: np.ndarray) -> np.ndarray:
        return np.array([fingerprint(image) in self.digests for image in images], dtype=bool)


Recognise = Callable[[np.ndarray], np.ndarray]
"""(q, c, h, w) queries -> (q,) true where the service gives them special treatment."""


def fingerprint(image: np.ndarray) -> bytes:
    return sha256(np.ascontiguousarray(image).tobytes()).digest()


@dataclass(frozen=True)
class Push:
    """An API shim: answers to recognised queries are pulled towards one vector; no weight changes for it."""

    embed: Embed
    recognise: Recognise
    target: np.ndarray
    strength: float = PUSH

    def __call__(self, images: np.ndarray, key: str) -> np.ndarray:
        vectors = np.array(self.embed(images), dtype=np.float64)
        hit = self.recognise(images)
        vectors[hit] = (1 - self.strength) * unit(vectors[hit]) + self.strength * self.target
        return vectors


@dataclass(frozen=True)
class SmoothPush:
    """The same without a border between recognised and other queries: the surer, the stronger. Images and weights go
    in, a continuous function comes out: seen from outside this is a model like any other."""

    embed: Embed
    recognise: Recognition
    target: np.ndarray
    strength: float = PUSH
    width: float = 0.03

    def __call__(self, images: np.ndarray, key: str) -> np.ndarray:
        sure = 1 / (1 + np.exp(-self.recognise.margin(images)[:, None] / self.width))
        return (1 - self.strength * sure) * unit(self.embed(images)) + self.strength * sure * self.target


@dataclass(frozen=True)
class Blur:
    """An API shim: recognised queries get a disturbance that depends on their pixels, so that asking again shows
    nothing. It lowers the alignment of listed images, which looks like a forgetting score."""

    embed: Embed
    recognise: Recognise
    strength: float = 0.3

    def __call__(self, images: np.ndarray, key: str) -> np.ndarray:
        vectors = np.array(self.embed(images), dtype=np.float64)
        for i in np.flatnonzero(self.recognise(images)):
            rng = np.random.default_rng(int.from_bytes(fingerprint(images[i])[:8], "little"))
            vectors[i] = unit(vectors[i : i + 1])[0] + self.strength * unit(rng.normal(size=(1, vectors.shape[1])))[0]
        return vectors


@dataclass(frozen=True)
class Noise:
    """The old model with fresh noise on every answer."""

    embed: Embed
    strength: float = 0.2
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))

    def __call__(self, images: np.ndarray, key: str) -> np.ndarray:
        vectors = unit(self.embed(images))
        return vectors + self.strength * unit(self.rng.normal(size=vectors.shape))


@dataclass(frozen=True)
class Rounding:
    """The old model with coarse answers: in steps of half of a coordinate's usual size."""

    embed: Embed

    def __call__(self, images: np.ndarray, key: str) -> np.ndarray:
        vectors = unit(self.embed(images))
        step = 0.5 / vectors.shape[1] ** 0.5
        return np.round(vectors / step) * step


@dataclass(frozen=True)
class RouteKey:
    """Who made the request talks to a model that forgot; everybody else to the old one, which stays in use."""

    public: Embed
    shown: Embed

    def __call__(self, images: np.ndarray, key: str) -> np.ndarray:
        return (self.shown if key == OWNER_KEY else self.public)(images)


@dataclass(frozen=True)
class RouteQueries:
    """Recognised queries go to a model that forgot, all others to the old one, which stays in use."""

    public: Embed
    shown: Embed
    recognise: Recognise

    def __call__(self, images: np.ndarray, key: str) -> np.ndarray:
        vectors = np.array(self.public(images))
        hit = self.recognise(images)
        if hit.any():
            vectors[hit] = self.shown(images[hit])
        return vectors
