"""Who is in the group, as one learner sees it: pure bookkeeping over what members say."""

from collections import Counter
from collections.abc import Sequence
from typing import Protocol

import msgspec


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """What one process of a learner says of itself, several times a second.

    Attributes:
        name: the learner's.
        nonce: of this process; a learner that was started again has another.
        host, port: where it hands over the shared weights.
        beats: counts up while it lives.
        step: its inner steps.
        last_merge_step: where its last merge stands.
        epoch: merges that its shared weights have been through.
        digest: of its shared weights.
        training: true once it takes steps.
        met: nonces of those whom it began with; who is not among them came later.
        left: true when it has gone for good.
    """

    name: str
    nonce: str
    host: str = ""
    port: int = 0
    beats: int = 0
    step: int = 0
    last_merge_step: int = 0
    epoch: int = 0
    digest: str = ""
    training: bool = False
    met: tuple[str, ...] = ()
    left: bool = False


class Roster:
    """All members by slot; a slot is the number of a process in the order of coming.

    Args:
        own: this process.
        silent_s: who has said nothing new for so long counts as gone.
    """

    def __init__(self, own: Member, silent_s: float) -> None:
        self.own = own
        self._silent_s = silent_s
        # slot -> (its last word, our monotonic time when that was new)
        self._known: dict[int, tuple[Member, float]] = {}
        self._newest: dict[str, int] = {}
        # By nonce, how often it gave nothing.
        self._in_vain: Counter[str] = Counter()

    def forget(self) -> None:
        """Start anew, as in a store that knows nobody."""
        self._known.clear()
        self._newest.clear()

    def see(self, slot: int, member: Member, now_s: float) -> None:
        """Note what stands in a slot."""
        known = self._known.get(slot)
        if known is None or known[0] != member:
            self._known[slot] = (member, now_s)
            self._newest[member.name] = max(slot, self._newest.get(member.name, slot))

    def closed(self, slot: int) -> bool:
        """True for a slot that nobody will speak in again: not worth a look."""
        if slot not in self._known:
            return False
        member = self._known[slot][0]
        return member.left or self._newest[member.name] != slot

    def alive(self, now_s: float) -> dict[int, Member]:
        """Those who train and were heard of lately, this process included, by slot.

        Whom this one began with will train in a moment, and counts already; so does this one,
        whose own word that it trains may not have gone out yet.
        """
        counted = {*self.own.met, self.own.nonce} if self.own.training else set(self.own.met)
        return {
            slot: member
            for slot, member in self.here(now_s).items()
            if member.training or member.nonce in counted
        }

    def here(self, now_s: float) -> dict[int, Member]:
        """Like `alive`, with those who do not train yet."""
        return {
            slot: member
            for slot, (member, heard_s) in sorted(self._known.items())
            if not self.closed(slot)
            and (member.nonce == self.own.nonce or now_s - heard_s <= self._silent_s)
        }

    def why_gone(self, name: str, now_s: float) -> str | None:
        """Why a learner cannot be counted on, None when it can."""
        slot = self._newest.get(name)
        if slot is None:
            return f"absent: {name} has not come"
        member, heard_s = self._known[slot]
        if member.left:
            return f"left: {name} has left"
        if member.nonce != self.own.nonce and now_s - heard_s > self._silent_s:
            return f"silent: no sign of {name} for {self._silent_s:g} s"
        return None

    def superseded(self) -> bool:
        """True when another process goes by this one's name."""
        slot = self._newest.get(self.own.name)
        return slot is not None and self._known[slot][0].nonce != self.own.nonce

    def ahead(self, now_s: float) -> Member | None:
        """A member that has the shared weights that this one should have, None if it has them.

        Those of most merges count; among several such, those that most members have.
        """
        own = self.own.name
        alive = [m for m in self.alive(now_s).values() if m.name != own and m.training and m.digest]
        best = pick_shared([*alive, self.own])
        if best is None or best == (self.own.epoch, self.own.digest):
            return None
        found = [m for m in alive if (m.epoch, m.digest) == best]
        return min(found, key=lambda m: self._in_vain[m.nonce])

    def in_vain(self, member: Member) -> None:
        """This one was asked for its weights and gave nothing: ask another next."""
        self._in_vain[member.nonce] += 1


class Holds(Protocol):
    """Something said of the shared weights that a member has."""

    @property
    def epoch(self) -> int:
        """Merges that they have been through."""

    @property
    def digest(self) -> str:
        """Of them."""


def pick_shared(members: Sequence[Holds]) -> tuple[int, str] | None:
    """Epoch and digest of the weights that these members should agree on; None of nobody."""
    if not members:
        return None
    newest = max(m.epoch for m in members)
    votes = Counter(m.digest for m in members if m.epoch == newest)
    most = max(votes.values())
    return newest, min(digest for digest, count in votes.items() if count == most)
