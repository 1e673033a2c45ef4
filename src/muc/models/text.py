"""Text towers: what reads a pair's caption. The built-in one reads bytes and is small enough for a CPU."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

BYTES = 256
PADDING = 0  # byte b is token b + 1


class TextTower(nn.Module, ABC):
    """From captions to features; it knows its own tokens, as nothing else could read them."""

    context: int
    width: int

    @abstractmethod
    def tokenise(self, texts: Sequence[str]) -> Tensor:
        """n texts -> (n, context) int64; what is too long is cut off."""

    @abstractmethod
    def forward(self, tokens: Tensor) -> Tensor:
        """(n, context) int64 -> (n, width)."""


class ByteTransformer(TextTower):
    """A small transformer over UTF-8 bytes: no vocabulary to ship, and no text it cannot read."""

    def __init__(self, width: int = 64, layers: int = 2, heads: int = 4, context: int = 72) -> None:
        super().__init__()
        self.width, self.context = width, context
        self.embedding = nn.Embedding(BYTES + 1, width)
        self.position = nn.Parameter(0.02 * torch.randn(context, width))
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        nn.init.normal_(self.embedding.weight, std=0.02)

    def tokenise(self, texts: Sequence[str]) -> Tensor:
        tokens = torch.full((len(texts), self.context), PADDING)
        for row, text in zip(tokens, texts, strict=True):
            read = text.encode(errors="replace")[: self.context]
            row[: len(read)] = torch.frombuffer(bytearray(read), dtype=torch.uint8).long() + 1 if read else PADDING
        return tokens

    def forward(self, tokens: Tensor) -> Tensor:
        # The first place is read even where a text is empty: attention and mean over nothing would be NaN.
        read = torch.cat([torch.ones_like(tokens[:, :1], dtype=torch.bool), tokens[:, 1:] != PADDING], dim=1)
        x = self.embedding(tokens) + self.position
        for block in self.blocks:
            x = block(x, read)
        x = self.norm(x) * read[:, :, None]
        return x.sum(dim=1) / read.sum(dim=1, keepdim=True)


class Block(nn.Module):
    """Attention, then two linear layers, each on normalised input and added to it."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.first_norm, self.second_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mix_in, self.mix_out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.think = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor, read: Tensor) -> Tensor:
        """(n, context, width), (n, context) which places hold text -> the first's shape."""
        split = self.mix_in(self.first_norm(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        query, key, value = split.unbind()
        mixed = scaled_dot_product_attention(query, key, value, attn_mask=read[:, None, None, :])
        x = x + self.mix_out(mixed.transpose(1, 2).flatten(2))
        return x + self.think(self.second_norm(x))
