"""One learner's side of the merge protocol: a state machine without I/O, threads or clock.

    command ──► accepted ──► all participants accepted ──► order at its place ──► finished
       │            │                                            │
       └► skipped   └► skipped (no commit, a peer withdrew) ◄────┘

Why nobody enters a collective on a command alone:

    learner-0                            learner-1
    reads merge m at step 200            does not read it (late, away, beyond its corridor)
    step 200: all_reduce, waits ...      step 200: trains on
         ... for ever                    step 512: all_reduce of H_max, paired with m's

So an accept is a promise on the merges topic, and only when the promises of *all* participants,
the learner's own among them, have been read back from there is the order committed.

Who the participants are, the command says. A group with a quorum takes any set of learners that is
large enough, as its members come and go; one without takes its full set alone.

The place of a merge is a step, the same number for all, or for learners of unequal speed a moment:
each then merges at the end of its first step at or after it, within its own corridor:

    moment                       ▼
    learner-0   |--|--|--|--|--|--|               step 6 ends first after it
    learner-1   |-----|-----|-----|               step 3 does
"""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar
from typing import Protocol as SaysProtocol

from slackwater.attach.orders import MergeOrder
from slackwater.corridor import Corridor
from slackwater.errors import InputError
from slackwater.events import H_MAX, H_MAX_OVERDUE, SKIPPED_LATE, Accepted, MergeCommand, Skipped

KEPT_IDS = 1024

# How far ahead a command may look, in times to H_max: a moment that far brings the learner to
# H_max first in any case, and a deadline has room for a lead of half of that way and more.
MOMENT_SPANS = 2
DEADLINE_SPANS = 10
# For learners of quick steps, whose way to H_max is shorter than clocks and brokers are late.
LEAST_AHEAD_US = 60 * 1_000_000
# While the step time is unknown, and for deadlines, which hold nobody up by themselves.
UNKNOWN_AHEAD_US = 3_600 * 1_000_000

K = TypeVar("K")
V = TypeVar("V")

Phase = Literal["accepted", "skipped"]
Place = tuple[str, Literal["step", "moment"], int]


class Say(SaysProtocol):
    """How a learner is heard."""

    def __call__(
        self, phase: Phase, merge_id: str, step: int, reason: str, moment_us: int | None = None, /
    ) -> None:
        """Say it; `moment_us` with promises to a command that names a moment."""


@dataclass(frozen=True, slots=True)
class Await:
    """The learner stands at a step it promised to merge at, and not all promises are in yet."""

    merge_id: str


class Protocol:
    """What to answer to commands, and what to do at a step.

    Args:
        learner: this learner's name.
        participants: the learners of the group, this one included.
        corridor: gaps are counted from the last merge done, the first one from step 0.
        say: called with (phase, merge_id, step, reason) for what others must hear, and with the
            moment where a promise is to one.
        quorum: how many participants a command must name at least; None for exactly
            `participants`.

    Attributes:
        step: the last step reported.
        step_us: when that was, event time; None before the first. Who passes steps over
            sets it before a command is answered.
        pending: the command promised to, None without one.
        order: the merge under way, None without one.
        epoch: merges that the shared weights have been through.
        last_merge_step: where the last merge that was done stands.
        forced_step: where H_max forces the next one.
        step_time_s: of its slower steps, to be set by whoever measures them; None while unknown.
    """

    def __init__(
        self,
        learner: str,
        participants: Sequence[str],
        corridor: Corridor,
        say: Say,
        quorum: int | None = None,
    ) -> None:
        self._learner = learner
        self._participants = frozenset(participants)
        self._corridor = corridor
        self._say = say
        self._quorum = quorum
        self.step = 0
        self.step_us: int | None = None
        self.step_time_s: float | None = None
        self.epoch = 0
        self.last_merge_step = 0
        self.forced_step = corridor.last(0)
        self.paused = False
        self.pending: MergeCommand | None = None
        self.order: MergeOrder | None = None
        self._behind = False
        self._seen: OrderedDict[str, None] = OrderedDict()
        self._promises: OrderedDict[Place, set[str]] = OrderedDict()
        self._withdrawals: OrderedDict[str, dict[str, str]] = OrderedDict()

    def command(self, command: MergeCommand, now_us: int) -> bool:
        """Answer a command; False when it is a duplicate, which is not answered twice."""
        if command.merge_id in self._seen:
            return False
        _keep(self._seen, command.merge_id, None)
        reason = self._refusal(command, now_us)
        if reason is not None:
            self._say("skipped", command.merge_id, self._step_told(command), reason)
            return True
        self.pending = command
        step, moment_us = self._step_told(command), command.moment_us
        self._say("accepted", command.merge_id, step, command.reason, moment_us)
        return True

    def heard(self, report: Accepted | Skipped) -> None:
        """Note what the merges topic says about a promise, this learner's own included."""
        if isinstance(report, Accepted):
            key = _place(report.merge_id, report.step, report.moment_us)
            promised = self._promises.get(key) or _keep(self._promises, key, set())
            promised.add(report.learner)
        elif report.learner != self._learner:
            found = self._withdrawals.get(report.merge_id)
            told = _keep(self._withdrawals, report.merge_id, {}) if found is None else found
            told[report.learner] = f"{report.learner} skipped: {report.reason}"
            pending = self.pending
            if pending is not None and pending.merge_id == report.merge_id:
                withdrawn = self.withdrawn(pending.merge_id, pending.participants)
                if withdrawn is not None:
                    self._drop(f"peer_skipped: {withdrawn}")

    def silent(self) -> list[str]:
        """Whose promises to the pending merge are not in; the own one is on its way, if all are."""
        found = [] if self.pending is None else self._silent(self.pending)
        return [name for name in found if name != self._learner] or ["the broker"]

    def withdrawn(self, merge_id: str, participants: Sequence[str]) -> str | None:
        """Which of these took its promise back and why, None while none has."""
        told = self._withdrawals.get(merge_id, {})
        return next((told[name] for name in participants if name in told), None)

    def at_step(self, step: int, now_us: int, *, waited: bool = False) -> MergeOrder | Await | None:
        """What the learner does at `step`: merge, wait for promises, or train on.

        `waited` says that it has waited long enough: an order without all promises is dropped.
        """
        self.step, self.step_us = step, now_us
        if self.order is not None:
            if self._behind:
                return None
            self.skipped(self.order, "abandoned: the trainer reported neither end nor skip")
        pending = self.pending
        if pending is not None and self._due(pending, now_us):
            if pending.moment_us is None and step > (pending.at_step or 0):
                self._drop(f"{SKIPPED_LATE}: the learner went from before that step to step {step}")
            elif now_us > pending.deadline_us:
                self._drop("expired: the deadline passed before the step came")
            elif self._committed(pending):
                return self._give(
                    pending.merge_id, pending.reason, pending.participants, pending.moment_us
                )
            elif not waited:
                return Await(pending.merge_id)
            else:
                self._drop("no_commit: no word from " + ", ".join(self._silent(pending)))
        if step >= self.forced_step:
            return self._give(f"hmax-{step}", H_MAX, self._participants)
        return None

    def overlapped(self) -> None:
        """The merge under way goes on behind the next steps: no other is ordered before its end."""
        self._behind = True

    def called(self, step: int) -> MergeOrder | None:
        """The order to come to a merge that a peer's H_max has opened, None when it is too soon.

        A promise for a later merge is taken back: that one stands too near to this.
        """
        if self.order is not None or step < self._corridor.first(self.last_merge_step):
            return None
        self._drop("called: a peer has come to H_max first")
        return self._give(f"hmax-{step}", H_MAX, self._participants)

    @property
    def retry_step(self) -> int | None:
        """Where a merge that H_max forced in vain is due again; None when none is.

        None also while a merge is under way: who goes on from what that leaves has merged.
        """
        if self.order is not None:
            return None
        usual = self.forced_step == self._corridor.last(self.last_merge_step)
        return None if usual else self.forced_step

    def joined(
        self, step: int, last_merge_step: int, epoch: int, retry_step: int | None = None
    ) -> None:
        """Go on as a member that stands there; what was promised from elsewhere is taken back."""
        if self.order is not None:
            self.skipped(self.order, "joined: the learner goes on from other weights")
        self._drop("joined: the learner goes on from other weights")
        self.step, self.last_merge_step, self.epoch = step, last_merge_step, epoch
        due = self._corridor.last(last_merge_step) if retry_step is None else retry_step
        self.forced_step = max(due, step + 1)

    def finished(self, order: MergeOrder) -> None:
        """The merge is done: gaps count from its step now.

        Raises `InputError` when it is not the one under way, as `skipped` does.
        """
        self._end(order)
        self.epoch += 1
        self.last_merge_step = order.step
        self.forced_step = self._corridor.last(order.step)

    def skipped(self, order: MergeOrder, reason: str) -> None:
        """The merge was not done; one that H_max forced is due again after H_min."""
        self._end(order)
        if order.forced or order.step >= self.forced_step:
            self.forced_step = self._corridor.first(order.step)
        self._say("skipped", order.merge_id, order.step, reason)

    def _end(self, order: MergeOrder) -> None:
        # By its step: a group may have agreed on another name for a merge that H_max forces.
        if self.order is None or self.order.step != order.step:
            msg = f"{order.merge_id} is not under way; report its one end before the next on_step"
            raise InputError(msg)
        self.order = None

    def leave(self) -> None:
        """The learner goes for good: what it promised is taken back, so that no peer waits for it.

        An order under way is skipped too: the trainer ended inside the merge.
        """
        if self.order is not None:
            self.skipped(self.order, "abandoned: the trainer ended before the merge did")
        self._drop("left: the learner ended before that step")

    def _refusal(self, command: MergeCommand, now_us: int) -> str | None:
        return self._refusal_of_names(command) or self._refusal_now(command, now_us)

    def _refusal_of_names(self, command: MergeCommand) -> str | None:
        if len(set(command.participants)) != len(command.participants):
            return "unclear: the command names a participant twice"
        if self._learner not in command.participants:
            return f"not_participant: {self._learner} is not among the participants"
        if self._quorum is None and set(command.participants) != self._participants:
            return f"other_participants: this group is {', '.join(sorted(self._participants))}"
        if len(command.participants) < (self._quorum or 0):
            return f"quorum: {len(command.participants)} participants, {self._quorum} are needed"
        return None

    def _refusal_now(self, command: MergeCommand, now_us: int) -> str | None:
        if command.epoch is not None and command.epoch != self.epoch:
            return f"epoch: the command is for {command.epoch}, this learner is at {self.epoch}"
        if self.paused and command.reason not in {H_MAX, H_MAX_OVERDUE}:
            return "paused: all but H_max waits for resume"
        if self.order is not None:
            return f"merging: {self.order.merge_id} is under way"
        if self.pending is not None:
            return f"promised: already accepted {self.pending.merge_id}"
        withdrawn = self.withdrawn(command.merge_id, command.participants)
        if withdrawn is not None:
            return f"peer_skipped: {withdrawn}"
        if now_us > command.deadline_us:
            return f"expired: {(now_us - command.deadline_us) / 1e6:.3f} s after its deadline"
        far = self._refusal_of_far(command, now_us)
        if far is not None:
            return far
        if command.moment_us is not None:
            return self._refusal_of_moment(command.moment_us)
        if command.at_step is None:
            return "unclear: the command names neither a step nor a moment"
        return self._refusal_of_step(command.at_step)

    def _refusal_of_far(self, command: MergeCommand, now_us: int) -> str | None:
        """A promise to it would keep all other commands away until H_max."""
        limits = (
            ("moment", command.moment_us, self._most_ahead_us(MOMENT_SPANS, LEAST_AHEAD_US)),
            (
                "deadline",
                command.deadline_us,
                self._most_ahead_us(DEADLINE_SPANS, UNKNOWN_AHEAD_US),
            ),
        )
        for what, at_us, most_us in limits:
            if at_us is not None and at_us - now_us > most_us:
                ahead_s, most_s = (at_us - now_us) / 1e6, most_us / 1e6
                return f"far: its {what} is {ahead_s:.0f} s ahead, {most_s:.0f} s are allowed here"
        return None

    def _most_ahead_us(self, spans: int, least_us: int) -> int:
        if self.step_time_s is None:
            return max(least_us, UNKNOWN_AHEAD_US)
        span_s = self._corridor.max_gap_steps * self.step_time_s
        return max(least_us, round(spans * span_s * 1e6))

    def _refusal_of_moment(self, moment_us: int) -> str | None:
        if self.step_us is None or self.step_us < moment_us:
            return None
        return f"{SKIPPED_LATE}: the first step after the moment has ended, step {self.step}"

    def _refusal_of_step(self, at_step: int) -> str | None:
        if at_step <= self.step:
            return f"{SKIPPED_LATE}: this learner is at step {self.step}"
        first = self._corridor.first(self.last_merge_step)
        if not first <= at_step <= self.forced_step:
            return f"corridor: step {at_step} is outside {first} to {self.forced_step}"
        return None

    def _silent(self, command: MergeCommand) -> list[str]:
        key = _place(command.merge_id, command.at_step or 0, command.moment_us)
        return sorted(set(command.participants) - self._promises.get(key, set()))

    def _committed(self, command: MergeCommand) -> bool:
        return not self._silent(command)

    def _due(self, pending: MergeCommand, now_us: int) -> bool:
        """True at the step that the command names, or that its moment is to be merged at."""
        if pending.moment_us is None:
            return pending.at_step is not None and self.step >= pending.at_step
        allowed = self.step >= self._corridor.first(self.last_merge_step)
        return self.step >= self.forced_step or (allowed and now_us >= pending.moment_us)

    def _step_told(self, command: MergeCommand) -> int:
        """The step to report about a command: its own, or where the learner stands."""
        return self.step if command.at_step is None else command.at_step

    def _give(
        self,
        merge_id: str,
        reason: str,
        participants: Iterable[str],
        moment_us: int | None = None,
    ) -> MergeOrder:
        self.pending = None
        since = self.step - self.last_merge_step
        names = tuple(sorted(participants))
        self._behind = False
        self.order = MergeOrder(merge_id, self.step, since, self.epoch, reason, names, moment_us)
        return self.order

    def _drop(self, reason: str) -> None:
        pending, self.pending = self.pending, None
        if pending is not None:
            self._say("skipped", pending.merge_id, self._step_told(pending), reason)


def _place(merge_id: str, step: int, moment_us: int | None) -> Place:
    """What a promise is to: a merge at a step, or at a moment."""
    return (merge_id, "step", step) if moment_us is None else (merge_id, "moment", moment_us)


def _keep(kept: OrderedDict[K, V], key: K, value: V) -> V:
    """Add to a mapping that forgets its oldest entries beyond `KEPT_IDS`."""
    kept[key] = value
    if len(kept) > KEPT_IDS:
        kept.popitem(last=False)
    return value
