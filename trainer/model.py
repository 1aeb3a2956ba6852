"""A character model whose inner steps are cheap and whose merge is large.

A small causal transformer over bytes, plus an embedding of hashed trigrams that holds nearly all
parameters: an inner step touches few of its rows, a merge exchanges all of them.
"""

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional

from slackwater.errors import InputError

BYTES = 256
# Odd multipliers that spread trigrams of bytes over the rows (Knuth's multiplicative hashing).
HASH = (2_654_435_761, 2_246_822_519, 3_266_489_917)


@dataclass(frozen=True, slots=True)
class ModelShape:
    """How many parameters stand where.

    Attributes:
        width: of the transformer.
        layers: of the transformer.
        rows: of the trigram embedding, each of `width` parameters.
        context: bytes a sequence.
    """

    width: int
    layers: int
    rows: int
    context: int = 64

    @classmethod
    def for_parameters(cls, parameters: int) -> "ModelShape":
        """The shape with at most `parameters` parameters, less than one row below it.

        Raises `InputError` when they are too few for the smallest transformer.
        """
        width, layers = (64, 2) if parameters >= 1_000_000 else (16, 1)
        dense = sum(p.numel() for p in CharModel(cls(width, layers, 0)).parameters())
        rows = (parameters - dense) // width
        if rows < 1:
            msg = f"--parameters is {parameters}; the smallest model has {dense + width}"
            raise InputError(msg)
        return cls(width, layers, rows)


class Block(nn.Module):
    """Causal self-attention and a feed-forward layer, each added to what went in."""

    def __init__(self, width: int, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.norm_in = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.norm_mid = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, time, width) to the same shape."""
        batch, time, width = x.shape
        qkv = self.qkv(self.norm_in(x)).view(batch, time, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, time, width))
        fed: torch.Tensor = self.down(functional.gelu(self.up(self.norm_mid(x))))
        return x + fed


class CharModel(nn.Module):
    """Predicts the next byte from the bytes before it."""

    def __init__(self, shape: ModelShape) -> None:
        super().__init__()
        self.rows = shape.rows
        self.byte = nn.Embedding(BYTES, shape.width)
        self.place = nn.Parameter(torch.zeros(shape.context, shape.width))
        self.blocks = nn.ModuleList(Block(shape.width) for _ in range(shape.layers))
        self.norm = nn.LayerNorm(shape.width)
        self.trigram = nn.Embedding(shape.rows, shape.width, sparse=True)
        nn.init.normal_(self.byte.weight, std=0.05)
        nn.init.normal_(self.trigram.weight, std=0.02)

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        """Mean cross-entropy in nats a byte, of (batch, context + 1) bytes."""
        wanted = text[:, 1:].flatten()
        loss: torch.Tensor = functional.cross_entropy(
            self.logits(text[:, :-1]).flatten(0, 1), wanted
        )
        return loss

    def logits(self, seen: torch.Tensor) -> torch.Tensor:
        """For each byte what follows it: (batch, context) to (batch, context, 256)."""
        x = self.byte(seen) + self.place + self.trigram(hashed_trigrams(seen, self.rows))
        for block in self.blocks:
            x = block(x)
        found: torch.Tensor = self.norm(x) @ self.byte.weight.T
        return found


def hashed_trigrams(text: torch.Tensor, rows: int) -> torch.Tensor:
    """The row of each byte with the two before it; (batch, time) int64 to the same shape."""
    padded = functional.pad(text, (2, 0))
    parts = (padded[:, 2:], padded[:, 1:-1], padded[:, :-2])
    mixed = sum((part + 1) * factor for part, factor in zip(parts, HASH, strict=True))
    return (torch.as_tensor(mixed) >> 7) % rows
