"""A run's encoder in the forms that other programs read."""

import json
import warnings
from importlib.util import find_spec
from math import isqrt
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from muc import config, storage
from muc.errors import UserError, check_name, missing
from muc.models.backbones import build_backbone
from muc.models.clip_naming import ClipNaming
from muc.models.naming import Naming
from muc.models.open_clip_towers import normalisation, open_clip_towers
from muc.models.resnet import DEPTHS
from muc.opening import inventory_of, parent_of, pretraining_of
from muc.run_folder import RunFolder

RESNET_PATCH = 32  # by how much open_clip's ResNets shrink an image before they attend to its parts


def export_run(run: RunFolder, to: str, out: Path, force: bool = False) -> Path:
    """Write the backbone of a finished run as `to`, one of FORMATS. The data it was trained on is not needed."""
    check_name("format", to, FORMATS)
    out = Path(out)
    if out.is_dir():
        raise UserError(f"{out} is a folder; give the name of a file")
    if (out.parent / "split.json").is_file():
        raise UserError(f"{out} would lie inside the run {out.parent}; give an --out outside of it")
    if out.exists() and not force:
        raise UserError(f"{out} exists; give another --out, or --force to replace it")
    settings = pretraining_of(run).model
    backbone = {k.removeprefix("backbone."): v for k, v in run.load_model().items() if k.startswith("backbone.")}
    write = FORMATS[to]
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        write(run, settings, backbone, out)
    except OSError as error:
        raise UserError(f"cannot write {out} ({error.strerror}); give another --out") from None
    return out


def write_safetensors(run: RunFolder, settings: config.Model, backbone: dict[str, Tensor], out: Path) -> None:
    """The encoder of an imported run under the keys it came with, any other under plain ones.

    Of image-text models the whole: both towers, and the temperature. A file that came from a Hugging Face folder can
    take the place of its model.safetensors.
    """
    naming = source_naming(run)
    tensors = run.load_model() if settings.algorithm == "clip" else backbone
    storage.save_tensors(out, naming.outward(tensors), describe(run, settings, backbone))


def write_torchvision(run: RunFolder, settings: config.Model, backbone: dict[str, Tensor], out: Path) -> None:
    """Keys for torchvision's ResNet of that name, once (but for timm's, which are ImageNet's) its conv1 is a 3x3
    convolution of stride 1 and padding 1 and its maxpool an nn.Identity: load_state_dict(..., strict=False) then misses
    the classifier `fc` alone."""
    if settings.architecture.removeprefix(config.TIMM) not in DEPTHS:
        raise UserError(f"torchvision has no {settings.architecture}; export {run} to safetensors or onnx instead")
    storage.save_tensors(out, backbone, describe(run, settings, backbone))


def write_onnx(run: RunFolder, settings: config.Model, backbone: dict[str, Tensor], out: Path) -> None:
    """Input 'images' (batch, channels, height, width), normalised; output 'features' (batch, d)."""
    if absent := [name for name in ("onnx", "onnxscript") if find_spec(name) is None]:
        raise missing("exporting to onnx", *absent)
    channels, size = input_shape(run, settings.architecture, backbone)
    network = rebuild(settings, channels, size or 32, backbone)
    axes: dict[int, Any] = {0: torch.export.Dim("batch")}
    if size is None:
        axes |= {2: torch.export.Dim("height", min=4), 3: torch.export.Dim("width", min=4)}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"`isinstance\(treespec, LeafSpec\)`", FutureWarning)  # torch 2.11's own code
        program = torch.onnx.export(
            network,
            (torch.zeros(2, channels, size or 32, size or 32),),
            input_names=["images"],
            output_names=["features"],
            dynamic_shapes=(axes,),
            dynamo=True,
            verbose=False,
        )
    assert program is not None, "only the old exporter returns nothing"
    program.model.metadata_props["muc"] = json.dumps(describe(run, settings, backbone))
    with storage.replacing(out) as f:
        f.write(program.model_proto.SerializeToString())


def rebuild(settings: config.Model, channels: int, size: int, backbone: dict[str, Tensor]) -> nn.Module:
    """The network that turns images, normalised as `describe` says, into features."""
    if settings.architecture.startswith(config.OPEN_CLIP):
        images, _, _ = open_clip_towers(settings, channels, size)
        images.load_state_dict(backbone)
        return images.tower.eval()
    # Without groups: in evaluation MoCo's grouped batch norm is the ordinary one, and its weights have the same names.
    network, _ = build_backbone(settings.architecture, channels, size, stem_relu=settings.stem_relu)
    network.load_state_dict(backbone)
    return network.eval()


FORMATS = {"safetensors": write_safetensors, "onnx": write_onnx, "torchvision": write_torchvision}


def input_shape(run: RunFolder, architecture: str, backbone: dict[str, Tensor]) -> tuple[int, int | None]:
    """(channels, image size), from the weights where they tell; convolutional networks take images of any size."""
    if architecture.startswith(config.OPEN_CLIP):
        return 3, tower_size(backbone)
    if architecture.startswith(config.TIMM):  # whose networks may be made for one size
        kept = inventory_of(run)
        assert kept is not None, "runs without an inventory are older than timm's architectures"
        return kept.channels, kept.image_size
    inputs = backbone[{"mlp": "1.weight", "convnet": "0.weight"}.get(architecture, "conv1.weight")].shape[1]
    if architecture != "mlp":
        return inputs, None
    channels = 1 if isqrt(inputs) ** 2 == inputs else 3  # three times a square is no square
    return channels, isqrt(inputs // channels)


def tower_size(backbone: dict[str, Tensor]) -> int | None:
    """The side of the images that open_clip's tower was made for: one place an image patch, and one for all."""
    places = next((v for k, v in backbone.items() if k.endswith("positional_embedding")), None)
    if places is None:
        return None
    patch = backbone["tower.conv1.weight"].shape[-1] if "tower.proj" in backbone else RESNET_PATCH
    return patch * isqrt(len(places) - 1)


def description_of(run: RunFolder) -> dict[str, Any]:
    """What a run's encoder is, and how images have to come to it."""
    settings = pretraining_of(run).model
    tensors = {k.removeprefix("backbone."): v for k, v in run.load_model().items() if k.startswith("backbone.")}
    return describe(run, settings, tensors)


def describe(run: RunFolder, settings: config.Model, backbone: dict[str, Tensor]) -> dict[str, Any]:
    """What a file must say to be used without the run it came from."""
    values = run.config()
    channels, _ = input_shape(run, settings.architecture, backbone)
    of_open_clip = settings.architecture.startswith(config.OPEN_CLIP)
    mean, std = normalisation(settings) if of_open_clip else settings.normalisation(channels)
    return {
        "architecture": settings.architecture,
        "algorithm": settings.algorithm,
        "stem_relu": settings.stem_relu,
        **({"towers": settings.towers} if settings.towers else {}),
        "input": {"channels": channels, "scaled_to": [0, 1], "mean": mean, "std": std},
        "method": values.get("method"),
        "model_sha256": run.result()["model_sha256"],
        "ancestry": values["ancestry"],
    }


def source_naming(run: RunFolder) -> Naming | ClipNaming:
    """The naming an imported encoder came with; unlearning in between does not change it."""
    values = run.config()
    first = [*values["ancestry"], values][0]
    of_towers = pretraining_of(run).model.architecture.startswith(config.OPEN_CLIP)
    if first["kind"] != "import":  # not asked of the parents, which may be gone
        return ClipNaming() if of_towers else Naming()
    origin: RunFolder | None = run
    while (parent := parent_of(origin)) is not None:
        origin = parent
    source = origin.config()["source"]
    if of_towers:
        return ClipNaming(prefix=source["prefix"], style=source["style"])
    return Naming(prefix=source["prefix"], style=source["style"], norm_splits=source["norm_splits"])
