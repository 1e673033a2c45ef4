"""A local folder of Hugging Face's CLIPModel, read as what it is: sizes, a tokenizer and a file of weights.

Nothing is downloaded, and no code or pickle from the folder is run; `transformers` is not needed.
"""

import json
from pathlib import Path
from typing import Any

from muc.errors import UserError
from muc.models.open_clip_towers import CLIP_MEAN, CLIP_STD

WEIGHTS = "model.safetensors"
ACTIVATIONS = {"quick_gelu": True, "gelu": False}
SPECIAL = {"<|startoftext|>": "<start_of_text>", "<|endoftext|>": "<end_of_text>"}
# What config.json leaves out has these values (transformers' CLIPVisionConfig and CLIPTextConfig).
VISION: dict[str, Any] = {
    "hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12, "num_attention_heads": 12,
    "image_size": 224, "patch_size": 32, "num_channels": 3, "hidden_act": "quick_gelu", "layer_norm_eps": 1e-5,
}  # fmt: skip
TEXT: dict[str, Any] = {
    "hidden_size": 512, "intermediate_size": 2048, "num_hidden_layers": 12, "num_attention_heads": 8,
    "max_position_embeddings": 77, "vocab_size": 49408, "hidden_act": "quick_gelu", "layer_norm_eps": 1e-5,
}  # fmt: skip


def weights_of(folder: Path) -> Path:
    """The folder's safetensors file; pickles beside it are not opened."""
    if not (folder / WEIGHTS).is_file():
        raise UserError(
            f"{folder} has no {WEIGHTS}; write it with save_pretrained(folder, safe_serialization=True), in one file"
        )
    return folder / WEIGHTS


def towers_of(folder: Path) -> dict[str, Any]:
    """config.json (and preprocessor_config.json) as open_clip's configuration of the same network."""
    given = _read(folder / "config.json")
    if given.get("model_type") != "clip" or not {"vision_config", "text_config"} <= given.keys():
        kind = given.get("model_type")
        raise UserError(f"{folder} holds a model of type '{kind}', not a CLIPModel of two towers; give a CLIP model")
    vision, text = VISION | (given["vision_config"] or {}), TEXT | (given["text_config"] or {})
    _check(folder, vision, text)
    check_tokenizer(folder)
    images = _read(folder / "preprocessor_config.json") if (folder / "preprocessor_config.json").is_file() else {}
    return {
        "model_cfg": {
            "embed_dim": given.get("projection_dim", 512),
            "quick_gelu": ACTIVATIONS[vision["hidden_act"]],
            "vision_cfg": {
                "image_size": vision["image_size"],
                "patch_size": vision["patch_size"],
                "width": vision["hidden_size"],
                "layers": vision["num_hidden_layers"],
                "head_width": vision["hidden_size"] // vision["num_attention_heads"],
                "mlp_ratio": vision["intermediate_size"] / vision["hidden_size"],
                "norm_kwargs": {"eps": vision["layer_norm_eps"]},
            },
            "text_cfg": {
                "context_length": text["max_position_embeddings"],
                "vocab_size": text["vocab_size"],
                "width": text["hidden_size"],
                "heads": text["num_attention_heads"],
                "layers": text["num_hidden_layers"],
                "mlp_ratio": text["intermediate_size"] / text["hidden_size"],
                "norm_kwargs": {"eps": text["layer_norm_eps"]},
            },
        },
        "preprocess_cfg": {
            "mean": list(images.get("image_mean") or CLIP_MEAN),
            "std": list(images.get("image_std") or CLIP_STD),
        },
    }


def _check(folder: Path, vision: dict[str, Any], text: dict[str, Any]) -> None:
    """Refuse what open_clip's CLIP would compute otherwise."""
    acts = {vision["hidden_act"], text["hidden_act"]}
    if len(acts) > 1 or not acts <= ACTIVATIONS.keys():
        raise UserError(
            f"{folder} has the activations {', '.join(sorted(acts))}; give a CLIP with quick_gelu or gelu in both"
        )
    if vision["num_channels"] != 3:
        raise UserError(f"{folder} reads images of {vision['num_channels']} channels; give a CLIP for colour images")


def check_tokenizer(folder: Path) -> None:
    """CLIP's byte pairs come with open_clip: a model that reads other tokens is refused, not misread."""
    from open_clip import SimpleTokenizer

    vocabulary, merges = _read_tokenizer(folder)
    ours = SimpleTokenizer()
    if {SPECIAL.get(token, token): number for token, number in vocabulary.items()} != ours.encoder:
        raise UserError(
            f"{folder} has another vocabulary than CLIP's own; only models that read CLIP's tokens are taken"
        )
    if merges != list(ours.bpe_ranks):
        raise UserError(
            f"{folder} joins characters in another order than CLIP; only models that read CLIP's tokens are taken"
        )


def _read_tokenizer(folder: Path) -> tuple[dict[str, int], list[tuple[str, ...]]]:
    """-> (vocabulary, merges in their order) from vocab.json and merges.txt, or from tokenizer.json."""
    if (folder / "vocab.json").is_file() and (folder / "merges.txt").is_file():
        lines = (folder / "merges.txt").read_text(encoding="utf-8").split("\n")
        return _read(folder / "vocab.json"), [tuple(line.split()) for line in lines if line and line[:9] != "#version:"]
    if (folder / "tokenizer.json").is_file():
        model = _read(folder / "tokenizer.json").get("model", {})
        merges = [tuple(m.split()) if isinstance(m, str) else tuple(m) for m in model.get("merges", [])]
        return model.get("vocab", {}), merges
    raise UserError(f"{folder} has no tokenizer (vocab.json with merges.txt, or tokenizer.json); save it there, too")


def _read(file: Path) -> dict[str, Any]:
    try:
        values = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"there is no {file}; give a folder that save_pretrained of a CLIPModel wrote") from None
    except (OSError, ValueError) as error:
        raise UserError(f"{file} cannot be read as JSON ({error}); copy it again") from None
    if not isinstance(values, dict):
        raise UserError(f"{file} should be a JSON object; copy it again")
    return values
