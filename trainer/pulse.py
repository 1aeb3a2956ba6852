"""The thread that keeps a learner known to its group, whatever its training loop does meanwhile.

It says that the learner lives, reads what the others say, and finds the meeting place again when
that was away: then everybody comes anew, in a new slot.
"""

import logging
import threading
import time
from dataclasses import dataclass

import msgspec

from slackwater.errors import SlackwaterError
from trainer.meeting import Meeting
from trainer.roster import Member, Roster
from trainer.shelf import Shelf, ShelfError

BEAT_S = 0.25
RETRY_S = 0.3

log = logging.getLogger("trainer.group")


@dataclass(frozen=True, slots=True, eq=False)
class Link:
    """A connection to the store, and the slot that this process has in it."""

    shelf: Shelf
    slot: int


class Pulse(threading.Thread):
    """Beats, and keeps the roster.

    Args:
        meeting: where the store is.
        own: what this learner says of itself at first.
        silent_s: who has said nothing new for so long counts as gone.
    """

    def __init__(self, meeting: Meeting, own: Member, silent_s: float) -> None:
        super().__init__(name="pulse", daemon=True)
        self._meeting = meeting
        self._lock = threading.Lock()
        self._roster = Roster(own, silent_s)
        self._link: Link | None = None
        self._stopping = threading.Event()
        self._called: int | None = None
        self._ahead: Member | None = None
        self._why_away = "not connected yet"
        self._met = False
        self.failure: SlackwaterError | None = None

    def run(self) -> None:
        """One connection after another, until `stop`."""
        while not self._stopping.is_set():
            try:
                self._serve(self._meeting.open())
            except ShelfError as error:
                self._say_away(str(error))
            except Exception as error:
                # Such as an address that this process is to listen at and cannot: its user must
                # know at the start. Later another may be back there, and training goes on anyway.
                if isinstance(error, SlackwaterError) and not self._met:
                    self.failure = error
                    return
                self._say_away(f"{type(error).__name__}: {error}")
            self._stopping.wait(RETRY_S)

    def stop(self) -> None:
        """Say that this learner goes for good, when that is still possible, and end.

        A thread that waits for a host which does not answer is left behind: it is a daemon.
        """
        self._stopping.set()
        self.join(self._meeting.timeout_s)

    def link(self) -> Link:
        """The connection; raises `ShelfError` while there is none."""
        link = self._link
        if link is None:
            raise ShelfError(self._why_away)
        return link

    def lose(self, link: Link) -> None:
        """This connection is no good any more: take a new one."""
        with self._lock:
            if self._link is link:
                self._link = None

    def tell(self, **changes: object) -> None:
        """What the next beat shall say of this learner."""
        with self._lock:
            self._roster.own = msgspec.structs.replace(self._roster.own, **changes)

    @property
    def own(self) -> Member:
        """What this learner says of itself."""
        return self._roster.own

    def alive(self) -> dict[int, Member]:
        """Those who train and can be counted on, this learner included, by slot."""
        with self._lock:
            return self._roster.alive(time.monotonic())

    def here(self) -> dict[int, Member]:
        """Like `alive`, with those who do not train yet."""
        with self._lock:
            return self._roster.here(time.monotonic())

    def why_gone(self, name: str) -> str | None:
        """Why a learner cannot be counted on, None when it can."""
        with self._lock:
            return self._roster.why_gone(name, time.monotonic())

    def superseded(self) -> bool:
        """True when another process goes by this learner's name."""
        with self._lock:
            return self._roster.superseded()

    def ahead(self) -> Member | None:
        """A member with the shared weights that this learner should have, None if it has them.

        Cheap enough for every step: unless the last look found one there is nothing to compare.
        """
        if self._ahead is None:
            return None
        with self._lock:
            self._ahead = self._roster.ahead(time.monotonic())
            return self._ahead

    def in_vain(self, member: Member) -> None:
        """A member that `ahead` named gave nothing: another is asked next, where there is one."""
        with self._lock:
            self._roster.in_vain(member)

    @property
    def called(self) -> int | None:
        """The round that was open for whoever is there at the last look, None without one."""
        return self._called

    def _serve(self, shelf: Shelf) -> None:
        try:
            self._keep(Link(shelf, shelf.add("slots", 1)))
        finally:
            shelf.close()

    def _keep(self, link: Link) -> None:
        with self._lock:
            self._roster.forget()
            self._called = None
        self._beat(link)
        self._look(link)
        self._link, self._met = link, True
        log.info("%s is member %d of the group", self._roster.own.name, link.slot)
        try:
            while not self._stopping.wait(BEAT_S):
                if self._link is not link:
                    return
                self._beat(link)
                self._look(link)
            self.tell(left=True)
            self._beat(link)
        finally:
            self.lose(link)

    def _beat(self, link: Link) -> None:
        with self._lock:
            self._roster.own = own = msgspec.structs.replace(
                self._roster.own, beats=self._roster.own.beats + 1
            )
            self._roster.see(link.slot, own, time.monotonic())
        link.shelf.put(f"member/{link.slot}", msgspec.json.encode(own).decode())

    def _look(self, link: Link) -> None:
        shelf = link.shelf
        most = shelf.add("slots", 0)
        with self._lock:
            closed = {s for s in range(1, most + 1) if self._roster.closed(s)}
        wanted = [s for s in range(1, most + 1) if s not in closed and s != link.slot]
        # Who has a slot may not have said a word in it yet, or never will.
        found = {slot: shelf.get(f"member/{slot}") for slot in wanted}
        called = shelf.get("call")
        if called is not None and shelf.has(f"round/{called}/verdict"):
            called = None  # It is over.
        now_s = time.monotonic()
        with self._lock:
            for slot, text in found.items():
                if text is not None:
                    self._roster.see(slot, msgspec.json.decode(text, type=Member), now_s)
            self._called = None if called is None else int(called)
            self._ahead = self._roster.ahead(now_s)

    def _say_away(self, why: str) -> None:
        if self._why_away != why:
            self._why_away = why
            log.warning("%s: the group's meeting place is away: %s", self._roster.own.name, why)
