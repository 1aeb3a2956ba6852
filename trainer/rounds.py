"""How learners agree on a merge and on who makes it, so that nobody enters a collective alone.

Agreement goes through the store, not through a collective, because a collective that one side
leaves by time-out cannot be used again. Per merge a round: everybody lays down a card; whoever has
seen all that are expected proposes `go` and who takes part, whoever has waited too long or sees a
mismatch proposes the reason not to. The store takes the first proposal, and all obey it:

    learner 0: card ───── waits ───── time-out: proposes "absent" ─► first, so it holds
    learner 1:      (slow) ──────────────── card, sees both: proposes "go" ─► reads "absent"

The same once more before the outer step: all have the sum, or none takes the step.
"""

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import msgspec

from slackwater.attach.waiting import Waiting
from trainer.cards import Card, MergeRefusedError
from trainer.pulse import Link, Pulse
from trainer.roster import pick_shared

LOOK_AGAIN_S = 0.002
# The rest of a merge's time is for the exchange.
SHARE_TO_GATHER = 0.5

Cancelled = Callable[[], str | None]

log = logging.getLogger("trainer.group")


class _Laid(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    card: Card
    generation: int | None = None


class _Verdict(msgspec.Struct, frozen=True, kw_only=True):
    reason: str | None = None
    slots: list[int] = []
    generation: int = 0
    merge_ids: list[str] = []


@dataclass(frozen=True, slots=True)
class Held:
    """A generation that is connected: by which store it was numbered, and its slots."""

    link: Link
    generation: int
    slots: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Round:
    """A merge that was agreed on.

    Attributes:
        number: of the round.
        link: through which it was agreed.
        slots: who takes part, in the order of names.
        names: their names.
        generation: numbers sets of members; gloo is connected anew for each.
        cards: theirs, in the same order.
        deadline_s: monotonic time by which the merge must be done.
    """

    number: int
    link: Link
    slots: tuple[int, ...]
    names: tuple[str, ...]
    generation: int
    cards: list[Card]
    deadline_s: float


class Rounds:
    """One learner's part in the agreements; the store's failures are `ShelfError`.

    Args:
        pulse: knows who is there.
        quorum: fewer do not merge.
        timeout_s: how long a merge may take, wall time; half of it for the others to come.
        stopping: true once this process should end; ends every wait.
    """

    def __init__(
        self, pulse: Pulse, quorum: int, timeout_s: float, stopping: Callable[[], bool]
    ) -> None:
        self._pulse = pulse
        self._quorum = quorum
        self._timeout_s = timeout_s
        self._stopping = stopping
        self._link: Link | None = None
        self._next = 0
        self._been_in: int | None = None

    def called(self) -> bool:
        """True while a round for whoever is there is open that this learner has not been in."""
        called = self._pulse.called
        if called is None:
            return False
        # In a store where this learner has begun nothing yet it has been in no round.
        return self._pulse.link() is not self._link or called >= self._next

    def begin(
        self,
        card: Card,
        cancelled: Cancelled,
        participants: Sequence[str],
        held: Held | None,
    ) -> Round:
        """Agree to merge; `held` is what is connected."""
        start_s = time.monotonic()
        link = self._catch_up()
        if held is not None and held.link is not link:
            held = None  # Another store numbers generations anew.
        if self._pulse.superseded():
            msg = f"duplicate: another process goes by the name {self._pulse.own.name}"
            raise MergeRefusedError(msg)
        if participants and len(participants) < self._quorum:
            msg = f"quorum: {len(participants)} participants, {self._quorum} are needed"
            raise MergeRefusedError(msg)
        if participants:
            self._refused_before(link, card)
        number, here = self._next, f"round/{self._next}"
        self._been_in = number
        laid = _Laid(
            name=self._pulse.own.name,
            card=card,
            generation=None if held is None else held.generation,
        )
        link.shelf.put(f"{here}/card/{link.slot}", msgspec.json.encode(laid).decode())
        if not participants:
            link.shelf.put("call", str(number))
        table = _Table(link, f"{here}/card", f"{here}/verdict")
        table.laid[link.slot] = laid
        gather_until_s = start_s + SHARE_TO_GATHER * self._timeout_s
        waiting = self._waiting(f"to come to {card.merge_id}", SHARE_TO_GATHER * self._timeout_s)
        while (verdict := table.verdict()) is None:
            verdict = self._judge(table, cancelled, participants, gather_until_s)
            if verdict is not None:
                if verdict.reason is None:
                    verdict = _numbered(verdict, table, link, held)
                verdict = table.propose(verdict)
                break
            waiting.look(lambda: self._awaited(table, participants))
            time.sleep(LOOK_AGAIN_S)
        waiting.over(verdict.reason or "it merges")
        self._next = number + 1
        link.shelf.put("rounds", str(self._next))
        return self._entered(number, link, table, verdict, start_s + self._timeout_s)

    def confirm(
        self, current: Round, card: Card, cancelled: Cancelled, until_s: float
    ) -> list[Card]:
        """Agree once more, among those who began, by a monotonic time."""
        link, here = current.link, f"round/{current.number}"
        laid = _Laid(name=self._pulse.own.name, card=card)
        link.shelf.put(f"{here}/{card.phase}/{link.slot}", msgspec.json.encode(laid).decode())
        table = _Table(link, f"{here}/{card.phase}", f"{here}/{card.phase}/verdict")
        table.laid[link.slot] = laid
        most_s = max(0.0, until_s - time.monotonic())
        waiting = self._waiting(f"to have the exchange of {card.merge_id}", most_s)
        while (verdict := table.verdict()) is None:
            reason = cancelled() or self._why_not(current, table, until_s)
            reason = reason or _mismatch(table.laid.values())
            if reason is not None or not table.missing(current.slots):
                verdict = table.propose(_Verdict(reason=reason, slots=list(current.slots)))
                break
            waiting.look(lambda: _missing_names(table, current))
            time.sleep(LOOK_AGAIN_S)
        waiting.over(verdict.reason or "all have it")
        if verdict.reason is not None:
            raise MergeRefusedError(verdict.reason)
        table.missing(current.slots)
        return [table.laid[slot].card for slot in current.slots]

    def fail(self, current: Round, reason: str) -> None:
        """Tell the others at once that this learner has no sum."""
        current.link.shelf.first(f"round/{current.number}/failed", reason)

    def _catch_up(self) -> Link:
        """Find the first round that is open; a store that started anew knows no old ones."""
        link = self._pulse.link()
        if link is not self._link:
            self._link, self._next = link, int(link.shelf.get("rounds") or 0)
            self._been_in = None
        while link.shelf.has(f"round/{self._next}/verdict"):
            # It was closed without this learner; the others are past it.
            self._next += 1
        return link

    def _refused_before(self, link: Link, card: Card) -> None:
        """Raise the refusal that the others came to before this learner was there.

        It would wait for them in vain: they are past this merge. What H_max forces has no id of
        its own and is tried again.
        """
        number = self._next - 1
        text = link.shelf.get(f"round/{number}/verdict") if number != self._been_in else None
        verdict = None if text is None else msgspec.json.decode(text, type=_Verdict)
        if verdict is not None and verdict.reason and card.merge_id in verdict.merge_ids:
            raise MergeRefusedError(verdict.reason)

    def _judge(
        self,
        table: "_Table",
        cancelled: Cancelled,
        participants: Sequence[str],
        until_s: float,
    ) -> _Verdict | None:
        """What to propose, None to wait on."""
        alive = self._pulse.alive()
        reason = cancelled() or self._why_stop()
        if participants:
            gone = (self._pulse.why_gone(name) for name in participants)
            reason = reason or next((why for why in gone if why), None)
            expected = {slot: m.name for slot, m in alive.items() if m.name in participants}
        else:
            expected = {slot: m.name for slot, m in alive.items()}
            if len(expected) < self._quorum:
                reason = reason or f"quorum: {len(expected)} there, {self._quorum} are needed"
        missing = table.missing(expected)
        behind = set() if participants else table.behind()
        if len(expected.keys() - behind) >= self._quorum:
            # Who has yet to take the group's weights does not keep the others from merging.
            expected = {slot: name for slot, name in expected.items() if slot not in behind}
        else:
            behind = set()
        fit = [laid for slot, laid in table.laid.items() if slot not in behind]
        reason = reason or _mismatch(fit)
        if reason is not None:
            return _Verdict(reason=reason)
        complete = not missing and len(expected) >= len(participants)
        if not complete and time.monotonic() < until_s:
            return None
        there = sorted((s for s in expected if s not in missing), key=lambda s: expected[s])
        if complete or (not participants and len(there) >= self._quorum):
            return _Verdict(slots=there)
        absent = ", ".join(expected[slot] for slot in missing) or "somebody"
        waited_s = SHARE_TO_GATHER * self._timeout_s
        return _Verdict(reason=f"absent: {absent} not there after {waited_s:g} s")

    def _waiting(self, what: str, most_s: float) -> Waiting:
        return Waiting(log, self._pulse.own.name, what, most_s)

    def _awaited(self, table: "_Table", participants: Sequence[str]) -> set[str]:
        """Names of those who have not come to a merge: of all named, or of whoever is alive."""
        here = {laid.name for laid in table.laid.values()}
        expected = participants or [member.name for member in self._pulse.alive().values()]
        return set(expected) - here

    def _entered(
        self, number: int, link: Link, table: "_Table", verdict: _Verdict, deadline_s: float
    ) -> Round:
        if verdict.reason is not None:
            raise MergeRefusedError(verdict.reason)
        if link.slot not in verdict.slots:
            msg = "late: the others merge without this learner"
            raise MergeRefusedError(msg)
        table.missing(verdict.slots)
        laid = [table.laid[slot] for slot in verdict.slots]
        return Round(
            number=number,
            link=link,
            slots=tuple(verdict.slots),
            names=tuple(one.name for one in laid),
            generation=verdict.generation,
            cards=[one.card for one in laid],
            deadline_s=deadline_s,
        )

    def _why_not(self, current: Round, table: "_Table", until_s: float) -> str | None:
        failed = current.link.shelf.get(f"round/{current.number}/failed")
        if failed is not None:
            return failed
        here = self._pulse.here()
        for slot, name in zip(current.slots, current.names, strict=True):
            if slot not in here and slot in table.missing(current.slots):
                return self._pulse.why_gone(name) or f"restarted: {name} has lost this merge"
        if time.monotonic() > until_s:
            return f"absent: not all were done after {self._timeout_s:g} s"
        return self._why_stop()

    def _why_stop(self) -> str | None:
        return f"stopping: {self._pulse.own.name} ends" if self._stopping() else None


class _Table:
    """The cards of one phase, read as they come, and its verdict."""

    def __init__(self, link: Link, cards: str, verdict: str) -> None:
        self._shelf = link.shelf
        self._cards = cards
        self._verdict = verdict
        self.laid: dict[int, _Laid] = {}

    def missing(self, slots: Sequence[int] | dict[int, str]) -> list[int]:
        """Those of these slots that have laid no card yet."""
        for slot in slots:
            if slot not in self.laid:
                text = self._shelf.get(f"{self._cards}/{slot}")
                if text is not None:
                    self.laid[slot] = msgspec.json.decode(text, type=_Laid)
        return [slot for slot in slots if slot not in self.laid]

    def behind(self) -> set[int]:
        """Those whose cards are of other shared weights than the group should agree on."""
        best = pick_shared([laid.card for laid in self.laid.values()])
        cards = ((slot, laid.card) for slot, laid in self.laid.items())
        return {slot for slot, card in cards if (card.epoch, card.digest) != best}

    def verdict(self) -> _Verdict | None:
        """What holds, None while nothing does."""
        text = self._shelf.get(self._verdict)
        return None if text is None else msgspec.json.decode(text, type=_Verdict)

    def propose(self, verdict: _Verdict) -> _Verdict:
        """What holds: this, unless another was first."""
        ids = sorted({laid.card.merge_id for laid in self.laid.values()})
        verdict = msgspec.structs.replace(verdict, merge_ids=ids)
        text = self._shelf.first(self._verdict, msgspec.json.encode(verdict).decode())
        return msgspec.json.decode(text, type=_Verdict)


def _missing_names(table: _Table, current: Round) -> list[str]:
    missing = table.missing(current.slots)
    pairs = zip(current.slots, current.names, strict=True)
    return [name for slot, name in pairs if slot in missing]


def _mismatch(found: Iterable[_Laid]) -> str | None:
    # In the order of names, so that it reads the same whoever finds it.
    cards = [laid.card for laid in sorted(found, key=lambda laid: laid.name)]
    reasons = (cards[0].mismatch(other) for other in cards)
    return next((reason for reason in reasons if reason), None)


def _numbered(verdict: _Verdict, table: _Table, link: Link, held: Held | None) -> _Verdict:
    """With the generation: the one that all these hold, else a new one."""
    slots = tuple(verdict.slots)
    generations = {table.laid[slot].generation for slot in slots}
    if held is not None and generations == {held.generation} and held.slots == slots:
        return msgspec.structs.replace(verdict, generation=held.generation)
    return msgspec.structs.replace(verdict, generation=link.shelf.add("generations", 1))
