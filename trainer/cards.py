"""What learners tell each other before they merge, and what a merge needs of their group."""

from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec
import torch

from trainer.handover import SharedState
from trainer.roster import Member

BEGIN = "begin"
FORCED_ID = "hmax-"


class MergeRefusedError(Exception):
    """The group did not merge; the reason is the message, its first word a category."""


class Card(msgspec.Struct, frozen=True, kw_only=True):
    """What a learner lays down for the others to see.

    `phase` tells the agreement to begin from those of the same merge that come after it. `epoch`
    counts the merges that the shared weights have been through, `digest` is of these weights.
    `kind` is what is exchanged and how, `tokens` how many this learner has trained on since the
    last merge of it, None when unknown. Whoever comes because H_max forces it (`forced`) names the
    merge by its own step and merges under whatever name the group takes; its step need not be the
    others'. Nor need that of who comes for a command of a moment (`moment_us`), which must be the
    same.
    """

    merge_id: str
    step: int
    epoch: int
    phase: str
    finite: bool = True
    kind: str = ""
    tokens: int | None = 0
    forced: bool = False
    moment_us: int | None = None
    digest: str = ""

    def mismatch(self, other: "Card") -> str | None:
        """The first field that differs and must not, None when none does."""
        names = ["merge_id", "moment_us", "epoch", "phase", "kind", "digest"]
        if self.moment_us is None:
            names.insert(1, "step")
        if self.forced and other.forced:
            names = ["epoch", "phase", "kind", "digest"]
        for name in names:
            mine, theirs = getattr(self, name), getattr(other, name)
            if mine != theirs:
                return f"mismatch: {name} {mine} and {theirs}"
        return None


def agreed_id(cards: Sequence[Card]) -> str:
    """The name of the merge that these cards are for: the commanded one where there is one."""
    commanded = [card.merge_id for card in cards if not card.merge_id.startswith(FORCED_ID)]
    return (commanded or [cards[0].merge_id])[0]


class Group(Protocol):
    """What a merge needs of the other learners.

    `size` is how many merge together: those of the merge that was agreed on last.
    """

    size: int

    def agree(
        self,
        card: Card,
        cancelled: Callable[[], str | None],
        participants: Sequence[str] = (),
    ) -> list[Card]:
        """All cards, in an order that is the same everywhere, once all agree.

        In the phase `begin` a merge is opened: of `participants`, who must all come, or of whoever
        is there when none are named. Later phases are among those who agreed to begin. Raises
        `MergeRefusedError` on all of them otherwise.
        """

    def sum(self, vector: torch.Tensor) -> None:
        """Add up `vector` over all who agreed, in place; raises `MergeRefusedError`."""

    def gather(self, vector: torch.Tensor) -> list[torch.Tensor]:
        """All ranks' vectors, of equal length, in the order of the cards; may raise the same."""

    def fail(self, why: str) -> None:
        """This learner cannot go on with the merge that was agreed on: none is to take its step."""

    def tell(self, step: int, last_merge_step: int, epoch: int, digest: str) -> None:
        """Say where this learner stands; from then on it counts as one that merges."""

    def called(self, own_s: float) -> bool:
        """True while others wait for whoever is there, such as at the H_max of one of them.

        Not when this learner's own H_max comes in `own_s` seconds (0 or less: it was there), so
        soon that they can wait for it.
        """

    def standing(self) -> Member | None:
        """Where the one of the others stands that has come furthest.

        None without others, and when this learner began with them and has the same shared weights:
        then it is not late, and its own count of steps holds.
        """

    def newer(self) -> SharedState | None:
        """The shared state of the group where this learner has another one, else None."""

    def leave(self) -> None:
        """Say that this learner goes for good."""


class Solo:
    """A group of one."""

    size = 1

    def agree(
        self,
        card: Card,
        cancelled: Callable[[], str | None],
        participants: Sequence[str] = (),  # noqa: ARG002 - there is nobody else
    ) -> list[Card]:
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

    def fail(self, why: str) -> None:
        """Nobody waits."""

    def tell(self, step: int, last_merge_step: int, epoch: int, digest: str) -> None:
        """Nobody listens."""

    def called(self, own_s: float) -> bool:  # noqa: ARG002 - there is nobody to wait
        """Nobody calls."""
        return False

    def standing(self) -> Member | None:
        """There is nobody."""
        return None

    def newer(self) -> SharedState | None:
        """There is no other."""
        return None

    def leave(self) -> None:
        """Nobody stays."""
