"""A run read back: its settings, method, images, model, and what a data owner may query of it."""

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import numpy as np
import torch

from muc import config
from muc.data import ImageSet, load_images
from muc.data.images import OF_FILES
from muc.data.inventory import Inventory, put_back
from muc.data.sources import data_root
from muc.errors import UserError, check_name
from muc.evaluation.features import embed
from muc.methods import METHODS, Method
from muc.models import ContrastiveModel, build_model
from muc.restoring import restore
from muc.run_folder import IMAGES, RunFolder
from muc.runtime import Runtime
from muc.seeds import derive_seed


class Shaped(Protocol):
    """What a model must know of the images it is to see."""

    @property
    def channels(self) -> int: ...
    @property
    def image_size(self) -> int: ...


def fresh_model(settings: config.Pretraining, images: Shaped, seed: int) -> ContrastiveModel:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive_seed("init", seed))
        return build_model(settings.model, images.channels, images.image_size)


def load_weights(model: ContrastiveModel, run: RunFolder) -> None:
    try:
        model.load_state_dict(run.load_model())
    except RuntimeError as error:
        raise misfit("weights", run, error) from None


def misfit(what: str, run: RunFolder, error: Exception) -> UserError:
    detail = str(error).splitlines()[1].strip() if "\n" in str(error) else str(error)
    return UserError(f"the {what} in {run} do not fit its architecture ({detail}); make the run again")


def open_model(run: RunFolder, images: Shaped) -> ContrastiveModel:
    """A finished run's model, ready to embed."""
    model = fresh_model(pretraining_of(run), images, 0)
    load_weights(model, run)
    return model.eval()


@dataclass(frozen=True)
class Embedder:
    """A finished run behind the black-box interface: uint8 images in, backbone features out, nothing else."""

    model: ContrastiveModel
    runtime: Runtime
    views: config.Views
    input_shape: tuple[int, int]  # channels, side length

    def __call__(self, images: np.ndarray) -> np.ndarray:
        return embed(self.model, images, self.runtime).cpu().numpy()


def embedder(run: RunFolder, settings: config.Runtime | None = None) -> Embedder:
    """What a data owner may query of a run. It needs no images: an endpoint can be far from them."""
    images, runtime = inventory_of(run) or open_images(run), Runtime(settings)
    model = runtime.place(open_model(run, images))
    return Embedder(model, runtime, pretraining_of(run).views, (images.channels, images.image_size))


def inventory_of(run: RunFolder) -> Inventory | None:
    """What its images were; runs of the first weeks do not say."""
    if (kept := run.inventory()) is None:
        return None
    try:
        return Inventory.from_tensors(*kept)
    except (KeyError, TypeError):
        raise UserError(
            f"{run.path / IMAGES} does not say what the run's images were; restore it from a copy"
        ) from None


def open_images(run: RunFolder, needed: np.ndarray | None = None) -> ImageSet:
    """The run's data, which must be what it began with; where only the `needed` training images must be there (by
    default all that the run was made with), others may have been erased."""
    data, digest = pretraining_of(run).data, str(run.config()["data_sha256"])
    # Streamed if it was at first, on whatever machine this is: the digests of files and pixels cannot be compared.
    data = replace(data, stream="on" if digest.startswith(OF_FILES) else "off")
    inventory, split = inventory_of(run), run.split()
    images = load_images(located(data, run), complete=inventory is None)
    changed = images.digest != digest
    if changed and inventory is None:
        raise UserError(f"the data '{data.name}' is not what {run} was made with; restore the original images")
    count, last = len(inventory.train if inventory else images.train), split.all.max(initial=0)
    if last >= count:
        raise UserError(f"{run} names image {last}, but {images.name} had {count}; restore its split.json")
    if changed and inventory:
        images = put_back(images, inventory, split.all if needed is None else needed, str(run))
    return images


def located(data: config.Data, run: RunFolder) -> config.Data:
    """Where the data are now: the place that the run names, or, where that is gone, the data folder (MUC_DATA)."""
    path, elsewhere = Path(data.name), replace(data, root=None)
    if not path.is_absolute():
        return data if data.root and data.root.exists() else elsewhere
    if path.exists():
        return data
    moved = (data_root(elsewhere) / path.name).resolve()  # its files may be named by their whole paths
    if not moved.exists():
        raise UserError(
            f"the data of {run} are not at '{data.name}' any more; put them back, or name the folder that holds "
            f"'{path.name}' in MUC_DATA"
        )
    return replace(data, name=str(moved))


def parent_of(run: RunFolder) -> RunFolder | None:
    parent = run.config().get("parent")
    return RunFolder(os.path.normpath(run.path / parent["path"])) if parent else None


def pretraining_of(run: RunFolder) -> config.Pretraining:
    return restore(config.Pretraining, run.config()["pretraining"], f"{run.config_file}: pretraining", defaults=True)


def method_of(run: RunFolder) -> Method | None:
    values = run.config().get("method")
    if values is None:
        return None
    name = check_name("method", values["name"], METHODS)
    settings = {key: value for key, value in values.items() if key != "name"}
    return restore(METHODS[name], settings, f"{run.config_file}: method", defaults=True)


def method_name(method: Method) -> str:
    return next(name for name, kind in METHODS.items() if kind is type(method))


def optimisation_of(settings: config.Pretraining, method: Method) -> config.Optimisation:
    """The original's optimiser; unlearning has its own epochs and a constant learning rate."""
    optimisation = settings.optimisation
    if method.epochs is not None:
        optimisation = replace(optimisation, epochs=method.epochs)
    if method.learning_rate is not None:
        optimisation = replace(optimisation, learning_rate=method.learning_rate)
    if method.start == "scratch":
        return optimisation
    return replace(optimisation, schedule="constant", warmup_epochs=0.0)
