"""The towers of open_clip's models (the extra 'clip'), freshly initialised: nothing is downloaded."""

import logging
from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor, nn

from muc.config import OPEN_CLIP
from muc.errors import UserError, check_name
from muc.models.text import TextTower


class OpenClipText(TextTower):
    """An open_clip text tower with its tokenizer."""

    def __init__(self, tower: nn.Module, tokenizer: Callable[..., Tensor], context: int, width: int) -> None:
        super().__init__()
        self.tower, self.tokenizer = tower, tokenizer
        self.context, self.width = context, width

    def tokenise(self, texts: Sequence[str]) -> Tensor:
        return self.tokenizer(list(texts), context_length=self.context)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.tower(tokens)


def open_clip_towers(architecture: str, channels: int, image_size: int) -> tuple[nn.Module, OpenClipText, int]:
    """-> (image tower, text tower, the dimension in which both end) of "open_clip/NAME"."""
    try:
        import open_clip
    except ImportError:
        raise UserError(f"architecture '{architecture}' needs the extra: pip install 'muc[clip]'") from None

    name = check_name("open_clip model", architecture.removeprefix(OPEN_CLIP), open_clip.list_models())
    if channels != 3:
        raise UserError(f"{architecture} reads colour images and these have {channels} channel; give another one")
    known: dict[str, Any] = open_clip.get_model_config(name) or {}
    text = known.get("text_cfg", {})
    if "hf_model_name" in text or "hf_tokenizer_name" in text:
        raise UserError(f"{architecture} reads text with a model that has to be downloaded; give RN50 or ViT-B-32")
    logging.disable(logging.WARNING)  # it warns that nothing was pretrained, which is what was asked for
    try:  # with the text tower as a module of its own
        model: Any = open_clip.create_model(
            name, load_weights=False, force_custom_text=True, force_image_size=image_size
        )
    finally:
        logging.disable(logging.NOTSET)
    tokenizer: Any = open_clip.get_tokenizer(name)
    width = int(known["embed_dim"])
    return model.visual, OpenClipText(model.text, tokenizer, int(model.context_length), width), width
