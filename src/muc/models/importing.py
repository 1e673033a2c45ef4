"""A user's own encoder becomes a finished run, on which everything works that works on a run muc trained."""

from dataclasses import asdict, dataclass, replace
from hashlib import file_digest
from pathlib import Path

import torch
from torch import Tensor

from muc import config
from muc.data import load_images, make_split
from muc.errors import UserError
from muc.models.contract import ContrastiveModel
from muc.models.fitting import Fit, backbone_fits, find_backbone, head_fits, shapes
from muc.models.moco import MoCo
from muc.models.weight_files import read_weights
from muc.runs import begin, fresh_model
from muc.storage import RunFolder

NO_STEM_RELU = "no ReLU after the stem, as in nn.Sequential(*children) of lightly's ResNet (stem_relu is off)"


@dataclass(frozen=True)
class ImportSummary:
    """What became of a file's tensors."""

    prefix: str  # before the backbone's keys in the file
    style: str  # how the file names the backbone's parts
    matched: int
    ignored: tuple[str, ...]  # keys of the file that nothing was made of
    missing: tuple[str, ...]  # of our tensors, those the file lacks and nothing depends on
    fresh: tuple[str, ...]  # parts that did not come from the file
    notes: tuple[str, ...]

    def describe(self) -> str:
        """A few lines for a person."""
        where = f" under '{self.prefix}'" if self.prefix else ""
        lines = [f"{self.matched} tensors taken, the backbone's{where} in {self.style} naming"]
        if self.ignored:
            more = f" and {len(self.ignored) - 3} more" if len(self.ignored) > 3 else ""
            lines.append(f"ignored: {', '.join(self.ignored[:3])}{more}")
        lines += [f"not in the file: {part}" for part in self.fresh]
        return "\n".join(lines + [f"note: {text}" for text in self.notes])


def import_run(
    file: Path, settings: config.Pretraining, out: Path, runtime: config.Runtime | None = None, force: bool = False
) -> tuple[RunFolder, ImportSummary]:
    """Turn a weight file into a run folder as if muc had trained it on the data and split that `settings` name."""
    file, out = Path(file), Path(out)
    if file.resolve().is_relative_to(out.resolve()):
        raise UserError(f"{file} lies inside --out {out}, which would be emptied; give another --out")
    if settings.model.algorithm == "clip":
        raise UserError(
            "an image-text model cannot be imported yet; give --algorithm simclr or moco for its image tower"
        )
    images = load_images(settings.data)
    split = make_split(images, settings.data, settings.seed)
    tensors = read_weights(file)
    fit = find_backbone(shapes(tensors), settings.model.architecture, images.channels, images.image_size, file)
    if fit.naming.style == "lightly children":
        settings = replace(settings, model=replace(settings.model, stem_relu=False))
    model = fresh_model(settings, images, settings.seed)
    summary = fill(model, tensors, fit, file)
    with open(file, "rb") as f:
        source = {"file": file.name, "sha256": file_digest(f, "sha256").hexdigest(), **asdict(fit.naming)}
    values = {
        "kind": "import",
        "pretraining": asdict(settings),
        "seed": settings.seed,
        "data_sha256": images.digest,
        "ancestry": [],
        "source": {**source, "summary": asdict(summary)},
    }
    run = RunFolder(out)
    begin(run, values, split, runtime, force)
    run.finish(model.state_dict(), {"kind": "import"}, {"seconds": 0.0, "peak_memory_bytes": None, "epochs": 0})
    return run, summary


def fill(model: ContrastiveModel, tensors: dict[str, Tensor], backbone: Fit, file: Path) -> ImportSummary:
    """Put the file's tensors into the model; what only training needs and the file lacks is made up and reported."""
    heads = head_fits(shapes(tensors), shapes(model.get_submodule("projector").state_dict()))
    placed = {"backbone": backbone} | ({"projector": heads[0]} if heads else {})
    fresh = () if heads else ("projection head (freshly initialised)",)
    if isinstance(model, MoCo):
        key_parts, lacking = find_keys(model, tensors, placed, heads)
        placed |= key_parts
        fresh += lacking
    state, used = model.state_dict(), set()
    for part, fit in placed.items():
        state |= {f"{part}.{key}": value for key, value in check_values(fit, tensors, file).items()}
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


def find_keys(
    model: MoCo, tensors: dict[str, Tensor], placed: dict[str, Fit], heads: list[Fit]
) -> tuple[dict[str, Fit], tuple[str, ...]]:
    """MoCo's key encoder and its head, or the query's in their place; -> (them, what the file lacks)."""
    followers = backbone_fits(shapes(tensors), shapes(model.key_backbone.state_dict()))
    keys = [fit for fit in followers if fit.complete and fit.momentum and fit.naming != placed["backbone"].naming]
    key_heads = [fit for fit in heads[1:] if fit.momentum]
    found = {"key_backbone": [*keys, placed["backbone"]][0]}
    if heads:  # without any, the fresh model's two heads are equal already
        found["key_projector"] = [*key_heads, heads[0]][0]
    lacking = () if keys else ("key encoder (copied from the query encoder)",)
    return found, (*lacking, "queue of keys (random)")


def check_values(fit: Fit, tensors: dict[str, Tensor], file: Path) -> dict[str, Tensor]:
    """The matched values, which must be numbers that a network can compute with."""
    for theirs in fit.matched.values():
        value = tensors[theirs]
        if not (value.is_floating_point() or theirs.endswith("num_batches_tracked")):
            raise UserError(
                f"'{theirs}' in {file} holds {value.dtype}, not floats; give the weights before quantisation"
            )
        if bad := int((~torch.isfinite(value.float())).sum()):
            raise UserError(
                f"'{theirs}' in {file} holds {bad} values that are NaN or infinite; give a sound checkpoint"
            )
    return fit.read(tensors)
