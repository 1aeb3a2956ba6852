"""The text a learner trains on: what ships with Python, or a file, cut into shards."""

from dataclasses import dataclass
from pathlib import Path

import torch

from slackwater.errors import InputError

HELD_OUT_SHARE = 0.05
MIN_BYTES = 20_000
# A learner's part of it, and the held-out end, hold some sequences each.
MIN_SHARE_BYTES = 1_000
# Of characters that no text has: bytes that are no UTF-8, and control characters.
MOST_ODD_SHARE = 0.05
CONTROL = bytes(set(range(32)) - set(b"\t\n\r\f\x1b") | {127})


def read_text(path: Path | None) -> bytes:
    """The bytes of a file, or the language reference that Python carries for its help().

    Raises `InputError` when the file cannot be read, is no text or is too short.
    """
    return _python_reference() if path is None else _read(path)


@dataclass(frozen=True, slots=True)
class Shard:
    """One learner's part of a text, and the held-out end that none trains on.

    Attributes:
        train: bytes as uint8, one dimension.
        held_out: the same for all learners.
    """

    train: torch.Tensor
    held_out: torch.Tensor

    @classmethod
    def cut(cls, raw: bytes, rank: int, world_size: int) -> "Shard":
        """The part of learner `rank` of `world_size`: contiguous, equal, apart from the others'.

        Raises `InputError` when the parts would be too short.
        """
        everything = torch.frombuffer(bytearray(raw), dtype=torch.uint8)
        train_bytes = int(len(raw) * (1 - HELD_OUT_SHARE))
        share = train_bytes // world_size
        if share < MIN_SHARE_BYTES:
            msg = (
                f"the text has {len(raw)} bytes, too few for {world_size} learners: each needs "
                f"{MIN_SHARE_BYTES} of its own; give a longer file to --text"
            )
            raise InputError(msg)
        return cls(everything[rank * share : (rank + 1) * share], everything[train_bytes:])


def windows(text: torch.Tensor, starts: torch.Tensor, length: int) -> torch.Tensor:
    """Stretches of a text as (len(starts), length) int64."""
    return text[starts[:, None] + torch.arange(length)].long()


def _read(path: Path) -> bytes:
    try:
        raw = path.read_bytes()
    except OSError as error:
        msg = f"cannot read the text {path}: {error.strerror}; give a readable file to --text"
        raise InputError(msg) from None
    zero = raw.find(0)
    if zero >= 0:
        msg = f"{path} is no text: byte {zero} is zero; give a plain text file, such as UTF-8"
        raise InputError(msg)
    characters = raw.decode(errors="replace")
    odd = (
        characters.count("\N{REPLACEMENT CHARACTER}") + len(raw) - len(raw.translate(None, CONTROL))
    )
    if odd > MOST_ODD_SHARE * len(characters):
        msg = (
            f"{path} is no text: {odd / len(characters):.0%} of it is no UTF-8 or control "
            "characters; give a plain text file in UTF-8"
        )
        raise InputError(msg)
    if len(raw) < MIN_BYTES:
        size = f"has {len(raw)} bytes" if raw else "is empty"
        msg = f"the text {path} {size}; give one of at least {MIN_BYTES} to --text"
        raise InputError(msg)
    return raw


def _python_reference() -> bytes:
    try:
        from pydoc_data.topics import topics
    except ImportError:
        msg = "this Python carries no language reference to train on; give --text FILE"
        raise InputError(msg) from None
    joined = "\n\n".join(topics[name] for name in sorted(topics))
    # Topics quote one another at length. Each paragraph once: nobody trains on the held-out ones.
    return "\n\n".join(dict.fromkeys(joined.split("\n\n"))).encode()
