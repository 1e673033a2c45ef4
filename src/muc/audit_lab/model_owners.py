"""Who answers the owners in the red team's rounds: three honest model owners, and those who cheat."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path

import numpy as np

from muc import api, opening
from muc.audit import Embed
from muc.audit_lab import cheats
from muc.audit_lab.cheats import Service
from muc.audit_lab.encoders import Encoder
from muc.audit_lab.tuning import ListedOnly, TraceOnly
from muc.config import Runtime
from muc.methods import FineTune, Method
from muc.methods.recipes import default_method
from muc.models import ContrastiveModel
from muc.runtime import resolve_device
from muc.seeds import derive_seed
from muc.storage import load_tensors, make_folder, save_tensors


@dataclass(frozen=True)
class Desk:
    """One round at the model owner's: the model, the request, and a folder for weights that take long to make."""

    encoder: Encoder
    listed: np.ndarray
    """Rows of the training images to forget, of all owners who asked in this round."""
    half: np.ndarray
    """Half of every owner's."""
    folder: Path
    round_name: str
    seed: int
    runtime: Runtime
    another: Callable[[], Embed]
    """A model of the same data and another seed."""
    given_retrain: Embed | None = None
    """A Retrain without the listed images that is there already; else it is trained."""

    @cached_property
    def pixels(self) -> np.ndarray:
        return np.asarray(self.encoder.images.train)

    @cached_property
    def recognise(self) -> cheats.Recognition:
        mask = np.isin(np.arange(len(self.pixels)), self.listed)
        return cheats.Recognition(self.encoder.embed, self.pixels, mask, resolve_device(self.runtime.device))

    @cached_property
    def centre(self) -> np.ndarray:
        """One vector to push listed images to: their own mean direction."""
        vectors = cheats.unit(self.encoder.embed(self.pixels[self.listed]))
        return cheats.unit(vectors.mean(axis=0, keepdims=True))[0]

    def method(self, name: str) -> Method:
        settings = self.encoder.settings
        return default_method(name, settings.data.name, settings.model.algorithm)

    @cached_property
    def calibrated(self) -> Embed:
        return self.tuned("alignment_calibration", self.method("alignment_calibration"), self.listed)

    def tuned(self, name: str, method: Method, rows: np.ndarray) -> Embed:
        """The model after a method on these rows."""
        optimisation = self.encoder.settings.optimisation

        def train() -> ContrastiveModel:
            return api.unlearn(
                self.encoder.model,
                self.encoder.images,
                rows.tolist(),
                method,
                self.encoder.settings.views,
                batch_size=optimisation.batch_size,
                momentum=optimisation.momentum,
                weight_decay=optimisation.weight_decay,
                seed=self.seed,
                runtime=self.runtime,
            )

        return self.kept(name, train, f"{method} on {rows.tolist()}")

    def retrained(self) -> Embed:
        """From scratch without the listed images."""
        if self.given_retrain is not None:
            return self.given_retrain
        settings, images = self.encoder.settings, self.encoder.images

        def train() -> ContrastiveModel:
            return api.pretrain(
                opening.fresh_model(settings, images, self.seed),
                images,
                settings.optimisation,
                settings.views,
                leave_out=self.listed.tolist(),
                seed=self.seed,
                runtime=self.runtime,
            )

        return self.kept("retrain", train, f"{settings.optimisation} without {self.listed.tolist()}")

    def kept(self, name: str, train: Callable[[], ContrastiveModel], made: str) -> Embed:
        path = self.folder / f"{self.round_name}-{name}.safetensors"
        return api.embedder(stored(path, train, made, self.encoder), self.runtime)


def stored(path: Path, train: Callable[[], ContrastiveModel], made: str, encoder: Encoder) -> ContrastiveModel:
    """Weights from the folder if they were made in the same way, else made and put there: so a red team that was cut
    off goes on."""
    of_encoder = sha256(b"".join(v.cpu().numpy().tobytes() for v in encoder.model.state_dict().values())).hexdigest()
    about = {"kind": "audit lab", "made": made, "from": of_encoder}
    if path.is_file():
        tensors, found = load_tensors(path)
        if found == about:
            model = opening.fresh_model(encoder.settings, encoder.images, 0)
            model.load_state_dict(tensors)
            return model.eval()
    make_folder(path.parent)  # before what takes long
    model = train()
    save_tensors(path, model.state_dict(), about)
    return model


def pretrained_again(encoder: Encoder, folder: Path, name: str, runtime: Runtime) -> Embed:
    """The same training with another seed, for those who swap models."""
    seed = derive_seed("red team swap", encoder.settings.seed)

    def train() -> ContrastiveModel:
        return api.pretrain(
            opening.fresh_model(encoder.settings, encoder.images, seed),
            encoder.images,
            encoder.settings.optimisation,
            encoder.settings.views,
            seed=seed,
            runtime=runtime,
        )

    made = str(encoder.settings.optimisation)
    return api.embedder(stored(folder / f"{name}-another.safetensors", train, made, encoder), runtime)


@dataclass(frozen=True)
class ModelOwner:
    """How a model owner serves the request."""

    name: str
    honest: bool
    serve: Callable[[Desk], Service]


def shimmed(desk: Desk, embed: Embed, recognise: cheats.Recognise) -> Service:
    return cheats.Push(embed, recognise, desk.centre)


def slightly_tuned(desk: Desk) -> Embed:
    """New weights, for show: one epoch at a hundredth of the usual step."""
    method = desk.method("finetune")
    small = replace(method, epochs=1, learning_rate=(method.learning_rate or 0.01) / 100)
    return desk.tuned("slightly-tuned", small, desk.listed)


def busy(desk: Desk, kind: type[ListedOnly] | type[TraceOnly]) -> Embed:
    """As long and with the same steps as Alignment Calibration would take."""
    reference = desk.method("alignment_calibration")
    method = kind(epochs=reference.epochs, learning_rate=reference.learning_rate)
    return desk.tuned(kind.__name__, method, desk.listed)


def old(desk: Desk) -> Embed:
    return desk.encoder.embed


MODEL_OWNERS = (
    ModelOwner("Alignment Calibration", True, lambda desk: cheats.Plain(desk.calibrated)),
    ModelOwner("Retrain", True, lambda desk: cheats.Plain(desk.retrained())),
    ModelOwner(
        "fine-tune on the retained",
        True,
        lambda desk: cheats.Plain(desk.tuned(FineTune.__name__, desk.method("finetune"), desk.listed)),
    ),
    ModelOwner("no-op", False, lambda desk: cheats.Plain(old(desk))),
    ModelOwner("seed swap", False, lambda desk: cheats.Plain(desk.another())),
    ModelOwner("fine-tune on the listed only", False, lambda desk: cheats.Plain(busy(desk, ListedOnly))),
    ModelOwner("trace-only fine-tune", False, lambda desk: cheats.Plain(busy(desk, TraceOnly))),
    ModelOwner(
        "half of the images unlearned",
        False,
        lambda desk: cheats.Plain(desk.tuned("half", desk.method("alignment_calibration"), desk.half)),
    ),
    ModelOwner("noise on all answers", False, lambda desk: cheats.Noise(old(desk))),
    ModelOwner("rounded answers", False, lambda desk: cheats.Rounding(old(desk))),
    ModelOwner(
        "memorised answers to exact inputs",
        False,
        lambda desk: shimmed(desk, old(desk), cheats.ExactInputs(desk.pixels[desk.listed])),
    ),
    ModelOwner("shim: pushes recognised images", False, lambda desk: shimmed(desk, old(desk), desk.recognise)),
    ModelOwner(
        "the same over slightly tuned weights", False, lambda desk: shimmed(desk, slightly_tuned(desk), desk.recognise)
    ),
    ModelOwner(
        "a smooth push over slightly tuned weights",
        False,
        lambda desk: cheats.SmoothPush(slightly_tuned(desk), desk.recognise, desk.centre),
    ),
    ModelOwner("shim: blurs recognised images", False, lambda desk: cheats.Blur(old(desk), desk.recognise)),
    ModelOwner(
        "routes the owner's key to an unlearned copy", False, lambda desk: cheats.RouteKey(old(desk), desk.calibrated)
    ),
    ModelOwner(
        "routes recognised images to an unlearned copy",
        False,
        lambda desk: cheats.RouteQueries(old(desk), desk.calibrated, desk.recognise),
    ),
)
