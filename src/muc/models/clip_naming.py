"""How other programs name a CLIP's weights. The network is the same everywhere: an adapter is a renaming."""

import re
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

Style = Literal["open_clip", "open_clip custom text", "hugging face"]
STYLES: tuple[Style, ...] = ("open_clip", "open_clip custom text", "hugging face")

# Our parts (without "tower.") in Hugging Face's names.
_PARTS = {
    "backbone.class_embedding": "vision_model.embeddings.class_embedding",
    "backbone.conv1.weight": "vision_model.embeddings.patch_embedding.weight",
    "backbone.positional_embedding": "vision_model.embeddings.position_embedding.weight",
    "backbone.ln_pre": "vision_model.pre_layrnorm",  # their spelling
    "backbone.ln_post": "vision_model.post_layernorm",
    "backbone.proj": "visual_projection.weight",
    "backbone.transformer.resblocks": "vision_model.encoder.layers",
    "text.token_embedding.weight": "text_model.embeddings.token_embedding.weight",
    "text.positional_embedding": "text_model.embeddings.position_embedding.weight",
    "text.ln_final": "text_model.final_layer_norm",
    "text.text_projection": "text_projection.weight",
    "text.transformer.resblocks": "text_model.encoder.layers",
}
_IN_LAYER = {
    "attn.in_proj_": "self_attn.?_proj.",  # queries, keys and values are one matrix here and three there
    "attn.out_proj.": "self_attn.out_proj.",
    "ln_1.": "layer_norm1.",
    "ln_2.": "layer_norm2.",
    "mlp.c_fc.": "mlp.fc1.",
    "mlp.c_proj.": "mlp.fc2.",
}
_TRANSPOSED = ("backbone.proj", "text.text_projection")


@dataclass(frozen=True)
class ClipNaming:
    """A file's key: its prefix, then our key in its style."""

    prefix: str = ""
    style: Style = "open_clip"

    def keys(self, ours: str) -> tuple[str, ...]:
        """Where our tensor is found; several keys where the file keeps it in pieces."""
        if ours == "log_scale":
            return (f"{self.prefix}logit_scale",)
        plain = ours.replace(".tower.", ".", 1)
        if self.style == "hugging face":
            key = _hugging_face(plain)
            pieces = tuple(key.replace("?", part) for part in "qkv") if "?" in key else (key,)
        else:
            plain = re.sub(r"^backbone\.", "visual.", plain)
            pieces = (plain.removeprefix("text.") if self.style == "open_clip" else plain,)
        return tuple(self.prefix + piece for piece in pieces)

    def inward(self, ours: str, tensors: dict[str, Tensor]) -> Tensor:
        found = [tensors[key] for key in self.keys(ours)]
        joined = found[0] if len(found) == 1 else torch.cat(found)
        if ours == "log_scale":
            return joined.reshape(())  # a vector of one number in some of open_clip's files
        return joined.T if self._transposed(ours) else joined

    def outward(self, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        """Our tensors under the file's keys, in the file's shapes."""
        made = {}
        for ours, value in tensors.items():
            keys, theirs = self.keys(ours), value.T if self._transposed(ours) else value
            made |= zip(keys, theirs.chunk(len(keys)) if len(keys) > 1 else [theirs], strict=True)
        return made

    def _transposed(self, ours: str) -> bool:
        return self.style == "hugging face" and ours.replace(".tower.", ".", 1) in _TRANSPOSED


def _hugging_face(plain: str) -> str:
    for ours, theirs in _PARTS.items():
        if plain == ours or plain.startswith(f"{ours}."):
            rest = plain.removeprefix(ours)
            number, _, name = rest.removeprefix(".").partition(".")
            if not number.isdigit():
                return theirs + rest
            for inner, renamed in _IN_LAYER.items():
                if name.startswith(inner):
                    return f"{theirs}.{number}.{renamed}{name.removeprefix(inner)}"
    return plain  # a part that Hugging Face's CLIP does not have: it will not be found
