"""Pseudo-gradients in fewer bytes: int8 with one scale for each block of elements.

A block's scale is the largest absolute value in it, divided by 127, so that an element is wrong by
at most half a scale. Dettmers et al., "8-bit Optimizers via Block-wise Quantization", 2022
(arXiv:2110.02861), on why by blocks: one large element spoils its own block alone.
"""

import torch

BLOCK = 256
SCALE_BYTES = 4
LARGEST = 127


def int8_bytes(elements: int) -> int:
    """Size of the message for so many elements: one byte each, and four for each block."""
    return elements + SCALE_BYTES * _blocks(elements)


def to_int8(vector: torch.Tensor) -> torch.Tensor:
    """A finite vector as one message: the scales, then the elements; (int8_bytes,) uint8."""
    blocks = _blocks(len(vector))
    padded = torch.zeros(blocks * BLOCK, dtype=vector.dtype)
    padded[: len(vector)] = vector
    table = padded.view(blocks, BLOCK)
    scales = (table.abs().amax(dim=1) / LARGEST).float()
    # A block of zeros, or of values too small for a scale, is sent as zeros.
    divisors = torch.where(scales > 0, scales, torch.inf).to(vector.dtype)
    whole = table.div_(divisors[:, None]).round_().clamp_(-LARGEST, LARGEST).to(torch.int8)
    return torch.cat([scales.view(torch.uint8), whole.view(-1)[: len(vector)].view(torch.uint8)])


def from_int8(message: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """What `to_int8` made of a vector of the length and type of `like`."""
    blocks = _blocks(len(like))
    scales = message[: SCALE_BYTES * blocks].view(torch.float32).to(like.dtype)
    padded = torch.zeros(blocks * BLOCK, dtype=like.dtype)
    padded[: len(like)] = message[SCALE_BYTES * blocks :].view(torch.int8)
    return padded.view(blocks, BLOCK).mul_(scales[:, None]).view(-1)[: len(like)]


def _blocks(elements: int) -> int:
    return -(-elements // BLOCK)
