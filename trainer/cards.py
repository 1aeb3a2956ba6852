"""What learners tell each other before they merge, and what a merge needs of their group."""

from collections.abc import Callable
from typing import Protocol

import msgspec
import torch


class MergeRefusedError(Exception):
    """The group did not merge; the reason is the message, its first word a category."""


class Card(msgspec.Struct, frozen=True, kw_only=True):
    """What a rank lays down for the others to see; all but `finite` and `tokens` must be equal.

    `phase` tells the agreement to begin from the one that all have exchanged. `kind` is what is
    exchanged and how, `tokens` how many this learner has trained on since the last merge of it.
    """

    merge_id: str
    steps_since_merge: int
    epoch: int
    phase: str
    finite: bool = True
    kind: str = ""
    tokens: int = 0

    def mismatch(self, other: "Card") -> str | None:
        """The first field that differs, None when none does."""
        for name in ("merge_id", "steps_since_merge", "epoch", "phase", "kind"):
            mine, theirs = getattr(self, name), getattr(other, name)
            if mine != theirs:
                return f"mismatch: {name} {mine} and {theirs}"
        return None


class Group(Protocol):
    """What a merge needs of the other learners."""

    size: int

    def agree(self, card: Card, cancelled: Callable[[], str | None]) -> list[Card]:
        """All ranks' cards, once all agree; raises `MergeRefusedError` on all ranks otherwise."""

    def sum(self, vector: torch.Tensor) -> None:
        """Add up `vector` over all ranks, in place; raises `MergeRefusedError`."""

    def gather(self, vector: torch.Tensor) -> list[torch.Tensor]:
        """All ranks' vectors, of equal length, in the order of the cards; may raise the same."""

    def beat(self) -> None:
        """Say that this rank is alive; cheap enough for every step."""

    def leave(self) -> None:
        """Say that this rank goes for good."""


class Solo:
    """A group of one."""

    size = 1

    def agree(self, card: Card, cancelled: Callable[[], str | None]) -> list[Card]:
        """Its own card."""
        reason = cancelled()
        if reason is not None:
            raise MergeRefusedError(reason)
        return [card]

    def sum(self, vector: torch.Tensor) -> None:
        """Nothing to add."""

    def gather(self, vector: torch.Tensor) -> list[torch.Tensor]:
        """Its own vector."""
        return [vector]

    def beat(self) -> None:
        """Nobody listens."""

    def leave(self) -> None:
        """Nobody stays."""
