"""A user's own model becomes a finished run, on which everything works that works on a run muc trained."""

from dataclasses import asdict, dataclass, replace
from hashlib import file_digest
from pathlib import Path
from typing import Any

from torch import Tensor

from muc import config
from muc.batches import check_paired
from muc.data import ImageSet, load_images, make_split
from muc.data.inventory import take_inventory
from muc.data.sources import whole_path
from muc.errors import UserError
from muc.models.clip import CLIP
from muc.models.contract import ContrastiveModel
from muc.models.fitting import (
    Fit,
    backbone_form,
    check_values,
    find_backbones,
    find_head,
    head_fits,
    heads_by_name,
    shapes,
)
from muc.models.heads import Shapes
from muc.models.importing_clip import fill_clip, locate
from muc.models.moco import MoCo
from muc.models.weight_files import description_in, read_weights
from muc.opening import fresh_model
from muc.run_folder import RunFolder
from muc.runs import begun, free_place

NO_STEM_RELU = "no ReLU after the stem, as in nn.Sequential(*children) of lightly's ResNet (stem_relu is off)"


@dataclass(frozen=True)
class ImportSummary:
    """What became of a file's tensors."""

    prefix: str  # before the model's keys in the file
    style: str  # how the file names the model's parts
    matched: int
    ignored: tuple[str, ...]  # keys of the file that nothing was made of
    missing: tuple[str, ...]  # of our tensors, those the file lacks and nothing depends on
    fresh: tuple[str, ...]  # parts that did not come from the file
    notes: tuple[str, ...]

    def describe(self) -> str:
        """A few lines for a person."""
        where = f" under '{self.prefix}'" if self.prefix else ""
        lines = [f"{self.matched} tensors taken, found{where} in {self.style} naming"]
        if self.ignored:
            more = f" and {len(self.ignored) - 3} more" if len(self.ignored) > 3 else ""
            lines.append(f"ignored: {', '.join(self.ignored[:3])}{more}")
        lines += [f"not in the file: {part}" for part in self.fresh]
        return "\n".join(lines + [f"note: {text}" for text in self.notes])


def import_run(
    file: Path, settings: config.Pretraining, out: Path, runtime: config.Runtime | None = None, force: bool = False
) -> tuple[RunFolder, ImportSummary]:
    """Turn weights into a run folder as if muc had trained them on the data and split that `settings` name.

    `file` is a weight file; of an image-text model also a folder of Hugging Face's CLIPModel.
    """
    file, out = Path(file), Path(out)
    if file.resolve().is_relative_to(out.resolve()):
        raise UserError(f"{file} lies inside --out {out}, which would be emptied; give another --out")
    run = free_place(out, force)
    weights = file
    if settings.model.algorithm == "clip":
        weights, model_settings = locate(file, settings.model)
        settings = replace(settings, model=model_settings)
    settings = replace(settings, data=whole_path(settings.data))
    images = load_images(settings.data)
    split = make_split(images, settings.data, settings.seed)
    tensors = read_weights(weights)
    settings = replace(settings, model=as_described(settings.model, description_in(weights), images.channels))
    take = take_clip if settings.model.algorithm == "clip" else take_encoder
    settings, model, summary, naming = take(tensors, settings, images, file)
    with open(weights, "rb") as f:
        source = {"file": file.name, "sha256": file_digest(f, "sha256").hexdigest(), **naming}
    values = {
        "kind": "import",
        "pretraining": asdict(settings),
        "seed": settings.seed,
        "data_sha256": images.digest,
        "ancestry": [],
        "source": {**source, "summary": asdict(summary)},
    }
    with begun(run, values, split, take_inventory(images).to_tensors(), runtime, force):
        run.finish(model.state_dict(), {"kind": "import"}, {"seconds": 0.0, "peak_memory_bytes": None, "epochs": 0})
    return run, summary


def as_described(model: config.Model, about: dict[str, Any], channels: int) -> config.Model:
    """What one of muc's own exports says of itself, unless somebody says otherwise."""
    if model.architecture.startswith(config.OPEN_CLIP) or not isinstance(said := about.get("input"), dict):
        return model
    mean, std = tuple(said.get("mean") or ()), tuple(said.get("std") or ())
    if model.mean is None and (mean, std) != model.normalisation(channels):
        model = replace(model, mean=mean, std=std)
    return replace(model, stem_relu=model.stem_relu and about.get("stem_relu") is not False)


Taken = tuple[config.Pretraining, ContrastiveModel, ImportSummary, dict[str, Any]]
"""The settings as the weights have them, the model with them, what became of the file, and its naming."""


def take_encoder(tensors: dict[str, Tensor], settings: config.Pretraining, images: ImageSet, file: Path) -> Taken:
    found, shape = shapes(tensors), (settings.model.architecture, images.channels, images.image_size)
    fits = find_backbones(found, *shape, file)
    fit, head = fits[0], find_head(found, backbone_form(*shape).feature_dim)
    stem_relu = settings.model.stem_relu and fit.naming.style != "lightly children"
    settings = replace(settings, model=replace(settings.model, head=head, stem_relu=stem_relu))
    model = fresh_model(settings, images, settings.seed)
    summary = fill(model, tensors, fits, file)
    notes = list(summary.notes)
    if head is not None:
        guess = "; what has no weights was taken for a ReLU" if "relu" in head else ""
        notes.append(f"projection head: {', '.join(head)}{guess}")
    others = [f for f in fits if f.naming.prefix != fit.naming.prefix]
    if isinstance(model, MoCo):
        others = [f for f in others if not f.momentum]
    if others:
        named = " and ".join(sorted({f"'{other.naming.prefix}'" for other in others}))
        moco = "; if MoCo trained it, import it again with --algorithm moco" if any(f.momentum for f in others) else ""
        notes.append(f"the file has another encoder of this kind under {named}, which was not taken{moco}")
    return settings, model, replace(summary, notes=tuple(notes)), asdict(fit.naming)


def take_clip(tensors: dict[str, Tensor], settings: config.Pretraining, images: ImageSet, file: Path) -> Taken:
    check_paired(images.train_captions, f"'{settings.data.name}'")
    model = fresh_model(settings, images, settings.seed)
    assert isinstance(model, CLIP)
    naming, used = fill_clip(model, tensors, images.image_size, file)
    tower = model.backbone
    summary = ImportSummary(
        prefix=naming.prefix,
        style=naming.style,
        matched=len(used),
        ignored=tuple(key for key in tensors if key not in used),
        missing=(),
        fresh=(),
        notes=(
            f"images are normalised by mean {tower.mean} and deviation {tower.std}; "
            f"temperature {float(model.temperature.detach()):.4f}",
        ),
    )
    return settings, model, summary, asdict(naming)


def fill(model: ContrastiveModel, tensors: dict[str, Tensor], backbones: list[Fit], file: Path) -> ImportSummary:
    """Put the file's tensors into the model, the first of its backbones as the published one; what only training needs
    and the file lacks is made up and reported."""
    backbone, *followers = backbones
    heads = head_fits(shapes(tensors), shapes(model.get_submodule("projector").state_dict()))
    placed = {"backbone": backbone} | ({"projector": heads[0]} if heads else {})
    fresh = () if heads else (_fresh_head(shapes(tensors)),)
    if isinstance(model, MoCo):
        key_parts, lacking = find_keys(backbone, followers, heads)
        placed |= key_parts
        fresh += lacking
    state, used = model.state_dict(), set()
    for part, fit in placed.items():
        check_values(fit.matched.values(), tensors, file)
        state |= {f"{part}.{key}": value for key, value in fit.read(tensors).items()}
        used |= set(fit.matched.values())
    model.load_state_dict(state)
    return ImportSummary(
        prefix=backbone.naming.prefix,
        style=backbone.naming.style,
        matched=len(used),
        ignored=tuple(key for key in tensors if key not in used),
        missing=backbone.uncounted,
        fresh=fresh,
        notes=(NO_STEM_RELU,) if backbone.naming.style == "lightly children" else (),
    )


def _fresh_head(found: Shapes) -> str:
    unread = heads_by_name(found)
    why = f": what is under '{unread[0]}' could not be read as linear layers, batch norms and ReLUs" if unread else ""
    return f"projection head (freshly initialised{why})"


def find_keys(backbone: Fit, followers: list[Fit], heads: list[Fit]) -> tuple[dict[str, Fit], tuple[str, ...]]:
    """MoCo's key encoder and its head, or the query's in their place; -> (them, what the file lacks)."""
    keys = [fit for fit in followers if fit.momentum]
    key_heads = [fit for fit in heads[1:] if fit.momentum]
    found = {"key_backbone": [*keys, backbone][0]}
    if heads:  # without any, the fresh model's two heads are equal already
        found["key_projector"] = [*key_heads, heads[0]][0]
    lacking = () if keys else ("key encoder (copied from the query encoder)",)
    if keys and heads and not key_heads:
        lacking = ("key head (copied from the query's)",)
    return found, (*lacking, "queue of keys (random)")
