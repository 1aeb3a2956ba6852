"""The merge group: whoever is there, what they agree on, and the one collective they enter.

Members come and go. A process that dies costs the others at most one merge's time-out: then they
merge without it, given a quorum, and it takes the shared weights from one of them when it is back.
"""

import logging
import secrets
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

import torch

from trainer.cards import BEGIN, Card, MergeRefusedError
from trainer.handover import Handover, HandoverError, SharedState, fetch
from trainer.meeting import Meeting
from trainer.pulse import Pulse
from trainer.roster import Member
from trainer.rounds import Held, Round, Rounds
from trainer.shelf import ShelfError
from trainer.wire import Wire, WireError, connect

# Beats are several a second: who misses that many is not just busy.
SHARE_SILENT = 0.4
FETCH_AGAIN_S = 1.0
# Of the time that a merge may take half is for the others to come.
CALL_PATIENCE = 0.4

log = logging.getLogger("trainer.group")

T = TypeVar("T")


class GlooGroup:
    """One learner's place in its group.

    Args:
        meeting: where the members meet.
        name: this learner's.
        digest: of the first shared weights.
        read: a copy of the shared state, for those who come late; called in another thread.
        quorum: fewer do not merge.
        timeout_s: how long a merge may take, wall time; who is silent for a part of it is gone.
        stopping: true once this process should end; ends every wait.

    Attributes:
        size: how many take part in the merge that was agreed on last.
    """

    def __init__(
        self,
        meeting: Meeting,
        name: str,
        digest: str,
        read: Callable[[], SharedState],
        *,
        quorum: int,
        timeout_s: float,
        stopping: Callable[[], bool],
    ) -> None:
        self._meeting = meeting
        self._timeout_s = timeout_s
        self._stopping = stopping
        host = meeting.own_address()
        self._handover = Handover(host, read)
        own = Member(
            name=name,
            nonce=secrets.token_hex(8),
            host=host,
            port=self._handover.port,
            digest=digest,
        )
        self.pulse = Pulse(meeting, own, SHARE_SILENT * timeout_s)
        self._rounds = Rounds(self.pulse, quorum, timeout_s, stopping)
        self._wire: Wire | None = None
        self._current: Round | None = None
        # What is left of the time of the merge under way; inner steps behind it do not count.
        self._left_s = 0.0
        self._next_fetch_s = 0.0
        self.size = 1
        self._handover.start()
        self.pulse.start()

    def agree(
        self,
        card: Card,
        cancelled: Callable[[], str | None],
        participants: Sequence[str] = (),
    ) -> list[Card]:
        """See `Group`. Takes milliseconds when all are there, and never beyond the time-out."""
        try:
            if card.phase == BEGIN:
                return self._begin(card, cancelled, participants)
            if self._current is None:
                msg = "failed: there is no merge under way"
                raise MergeRefusedError(msg)
            until_s = time.monotonic() + self._left_s
            return self._rounds.confirm(self._current, card, cancelled, until_s)
        except ShelfError as error:
            raise self._lost(error) from error
        except MergeRefusedError:
            # What a peer is still in the middle of must not meet the next merge.
            if card.phase != BEGIN:
                self._cut()
            raise

    def sum(self, vector: torch.Tensor) -> None:
        """See `Group`. After a failure the members are connected anew for the next merge."""
        self._exchange(lambda wire, until_s: wire.sum(vector, until_s, self._stopping))

    def gather(self, vector: torch.Tensor) -> list[torch.Tensor]:
        """See `Group`. Fails as `sum` does."""
        return self._exchange(lambda wire, until_s: wire.gather(vector, until_s, self._stopping))

    def _exchange(self, call: Callable[[Wire, float], T]) -> T:
        current, wire = self._current, self._wire
        if current is None or wire is None:
            msg = "failed: there is no merge under way"
            raise MergeRefusedError(msg)
        start_s = time.monotonic()
        try:
            return call(wire, start_s + self._left_s)
        except WireError as error:
            raise self._failed(current, error) from error
        finally:
            self._left_s -= time.monotonic() - start_s

    def fail(self, why: str) -> None:
        """See `Group`. The members are connected anew for the next merge."""
        if self._current is not None:
            self._give_up(self._current, f"peer_lost: {self.pulse.own.name} failed: {why}")

    def tell(self, step: int, last_merge_step: int, epoch: int, digest: str) -> None:
        """Say where this learner stands; it takes part in merges from now on."""
        self.pulse.tell(
            step=step, last_merge_step=last_merge_step, epoch=epoch, digest=digest, training=True
        )

    def called(self, own_s: float) -> bool:
        """See `Group`."""
        try:
            if not self._rounds.called():
                return False
        except ShelfError:
            return False
        return not 0 < own_s < CALL_PATIENCE * self._timeout_s

    def standing(self) -> Member | None:
        """See `Group`."""
        own = self.pulse.own
        alive = self.pulse.alive().values()
        others = [member for member in alive if member.name != own.name and member.training]
        first = max(others, key=lambda member: (member.epoch, member.step), default=None)
        if first is None or own.nonce not in first.met:
            return first
        return None if (first.epoch, first.digest) == (own.epoch, own.digest) else first

    def newer(self) -> SharedState | None:
        """The shared state that the group has and this learner has not, None when there is none.

        A member that gives nothing is asked again a moment later; meanwhile training goes on.
        """
        ahead = self.pulse.ahead()
        if ahead is None or time.monotonic() < self._next_fetch_s:
            return None
        try:
            return fetch(ahead.host, ahead.port, self._timeout_s)
        except HandoverError as error:
            log.warning("%s: %s", self.pulse.own.name, error)
            self.pulse.in_vain(ahead)
            self._next_fetch_s = time.monotonic() + FETCH_AGAIN_S
            return None

    def leave(self) -> None:
        """See `Group`."""
        self._cut()
        self._handover.close()
        self.pulse.stop()

    def _begin(
        self, card: Card, cancelled: Callable[[], str | None], participants: Sequence[str]
    ) -> list[Card]:
        wire = self._wire
        held = None if wire is None else Held(wire.link, wire.generation, wire.slots)
        current = self._rounds.begin(card, cancelled, participants, held)
        self._current, self.size = current, len(current.slots)
        known = None if wire is None else (wire.link, wire.generation)
        if known != (current.link, current.generation):
            self._cut()
            try:
                self._wire = connect(self._meeting, current, self._timeout_s, self._stopping)
            except WireError as error:
                raise self._failed(current, error) from error
            log.info("generation %d: %s", current.generation, ", ".join(current.names))
        self._left_s = current.deadline_s - time.monotonic()
        return current.cards

    def _failed(self, current: Round, error: WireError) -> MergeRefusedError:
        """A peer has died or stalled in the exchange: nobody takes this merge's step."""
        reason = f"peer_lost: {error}"
        self._give_up(current, reason)
        return MergeRefusedError(reason)

    def _give_up(self, current: Round, reason: str) -> None:
        self._cut()
        self._current = None
        try:
            self._rounds.fail(current, reason)
        except ShelfError as lost:
            self._lost(lost)

    def _lost(self, error: ShelfError) -> MergeRefusedError:
        self._cut()
        if self._current is not None:
            self.pulse.lose(self._current.link)
            self._current = None
        return MergeRefusedError(f"store_lost: {error}")

    def _cut(self) -> None:
        wire, self._wire = self._wire, None
        if wire is not None:
            wire.cut()
