"""Small image-text models as other programs make them, and pairs to feed them with."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch

from muc.data import ImageSet, from_pairs
from muc.storage import write_json

SIZE = 16
TEXT = {"context_length": 77, "vocab_size": 49408, "width": 16, "heads": 2, "layers": 1}
VISION = {"image_size": SIZE, "patch_size": 8, "layers": 2, "width": 32, "head_width": 8}
WORDS = ("a cat", "Two dogs on a BEACH!", "naïve café & bread", "the year 1984,  it's late", "fish")


def pairs(size: int = SIZE, n: int = 24) -> ImageSet:
    random = np.random.default_rng(0)

    def part(n: int) -> list[tuple[np.ndarray, list[str]]]:
        texts = [f"{WORDS[i % 5]} {i}" for i in range(n)]
        return [(random.integers(0, 256, (3, size, size), dtype=np.uint8), [text]) for text in texts]

    return from_pairs(part(n), part(8))


def clip_tokenizer_files(folder: Path) -> None:
    """CLIP's vocabulary in the two files that Hugging Face's CLIPTokenizer is made from."""
    from open_clip import SimpleTokenizer

    ours = SimpleTokenizer()
    renamed = {"<start_of_text>": "<|startoftext|>", "<end_of_text>": "<|endoftext|>"}
    vocabulary = {renamed.get(token, token): number for token, number in ours.encoder.items()}
    (folder / "vocab.json").write_text(json.dumps(vocabulary), encoding="utf-8")
    lines = ["#version: 0.2", *(" ".join(pair) for pair in ours.bpe_ranks)]
    (folder / "merges.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def hugging_face_folder(folder: Path, activation: str = "quick_gelu", fast_tokenizer: bool = False) -> Any:
    """A CLIPModel of random weights with its tokenizer and image processor, saved; -> the model."""
    import transformers

    torch.manual_seed(1)
    common = {"num_hidden_layers": 2, "hidden_act": activation, "projection_dim": 12}
    config = transformers.CLIPConfig(
        projection_dim=12,
        vision_config={**common, "hidden_size": 32, "intermediate_size": 96, "num_attention_heads": 4,
                       "image_size": SIZE, "patch_size": 8},
        text_config={**common, "hidden_size": 24, "intermediate_size": 48, "num_attention_heads": 3,
                     "bos_token_id": 49406, "eos_token_id": 49407},
        logit_scale_init_value=3.1,
    )  # fmt: skip
    model = transformers.CLIPModel(config).eval()
    with torch.no_grad():  # its own initial weights are so small that nothing would show
        for name, value in model.named_parameters():
            if name != "logit_scale":
                value += 0.1 * torch.randn_like(value)
    model.save_pretrained(folder, safe_serialization=True)
    clip_tokenizer_files(folder)
    processor = transformers.CLIPImageProcessor(
        size={"shortest_edge": SIZE}, crop_size=SIZE, image_mean=[0.4, 0.5, 0.6], image_std=[0.3, 0.25, 0.2]
    )
    processor.save_pretrained(folder)
    if fast_tokenizer:
        transformers.CLIPTokenizerFast.from_pretrained(folder).save_pretrained(folder)
        for name in ("vocab.json", "merges.txt"):
            (folder / name).unlink(missing_ok=True)
    return model


def open_clip_model(folder: Path, name: str = "tiny-ViT", **changes: Any) -> Any:
    """A model of random weights whose name open_clip knows from now on."""
    import open_clip

    folder.mkdir(exist_ok=True)
    write_json(folder / f"{name}.json", {"embed_dim": 12, "vision_cfg": VISION, "text_cfg": TEXT} | changes)
    open_clip.add_model_config(folder)
    torch.manual_seed(2)
    model = open_clip.create_model(name, load_weights=False).eval()
    with torch.no_grad():
        model.logit_scale.fill_(2.5)
    return model
