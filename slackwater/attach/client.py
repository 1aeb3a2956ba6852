"""The attach client: one object between a training loop and the merge group."""

import logging
import math
import threading
import time
from collections import Counter
from collections.abc import Sequence
from types import TracebackType
from typing import Any, TypeVar

import msgspec

from slackwater.attach.guard import never_raises
from slackwater.attach.link import Link
from slackwater.attach.numbers import seconds as duration
from slackwater.attach.numbers import whole
from slackwater.attach.orders import MergeOrder
from slackwater.attach.outbox import Outbox
from slackwater.attach.pace import Pace, slower_of
from slackwater.attach.pressure import REFRESH_S, HostPressure
from slackwater.attach.protocol import Await, Protocol
from slackwater.attach.steps import (
    MOST,
    NO_PRESSURE,
    Left,
    Pressures,
    impossible,
    step_event,
)
from slackwater.attach.waiting import Waiting
from slackwater.clock import US_PER_S, RunClock
from slackwater.corridor import Corridor
from slackwater.errors import InputError
from slackwater.events import (
    H_MAX,
    Accepted,
    Finished,
    Heartbeat,
    MergeCommand,
    Pause,
    Resume,
    Skipped,
    Started,
    Step,
)
from slackwater.settings import RunSettings
from slackwater.topics import COMMANDS, LEARNERS, MERGES, Topic

CLOSE_TIMEOUT_S = 2.0
REASON_CHARS = 200
FOREIGN_GROUP = "foreign_group"
# More than any step trains on; sums of it stay exact in JSON.
MOST_TOKENS = 2**40

N = TypeVar("N", int, float)


class AttachSummary(msgspec.Struct, frozen=True, kw_only=True):
    """What an attachment did, in events and commands.

    Attributes:
        connected: True while the broker answers.
        acked: events that the broker has.
        dropped: events pushed out of a full queue, that could not be made or encoded, or not
            acknowledged by the end.
        errors: faults inside the attachment; 0 unless it has a bug, a call had bad arguments, or
            the host's pressure could not be read.
        accepted: commands promised to.
        skipped: merges refused or given up, by the first word of the reason.
        ignored: commands not answered and peers' reports not heeded, by why: `foreign_run`,
            `foreign_group`, `duplicate`.
    """

    connected: bool
    acked: int
    dropped: int
    errors: int
    accepted: int
    skipped: dict[str, int]
    ignored: dict[str, int]


class Attachment:
    """Reports a learner's steps, and tells it when to merge.

    A context manager. Nothing in here waits for Kafka or raises into the training loop; the one
    wait, of at most `commit_timeout_s`, is for the promises of the other participants, at the
    very step this learner promised to merge at.

        with Attachment(settings, "learner-0", ["learner-0", "learner-1"], Corridor(), clock) as a:
            for step in range(1, 1_000):
                loss = train_step()
                order = a.on_step(step, loss, tokens=512)
                if order:
                    a.started(order)
                    merge()
                    a.finished(order, seconds=0.4, bytes_exchanged=32_000_000)

    Args:
        settings: broker, topics, run and merge group.
        learner: this learner's name.
        participants: the learners of the group, this one included.
        corridor: H_min and H_max in steps.
        clock: event time.
        commit_timeout_s: seconds of wall time.
        heartbeat_s: a heartbeat is sent when nothing was for so many seconds of wall time.
        queue_events: steps kept while the broker is away; beyond it the oldest are dropped.
        pressure: looks at the host for steps that come without pressures of their own; None: those
            are unknown.
        quorum: for a group whose members come and go: how many must take part in a merge. None:
            always exactly `participants`.

    Attributes:
        learner: its name.
        corridor: as given.
        errors: faults inside this object; 0 unless it has a bug.
        entered: it has been, and reports.
    """

    def __init__(  # noqa: PLR0913
        self,
        settings: RunSettings,
        learner: str,
        participants: Sequence[str],
        corridor: Corridor,
        clock: RunClock,
        *,
        commit_timeout_s: float = 1.0,
        heartbeat_s: float = 0.1,
        queue_events: int = 10_000,
        quorum: int | None = None,
        pressure: HostPressure | None = None,
    ) -> None:
        if learner not in participants:
            msg = f"{learner} is not among the participants {', '.join(participants)}; add it"
            raise InputError(msg)
        self.learner = learner
        self.corridor = corridor
        self._run_id, self._group = settings.run_id, settings.group
        self._clock = clock
        self._commit_timeout_s = commit_timeout_s
        self._log = logging.getLogger("slackwater.attach")
        # One lock over stamps, queue and protocol; the condition wakes a learner that waits for
        # promises.
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._outbox = Outbox(clock, queue_events, self._step_event)
        self._wall_us = clock.wall_us
        self._protocol = Protocol(learner, participants, corridor, self._say, quorum)
        self._link = Link(
            settings,
            self._outbox,
            self._hear,
            self._beat,
            heartbeat_s,
            self._lock,
            self._unencodable,
            self._log,
        )
        self._participants = frozenset(participants)
        self._pressure = pressure
        self._pace = Pace()
        self._slow_step_s: float | None = None
        self._step_wall_us: int | None = None
        self._tokens_since_merge = 0
        self._tokens_at_order = 0
        self._commanded = False
        # The step from which commands could come: no pause, and this learner was there.
        self._led_from: int | None = None
        self._told: set[str] = set()
        self._other_groups: set[str] = set()
        self.errors = 0
        self.entered = False
        self._accepted = 0
        self._skipped: Counter[str] = Counter()
        self._ignored: Counter[str] = Counter()
        self._closed = False

    def __enter__(self) -> "Attachment":
        self.entered = True
        self._link.start()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def on_step(
        self,
        step: int,
        loss: float | None,
        tokens: int,
        *,
        step_time_s: float | None = None,
        update_norm: float | None = None,
        network_pressure: float | None = None,
        checkpoint_pressure: float | None = None,
        memory_pressure: float | None = None,
    ) -> MergeOrder | None:
        """Report the inner step that just ended; an order means: merge now.

        Args:
            step: the learner's own counter, 1 for its first step.
            loss: training loss of this step, None when unknown.
            tokens: tokens of this step, of this learner.
            step_time_s: seconds of event time the step took; measured when not given, from the
                end of the last report or merge.
            update_norm: norm of the step's change of the weights.
            network_pressure: 0 to 1; like all of these None when unknown.
            checkpoint_pressure: 0 to 1.
            memory_pressure: 0 to 1.
        """
        # In here nearly every step ends: as few objects as can be are touched, see `steps`.
        try:
            with self._lock:
                outbox, protocol, pace = self._outbox, self._protocol, self._pace
                wall_us = self._wall_us()
                if wall_us < outbox.wall_us:  # noqa: PLR1730 - max is one object more
                    wall_us = outbox.wall_us
                outbox.wall_us = wall_us
                if type(tokens) is not int or not 0 <= tokens <= MOST_TOKENS:
                    tokens = self._tokens_said(tokens)
                if type(step) is not int:
                    step = _whole("step", step)
                self._tokens_since_merge = since = self._tokens_since_merge + tokens
                left = (
                    wall_us,
                    step,
                    loss,
                    tokens,
                    step_time_s,
                    update_norm,
                    network_pressure,
                    checkpoint_pressure,
                    memory_pressure,
                    pace.mark,
                    since,
                    protocol.last_merge_step,
                    protocol.epoch,
                    outbox.reports,
                )
                outbox.leave(left)
                self._step_wall_us = wall_us
                pace.mark = (step, wall_us)
                if (
                    protocol.order is None
                    and protocol.pending is None
                    and step < protocol.forced_step
                ):
                    protocol.step = step
                    return None
                return self._at_place(step, wall_us)
        except Exception as error:
            self._count_fault(f"on_step {type(error).__name__}", "on_step failed")
            return None

    @never_raises
    def started(self, order: MergeOrder) -> None:
        """All participants are there and agree: the window begins."""
        with self._changed:
            self._outbox.put(
                MERGES, Started(**self._about(order.merge_id, order.step, order.reason))
            )

    @never_raises
    def overlapped(self, order: MergeOrder) -> None:
        """The merge that has `started` goes on behind the next steps.

        No other order comes before its `finished` or `skipped`, which is also when the next
        command can be promised to; until then commands are refused as `merging`. It should end
        before H_min more steps are done: the controller takes it to be over by then.
        """
        with self._changed:
            self._protocol.overlapped()
            self._pace.resume(order.step, self._wall_us())

    @never_raises
    def finished(  # noqa: PLR0913
        self,
        order: MergeOrder,
        *,
        seconds: float,
        bytes_exchanged: int,
        exchange_s: float | None = None,
        checkpoint_s: float | None = None,
        checkpoint_bytes: int | None = None,
        parameters: int | None = None,
        digest: str | None = None,
        note: str | None = None,
    ) -> None:
        """The merge is done and its checkpoint on disk; durations are event time.

        `note` is added to the reason, for what a reader of the log must know about this merge.
        """
        reason = f"{order.reason}; {note}" if note else order.reason
        with self._changed:
            self._protocol.finished(order)
            self._pace.resume(self._protocol.step, self._wall_us())
            self._tokens_since_merge -= self._tokens_at_order
            self._outbox.put(
                MERGES,
                Finished(
                    **self._about(order.merge_id, order.step, reason),
                    seconds=self._or_zero("seconds", seconds, duration(seconds), "a number"),
                    exchange_s=duration(exchange_s),
                    checkpoint_s=duration(checkpoint_s),
                    bytes_exchanged=self._or_zero(
                        "bytes_exchanged", bytes_exchanged, whole(bytes_exchanged), "a whole number"
                    ),
                    checkpoint_bytes=whole(checkpoint_bytes),
                    parameters=whole(parameters),
                    digest=str(digest)[:REASON_CHARS] if digest else None,
                ),
            )

    @never_raises
    def skipped(self, order: MergeOrder, reason: str) -> None:
        """The merge was not done; the first word of `reason`, up to a colon, is what is counted."""
        with self._changed:
            self._protocol.skipped(order, reason)
            self._pace.resume(self._protocol.step, self._wall_us())

    def withdrawn(self, order: MergeOrder) -> str | None:
        """Why a peer has said that it will not come after all, None while all stand by it."""
        with self._changed:
            return self._protocol.withdrawn(order.merge_id, order.participants)

    @never_raises
    def called(self, step: int) -> MergeOrder | None:
        """The order to come to a merge that a peer has opened at its H_max, outside of Kafka.

        `step` is the one reported last. None when the last merge is nearer than H_min.
        """
        with self._changed:
            order = self._protocol.called(step)
            if order is not None:
                self._pace.pause()
                self._tokens_at_order = self._tokens_since_merge
            return order

    @never_raises
    def joined(
        self,
        step: int,
        last_merge_step: int,
        epoch: int,
        *,
        retry_step: int | None = None,
        tokens: int = 0,
    ) -> None:
        """This learner has taken the shared weights of its group, and goes on from there.

        Args:
            step: what its own counter stands at now; the next `on_step` reports the one after it.
            last_merge_step: the step, on this counter, of the group's last merge.
            epoch: how many merges the shared weights have been through.
            retry_step: the property of that name, of the learner that this one goes on from.
            tokens: what this learner has trained on since that merge.

        The time of the first step is unknown: what comes before it, such as a wait for peers, is
        no training.
        """
        step, epoch = _whole("step", step), _whole("epoch", epoch)
        last_merge_step = _whole("last_merge_step", last_merge_step)
        retry_step = None if retry_step is None else _whole("retry_step", retry_step)
        with self._changed:
            self._protocol.joined(step, last_merge_step, epoch, retry_step)
            self._led_from = step + 1
            self._pace.pause()
            self._tokens_since_merge, self._tokens_at_order = self._tokens_said(tokens), 0

    @property
    def retry_step(self) -> int | None:
        """Where a merge that H_max forced in vain is due again; None when none is."""
        with self._changed:
            return self._protocol.retry_step

    def close(self) -> None:
        """Take promises back and send what is left, in about two seconds at most."""
        if self._closed:
            return
        self._closed = True
        with self._changed:
            self._protocol.leave()
            self._put_heartbeat(final=True)
        if self._link.is_alive():
            self._link.stop(CLOSE_TIMEOUT_S)
        summary = self.summary()
        if summary.dropped:
            what = "%d events dropped: the broker was away or too slow, or see above"
            self._log.warning(what, summary.dropped)

    def summary(self) -> AttachSummary:
        """Counts so far; complete after `close`."""
        with self._changed:
            return AttachSummary(
                connected=self._link.connected,
                acked=self._link.acked,
                dropped=self._outbox.dropped + (self._left() if self._closed else 0),
                errors=self.errors,
                accepted=self._accepted,
                skipped=dict(self._skipped),
                ignored=dict(self._ignored),
            )

    def _left(self) -> int:
        """Events that the broker has not acknowledged."""
        return len(self._outbox) + self._link.under_way

    def _at_place(self, step: int, wall_us: int) -> MergeOrder | None:
        """What the protocol says at a step at which there may be something to do."""
        found = self._protocol.at_step(step, self._clock.event_us(wall_us))
        order = self._await_promises(found, step) if isinstance(found, Await) else found
        if order is None:
            self._pace.resume(step, self._wall_us())
        else:
            self._pace.pause()
            self._tokens_at_order = self._tokens_since_merge
            self._say_uncommanded(order)
        return order

    def _tokens_said(self, tokens: object) -> int:
        """The tokens of a step as an int."""
        return self._or_zero("tokens", tokens, whole(tokens, MOST_TOKENS), "a whole number")

    def _or_zero(self, name: str, given: object, found: N | None, kind: str) -> N | int:
        """What was found in a value that an event must have; 0, said once, when nothing was."""
        if found is not None:
            return found
        self.errors += 1
        what = f"attachment: %s is %.{REASON_CHARS}r; it must be %s, 0 or more: counted as 0"
        self._say_once(logging.ERROR, f"odd {name}", what, name, given, kind)
        return 0

    def _step_event(self, left: Left) -> Step | None:
        """In the link's thread: the event of a step; None for one that cannot be."""
        host = self._host_pressure(left[0])
        try:
            step = step_event(left, self._run_id, self._group, self.learner, self._clock, host)
        except Exception:
            # Such as of a number that is on an accelerator, and the accelerator has failed.
            self._outbox.dropped += 1
            self._count_fault("step", "a step could not be reported")
            return None
        if odd := impossible(step):
            step = self._without(step, odd)
        self._slow_step_s = slower_of(self._slow_step_s, step.step_time_s)
        if self._led_from is None:
            self._led_from = step.step
        return step

    def _without(self, step: Step, odd: dict[str, float]) -> Step:
        """The event with what cannot be left unknown, said once a field."""
        self.errors += 1
        what = "attachment: %s is %g at step %d; it must be %s: taken as unknown"
        for name, value in odd.items():
            allowed = "0 or more" if math.isinf(MOST[name]) else f"from 0 to {MOST[name]:g}"
            self._say_once(logging.ERROR, f"odd {name}", what, name, value, step.step, allowed)
        return msgspec.structs.replace(step, **dict.fromkeys(odd))

    def _host_pressure(self, wall_us: int) -> Pressures:
        # A step that waited for the broker was under another pressure than that of now.
        if self._pressure is None or self._wall_us() - wall_us >= REFRESH_S * US_PER_S:
            return NO_PRESSURE
        try:
            return self._pressure.read()
        except Exception:
            self._count_fault("pressure", "the host's pressure could not be read and is unknown")
            return NO_PRESSURE

    def _unencodable(self, _error: Exception) -> None:
        """In the link's thread, inside a handler: an event was dropped."""
        self._count_fault("encode", "an event cannot be encoded and was dropped")

    def _count_fault(self, kind: str, what: str) -> None:
        """Count what was just raised, and say it the first time."""
        self.errors += 1
        text = "attachment: %s; training goes on"
        self._say_once(logging.ERROR, f"fault {kind}", text, what, exc_info=True)

    def _await_promises(self, awaited: Await, step: int) -> MergeOrder | None:
        deadline = time.monotonic() + self._commit_timeout_s
        what = f"to promise {awaited.merge_id}"
        waiting = Waiting(self._log, self.learner, what, self._commit_timeout_s)
        while True:
            waiting.look(self._protocol.silent)
            left_s = deadline - time.monotonic()
            self._changed.wait(max(0.0, min(left_s, waiting.quiet_s or left_s)))
            late = time.monotonic() >= deadline
            found = self._protocol.at_step(step, self._clock.now_us(), waited=late)
            if not isinstance(found, Await):
                waiting.over(f"it merges, {found.merge_id}" if found else "without this merge")
                return found

    def _hear(self, topic: Topic, event: Any) -> None:
        ignored = self._why_ignored(event)
        with self._changed:
            if ignored is not None:
                # Of merges only the own peers' matter; others' are their own affair.
                if topic is COMMANDS or event.learner in self._participants:
                    self._note_ignored(ignored, topic, event)
                return
            if isinstance(event, MergeCommand):
                self._commanded = True
                if self._step_wall_us is not None:
                    self._protocol.step_us = self._clock.event_us(self._step_wall_us)
                self._protocol.step_time_s = self._slow_step_s
                if not self._protocol.command(event, self._clock.now_us()):
                    self._ignored["duplicate"] += 1
            elif isinstance(event, Pause | Resume):
                paused = isinstance(event, Pause)
                if paused != self._protocol.paused:
                    what = "pauses: H_max alone calls for merges" if paused else "goes on"
                    self._log.info("%s: the group %s", self.learner, what)
                self._protocol.paused = paused
                self._led_from = self._protocol.step + 1
            elif isinstance(event, Accepted | Skipped):
                self._protocol.heard(event)
            self._changed.notify_all()

    def _why_ignored(self, event: Any) -> str | None:
        """What is meant for others is not answered: a reply would speak in their log."""
        if event.group != self._group:
            return FOREIGN_GROUP
        return None if event.run_id == self._run_id else "foreign_run"

    def _note_ignored(self, why: str, topic: Topic, event: Any) -> None:
        self._ignored[why] += 1
        what = "commands" if topic is COMMANDS else f"merge reports of {event.learner}"
        # Groups share their topics: only a run that is another's is out of the ordinary.
        self._say_once(
            logging.INFO if why == FOREIGN_GROUP else logging.WARNING,
            f"{why} {topic.kind}",
            "%s of run %s, group %s are not for run %s, group %s; ignored",
            *(what, event.run_id, event.group, self._run_id, self._group),
        )
        if why == FOREIGN_GROUP and topic is COMMANDS and event.run_id == self._run_id:
            self._other_groups.add(event.group)

    def _say_uncommanded(self, order: MergeOrder) -> None:
        if order.forced and not self._commanded and self._was_led(order):
            self._say_once(
                logging.WARNING,
                H_MAX,
                "%s: H_max forces the merge at step %d; no command has come for run %s, group %s. "
                "Does slackwater stream run, with the same broker, topic prefix, run, group and "
                "clock, and is the group not paused?%s",
                *(self.learner, order.step, self._run_id, self._group, self._others()),
            )

    def _was_led(self, order: MergeOrder) -> bool:
        """True when a command could have come at any step since H_min."""
        first = self.corridor.first(order.step - order.steps_since_merge)
        return not self._protocol.paused and (self._led_from or 0) <= first

    def _others(self) -> str:
        """Whom commands have come for, where that may be a hint."""
        names = ", ".join(sorted(self._other_groups))
        return f" Commands have come for group {names}." if names else ""

    def _say_once(
        self, level: int, what: str, text: str, *values: object, exc_info: bool = False
    ) -> None:
        if what not in self._told:
            self._told.add(what)
            self._log.log(level, text, *values, exc_info=exc_info)

    def _say(
        self, phase: str, merge_id: str, step: int, reason: str, moment_us: int | None = None, /
    ) -> None:
        about = self._about(merge_id, step, reason)
        if phase == "accepted":
            self._accepted += 1
            self._outbox.put(MERGES, Accepted(**about, moment_us=moment_us))
            return
        self._skipped[reason.partition(":")[0]] += 1
        self._log.info("%s skips %s: %s", self.learner, merge_id, reason)
        self._outbox.put(MERGES, Skipped(**about))

    def _about(self, merge_id: str, step: int, reason: str) -> dict[str, Any]:
        return {
            "run_id": self._run_id,
            "at_us": self._outbox.stamp_us(),
            "group": self._group,
            "learner": self.learner,
            "merge_id": merge_id,
            "step": step,
            # An empty one would be no reason to any reader.
            "reason": reason[:REASON_CHARS] or None,
        }

    def _beat(self) -> None:
        with self._changed:
            if not len(self._outbox):
                self._put_heartbeat(final=False)

    def _put_heartbeat(self, *, final: bool) -> None:
        self._outbox.put(
            LEARNERS,
            Heartbeat(
                run_id=self._run_id,
                at_us=self._outbox.stamp_us(),
                learner=self.learner,
                final=final,
                reports_sent=self._outbox.reports,
                group=self._group,
            ),
        )


def _whole(name: str, given: object) -> int:
    found = whole(given)
    if found is None:
        msg = f"{name} is {given!r}; it must be a whole number, 0 or more"
        raise InputError(msg)
    return found
