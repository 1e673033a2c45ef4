"""The towers of open_clip's models (the extra 'clip'), freshly initialised: nothing is downloaded."""

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor, nn

from muc.config import OPEN_CLIP, Model
from muc.errors import UserError, check_name, missing
from muc.models.inputs import expecting
from muc.models.text import TextTower

CLIP_MEAN = (0.48145466, 0.4578275, 0.40821073)
CLIP_STD = (0.26862954, 0.26130258, 0.27577711)


class OpenClipImages(nn.Module):
    """An open_clip image tower, fed with the mean and deviation that it was trained with."""

    def __init__(self, tower: nn.Module, mean: Sequence[float], std: Sequence[float]) -> None:
        super().__init__()
        self.tower, self.mean, self.std = tower, tuple(mean), tuple(std)
        expecting(self, mean, std)

    def forward(self, images: Tensor) -> Tensor:
        return self.tower(images)


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


def open_clip_towers(settings: Model, channels: int, image_size: int) -> tuple[OpenClipImages, OpenClipText, int]:
    """-> (image tower, text tower, the dimension in which both end) of "open_clip/NAME" or of an imported model."""
    architecture, known = settings.architecture, configuration(settings)
    if channels != 3:
        raise UserError(f"{architecture} reads colour images and these have {channels} channel; give another one")
    from open_clip import SimpleTokenizer
    from open_clip.model import CustomTextCLIP

    sizes = {k: v for k, v in known["model_cfg"].items() if k != "custom_text"}
    vision = {**sizes["vision_cfg"], "image_size": image_size, "timm_model_pretrained": False}
    made_for: dict[str, Any] = {**sizes, "vision_cfg": vision}
    try:  # with the text tower as a module of its own
        model: Any = CustomTextCLIP(**made_for)
    except (TypeError, ValueError, AssertionError, KeyError, RuntimeError) as error:
        raise UserError(
            f"{architecture} cannot be built for images of {image_size} pixels ({error}); give another"
        ) from None
    width, context = int(sizes["embed_dim"]), int(model.context_length)
    tokenizer = SimpleTokenizer(context_length=context, **(sizes["text_cfg"].get("tokenizer_kwargs") or {}))
    return (
        OpenClipImages(model.visual, *normalisation(settings)),
        OpenClipText(model.text, tokenizer, context, width),
        width,
    )


def normalisation(settings: Model) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """-> (mean, standard deviation) that the image tower expects: CLIP's own, or those an imported model came with."""
    given = (settings.towers or {}).get("preprocess_cfg", {})
    return tuple(given.get("mean", CLIP_MEAN)), tuple(given.get("std", CLIP_STD))


def configuration(settings: Model) -> dict[str, Any]:
    """What open_clip_config.json holds beside a model: its sizes (model_cfg) and its images (preprocess_cfg)."""
    try:
        import open_clip
    except ImportError:
        raise missing(f"architecture '{settings.architecture}'", "open_clip_torch") from None

    known = settings.towers
    if known is None:
        name = check_name("open_clip model", settings.architecture.removeprefix(OPEN_CLIP), open_clip.list_models())
        known = {"model_cfg": open_clip.get_model_config(name) or {}}
    text = known["model_cfg"].get("text_cfg", {})
    if "hf_model_name" in text or "hf_tokenizer_name" in text:
        raise UserError(
            f"{settings.architecture} reads text with a model that has to be downloaded; give RN50 or ViT-B-32"
        )
    if "multimodal_cfg" in known["model_cfg"]:
        raise UserError(
            f"{settings.architecture} also writes texts, and its towers alone are not CLIP's; give RN50 or ViT-B-32"
        )
    return known
