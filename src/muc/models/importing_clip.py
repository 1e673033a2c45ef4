"""A pretrained CLIP's weights in our model: an open_clip file, or a folder of Hugging Face's CLIPModel."""

import re
from dataclasses import replace
from math import isqrt
from pathlib import Path

import torch
from torch import Tensor

from muc import config
from muc.errors import UserError
from muc.models.clip_naming import STYLES, ClipNaming
from muc.models.contract import ContrastiveModel
from muc.models.fitting import Shapes, check_values, shapes

# What some files hold beside the weights: counters and constants that follow from the sizes.
CONSTANTS = re.compile(r"(position_ids|input_resolution|context_length|vocab_size|attn_mask)$")
PLACES = "backbone.tower.positional_embedding", "backbone.tower.attnpool.positional_embedding"


def locate(file: Path, settings: config.Model) -> tuple[Path, config.Model]:
    """-> (the file of weights, the settings of the model that reads them)."""
    if file.is_dir():
        from muc.models.hugging_face import towers_of, weights_of
        from muc.models.open_clip_towers import configuration

        name = f"{config.OPEN_CLIP}{file.resolve().name}"
        configuration(config.Model("clip", name, towers={"model_cfg": {}}))  # says so where the extra is missing
        return weights_of(file), replace(settings, architecture=name, towers=towers_of(file))
    if not settings.architecture.startswith(config.OPEN_CLIP):
        raise UserError(
            f"{file} cannot be imported as {settings.architecture}; give --architecture open_clip/NAME (ViT-B-32, …) "
            "for open_clip's weights, or the folder of a Hugging Face CLIPModel instead of a file"
        )
    return file, settings


def fill_clip(
    model: ContrastiveModel, tensors: dict[str, Tensor], size: int, file: Path
) -> tuple[ClipNaming, set[str]]:
    """Put all of the file's tensors into the model; -> (their naming, the keys taken). `size` is the images'."""
    state, found = model.state_dict(), shapes(tensors)
    namings = [ClipNaming(prefix, style) for prefix in _prefixes(found) for style in STYLES]
    if not namings:
        raise UserError(f"{file} has no 'logit_scale' among its {len(found)} tensors; give the weights of a whole CLIP")
    wanted = {naming: shapes(naming.outward(state)) for naming in namings}
    naming = max(namings, key=lambda n: len(wanted[n].keys() & found.keys()))
    check_fit(found, wanted[naming], naming, shapes(state), size, file)
    check_values(wanted[naming], tensors, file)
    model.load_state_dict({ours: naming.inward(ours, tensors) for ours in state})
    return naming, set(wanted[naming])


def _prefixes(found: Shapes) -> list[str]:
    return [key.removesuffix("logit_scale") for key in found if key.endswith("logit_scale")]


def check_fit(found: Shapes, wanted: Shapes, naming: ClipNaming, ours: Shapes, size: int, file: Path) -> None:
    """An error that says what differs, unless all is there, in the right shape, and nothing else is."""
    for place in (place for place in PLACES if place in ours):
        (theirs,) = naming.keys(place)
        if theirs in found and found[theirs][0] != ours[place][0] and found[theirs][1:] == ours[place][1:]:
            side = size * isqrt(found[theirs][0] - 1) // max(1, isqrt(ours[place][0] - 1))
            raise UserError(f"{file} reads images of {side} pixels and these have {size}; give --image-size {side}")
    one = torch.Size([1])  # some files keep the one number of the temperature as a vector
    unequal = [k for k in wanted if k in found and found[k] != wanted[k] and (wanted[k] or one) != found[k]]
    texts = [f"'{key}' is {tuple(found[key])}, not {tuple(wanted[key])}" for key in unequal]
    texts += [f"'{key}' is missing" for key in wanted if key not in found]
    texts += [f"'{key}' has no place" for key in found if key not in wanted and not CONSTANTS.search(key)]
    if texts:
        more = f"; and {len(texts) - 3} more" if len(texts) > 3 else ""
        raise UserError(
            f"{file} does not fit: {'; '.join(texts[:3])}{more}; give the architecture that its weights belong to"
        )
