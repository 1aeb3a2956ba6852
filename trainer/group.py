"""The merge group: who is there, what they agree on, and the one collective they enter.

Agreement goes through the rendezvous store, not through a collective, because a collective that
one rank leaves by time-out cannot be used again. Per round every rank lays down a card; whoever
has seen all cards match proposes `go`, whoever has waited too long or sees a mismatch proposes
the reason not to. The store takes the first proposal, and all obey it:

    rank 0: card ─────── waits ─────── time-out: proposes "absent" ─► first, so it holds
    rank 1:       (slow) ───────────────────── card, sees both: proposes "go" ─► reads "absent"

So no rank enters the collective while another has already left.
"""

import logging
import time
from collections.abc import Callable, Sequence

import msgspec
import torch
import torch.distributed as dist

from trainer.cards import Card, MergeRefusedError
from trainer.shelf import Shelf, ShelfError

GO = "go"
LOOK_AGAIN_S = 0.002
EXCHANGE_LOOK_S = 0.0005
BEAT_S = 1.0
FAREWELL_S = 0.5
# An exchange that is under way when the process is told to end has this long to be done.
LAST_EXCHANGE_S = 1.0

log = logging.getLogger("trainer.group")


class GlooGroup:
    """Learners joined by gloo and a store.

    Args:
        shelf: the store.
        gloo: connects the ranks.
        rank: this learner's.
        names: all learners' names, by rank.
        timeout_s: how long a peer may be silent, wall time.
        stopping: true once this process should end; ends every wait.

    Attributes:
        size: how many learners there are.
        lost: why no merge can be done any more, None while one can.
    """

    def __init__(
        self,
        shelf: Shelf,
        gloo: dist.ProcessGroup,
        rank: int,
        names: Sequence[str],
        timeout_s: float,
        stopping: Callable[[], bool],
    ) -> None:
        self._shelf = shelf
        self._gloo = gloo
        self._rank = rank
        self._names = list(names)
        self._timeout_s = timeout_s
        self._stopping = stopping
        self._round = 0
        self._beats = 0
        self._next_beat = 0.0
        # rank -> (its last beat, our monotonic time when that beat was new)
        now = time.monotonic()
        self._heard: dict[int, tuple[str | None, float]] = {
            r: (None, now) for r in range(len(names)) if r != rank
        }
        self.lost: str | None = None
        self.size = len(names)

    def agree(self, card: Card, cancelled: Callable[[], str | None]) -> list[Card]:
        """See `Group`. Takes milliseconds when all are there, `timeout_s` at most."""
        self._check_lost()
        try:
            return self._agree(card, cancelled)
        except ShelfError as error:
            raise self._lose(f"store_lost: {error}") from error  # noqa: EM102

    def sum(self, vector: torch.Tensor) -> None:
        """See `Group`. After a failure the ranks' connections are broken: no later sum works."""
        self._exchange(lambda: self._gloo.allreduce([vector]))

    def gather(self, vector: torch.Tensor) -> list[torch.Tensor]:
        """See `Group`. Fails as `sum` does."""
        found = [torch.empty_like(vector) for _ in range(self.size)]
        self._exchange(lambda: self._gloo.allgather([found], [vector]))
        return found

    def _exchange(self, begin: Callable[[], dist.Work]) -> None:
        self._check_lost()
        try:
            self._wait_for(begin())
        except RuntimeError as error:
            reason = str(error).partition("\n")[0][:120]
            raise self._lose(f"peer_lost: in the exchange: {reason}") from error  # noqa: EM102

    def beat(self) -> None:
        """See `Group`. At most once in `BEAT_S`; also looks for the others' beats."""
        now = time.monotonic()
        if now < self._next_beat or self.lost is not None:
            return
        self._next_beat = now + BEAT_S
        self._beats += 1
        try:
            self._shelf.put(f"beat/{self._rank}", str(self._beats))
            for rank, (last, _) in self._heard.items():
                found = self._shelf.get(f"beat/{rank}")
                if found != last:
                    self._heard[rank] = (found, now)
        except ShelfError as error:
            self._lose(f"store_lost: {error}")

    def leave(self) -> None:
        """See `Group`. The rank that holds the store stays a moment for the others to leave."""
        if self.lost is not None:
            return
        try:
            self._shelf.put(f"left/{self._rank}", "1")
            deadline = time.monotonic() + (FAREWELL_S if self._rank == 0 else 0)
            while time.monotonic() < deadline and self._gone() is None:
                time.sleep(LOOK_AGAIN_S)
        except ShelfError as error:
            self._lose(f"store_lost: {error}")

    def _agree(self, card: Card, cancelled: Callable[[], str | None]) -> list[Card]:
        while self._shelf.has(f"round/{self._round}/verdict"):
            # A round that was closed without this rank; the others are past it.
            self._round += 1
        here = f"round/{self._round}"
        self._round += 1
        self._shelf.put(f"{here}/card/{self._rank}", msgspec.json.encode(card).decode())
        cards, reason = self._gather(here, cancelled)
        verdict = self._shelf.first(f"{here}/verdict", reason or GO)
        if verdict != GO:
            raise MergeRefusedError(verdict)
        return cards

    def _gather(
        self, here: str, cancelled: Callable[[], str | None]
    ) -> tuple[list[Card], str | None]:
        keys = [f"{here}/card/{rank}" for rank in range(self.size)]
        deadline = time.monotonic() + self._timeout_s
        while not self._shelf.has(*keys):
            reason = cancelled() or self._gone() or self._why_stop(deadline, keys)
            if reason is not None:
                return [], reason
            self.beat()
            time.sleep(LOOK_AGAIN_S)
        cards = [msgspec.json.decode(self._shelf.get(key) or "", type=Card) for key in keys]
        found = (cards[0].mismatch(other) for other in cards)
        return cards, next((reason for reason in found if reason), None)

    def _wait_for(self, work: dist.Work) -> None:
        told: float | None = None
        while not work.is_completed():
            if self._stopping():
                told = told or time.monotonic()
                if time.monotonic() - told > LAST_EXCHANGE_S:
                    msg = "stopping: the exchange did not end in time"
                    raise self._lose(msg)
            time.sleep(EXCHANGE_LOOK_S)
        work.wait()

    def _why_stop(self, deadline: float, keys: list[str]) -> str | None:
        if self._stopping():
            return f"stopping: {self._names[self._rank]} ends"
        if time.monotonic() > deadline:
            there = [self._shelf.has(key) for key in keys]
            absent = [
                name for name, is_there in zip(self._names, there, strict=True) if not is_there
            ]
            return f"absent: {', '.join(absent)} not there after {self._timeout_s:g} s"
        return None

    def _gone(self) -> str | None:
        """Who has left or fallen silent, None while all others are there."""
        for rank, (_, heard) in self._heard.items():
            if self._shelf.has(f"left/{rank}"):
                return f"left: {self._names[rank]} has left"
            if time.monotonic() - heard > self._timeout_s:
                return f"silent: no sign of {self._names[rank]} for {self._timeout_s:g} s"
        return None

    def _check_lost(self) -> None:
        if self.lost is not None:
            raise MergeRefusedError(self.lost)

    def _lose(self, reason: str) -> MergeRefusedError:
        self.lost = reason
        log.warning("%s is on its own from here: %s", self._names[self._rank], reason)
        return MergeRefusedError(reason)
