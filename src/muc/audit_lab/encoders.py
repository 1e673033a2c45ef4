"""Small encoders of the same images and different seeds: between two of them nothing was unlearned."""

from dataclasses import dataclass, replace
from pathlib import Path

from muc import api, config, opening, runs
from muc.audit import Embed
from muc.data import ImageSet
from muc.data.files import select
from muc.errors import UserError
from muc.models import ContrastiveModel
from muc.progress import meter
from muc.recipes import recipe
from muc.run_folder import RunFolder

DATA = ("glyphs", "digits")
RUNTIME = config.Runtime(device="cpu", threads=1)
DATA_SEED = 0
"""Draws which images are trained on; the same for all encoders, so that only the training differs."""


@dataclass(frozen=True)
class Encoder:
    """A trained model, the images it was trained on, and how it may be asked."""

    model: ContrastiveModel
    embed: Embed
    images: ImageSet
    """`train` holds exactly the images trained on."""
    settings: config.Pretraining


def lab_settings(data: str, epochs: int | None = None) -> config.Pretraining:
    """The recipe whose encoders memorise; `epochs` for a quick look."""
    if data not in DATA:
        raise UserError(f"the lab trains many encoders and does so on embedded data; give glyphs or digits, not {data}")
    settings = recipe(data)
    if settings.data.train_limit is None:  # 1,400 digits would take ten times as long as 200 glyphs, without need
        settings = replace(settings, data=replace(settings.data, train_limit=200))
    return settings if epochs is None else replace(settings, optimisation=replace(settings.optimisation, epochs=epochs))


def train_encoders(settings: config.Pretraining, count: int, folder: Path) -> list[RunFolder]:
    """Runs of seeds 0, 1, … in `folder`; finished ones are taken as they are, interrupted ones go on."""
    found = [RunFolder(folder / f"seed{seed}") for seed in range(count)]
    with meter("encoders", count, "encoders") as progress:
        progress.start_at(sum(run.done for run in found))
        for seed, run in enumerate(found):
            if run.done:
                check_same(run, replace(settings, seed=seed))
                continue
            train_encoder(replace(settings, seed=seed), run)
            progress.advance()
    return found


def train_encoder(settings: config.Pretraining, run: RunFolder) -> None:
    if run.started:
        check_same(run, settings)
        runs.resume_run(run)
        return
    runs.pretrain_run(settings, run.path, RUNTIME, split_seed=DATA_SEED)


def check_same(run: RunFolder, settings: config.Pretraining) -> None:
    found = opening.pretraining_of(run)
    if (found.data, found.model, found.views, found.optimisation, found.seed) != (
        settings.data,
        settings.model,
        settings.views,
        settings.optimisation,
        settings.seed,
    ):
        raise UserError(f"{run} was trained with other settings; give another --runs folder")


def open_encoder(run: RunFolder, runtime: config.Runtime = RUNTIME) -> Encoder:
    """A finished run, with its image set cut down to what it was trained on."""
    settings, rows = opening.pretraining_of(run), run.split().train
    if settings.model.algorithm == "clip":
        raise UserError(f"{run} is a model of image-text pairs; give an image encoder, of simclr or moco")
    images = opening.open_images(run)
    labels = images.train_labels[rows]
    trained = replace(images, train=select(images.train, rows), train_labels=labels, train_names=())
    model = opening.open_model(run, images)
    return Encoder(model, api.embedder(model, runtime), trained, settings)
