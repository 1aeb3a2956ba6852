"""The stream job without Kafka: messages in, outgoing events and run log rows out.

`streams.app` feeds it from Faust and sends what it returns. Everything here is synchronous and
takes its clock and its log from outside.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec

from controller.counting import Counted, PartitionCounter
from slackwater.clock import RunClock
from slackwater.codec import Codec, Decoded
from slackwater.events import DeadLetter, Decision
from slackwater.topics import (
    ALL_TOPICS,
    BINS,
    COMMANDS,
    DEADLETTER,
    DECISIONS,
    LEARNERS,
    MERGES,
    REQUESTS,
    Topic,
)
from streams.metrics import Metrics
from streams.settings import StreamSettings
from streams.stage import DecisionStage
from streams.watch import watch_decisions, watch_delay, watch_events

DECIDE_TOPICS = (BINS, LEARNERS, MERGES, COMMANDS)


@dataclass(frozen=True, slots=True)
class Message:
    """One Kafka message as the job sees it."""

    topic: Topic
    partition: int
    offset: int
    value: bytes | None


@dataclass(frozen=True, slots=True)
class Outgoing:
    """Events to send as one message, in this order."""

    topic: Topic
    key: str
    events: Sequence[msgspec.Struct]


class Log(Protocol):
    """What the job needs of a run log."""

    def stored(self, topic: str, partition: int) -> int:
        """The next offset wanted: everything before it is in the log."""
        ...

    def append(
        self,
        message: Message,
        events: Sequence[Any],
        extras: dict[int, dict[str, Any]],
        late: frozenset[int],
    ) -> None:
        """Buffer the events of one message for the next commit."""
        ...


@dataclass(slots=True)
class Job:
    """Counts, decides and logs, by its roles.

    Args:
        settings: of the process.
        clock: event time, for figures of delay alone; no decision reads it.
        metrics: where figures go.
        stage: the decision stage, with role `decide`.
        log: the run log, with role `log`.
        counters: by partition, with role `count`; given after a restart.
        deciding: False once the process is stopping: then messages are only counted and logged.
    """

    settings: StreamSettings
    clock: RunClock
    metrics: Metrics
    stage: DecisionStage | None = None
    log: Log | None = None
    counters: dict[int, PartitionCounter] = field(default_factory=dict)
    deciding: bool = True
    _codecs: dict[Topic, Codec] = field(
        default_factory=lambda: {topic: Codec(topic) for topic in ALL_TOPICS}
    )

    def handle(self, message: Message) -> list[Outgoing]:
        """Take one message of any topic; returns what it gives rise to."""
        if self.log is not None:
            name = message.topic.name(self.settings.run.prefix)
            if message.offset < self.log.stored(name, message.partition):
                return []
        decoded = self._codecs[message.topic].decode(message.value)
        outgoing = self._dead_letters(message, decoded)
        counted = Counted()
        if message.topic is REQUESTS:
            counted, bins = self._count(message, decoded.events)
            outgoing += bins
        if self.log is not None:
            self._append(self.log, message, decoded, counted)
        if self.stage is not None and self.deciding and message.topic in DECIDE_TOPICS:
            outgoing += self._decide(self.stage, decoded.events)
        watch_events(self.metrics, decoded.events)
        return outgoing

    def tick(self) -> list[Outgoing]:
        """Wall time has passed: a silent source may have to be left behind."""
        return self._outcomes(self.stage) if self.stage is not None else []

    def _count(self, message: Message, events: list[Any]) -> tuple[Counted, list[Outgoing]]:
        if "count" not in self.settings.roles:
            return Counted(), []
        run = self.settings.run
        counter = self.counters.get(message.partition)
        if counter is None:
            counter = self.counters[message.partition] = PartitionCounter(
                message.partition, self.settings.bin_s, self.settings.lateness_s
            )
        counted = counter.add(events)
        if counted.late:
            self.metrics.count("late_events", len(counted.late), topic=REQUESTS.kind)
        if counted.repeated:
            self.metrics.count("repeated_events", len(counted.repeated), topic=REQUESTS.kind)
        bins = counter.close(run.run_id, run.group)
        return counted, [Outgoing(BINS, run.group, [bins])] if bins else []

    def _decide(self, stage: DecisionStage, events: list[Any]) -> list[Outgoing]:
        for event in events:
            if event.run_id == self.settings.run.run_id:
                stage.observe(event)
        return self._outcomes(stage)

    def _outcomes(self, stage: DecisionStage) -> list[Outgoing]:
        decisions: list[Decision] = []
        outgoing: list[Outgoing] = []
        group = self.settings.run.group
        for decision, command in stage.decide():
            decisions.append(decision)
            if command is not None:
                outgoing.append(Outgoing(COMMANDS, group, [command]))
        if decisions:
            outgoing.append(Outgoing(DECISIONS, group, decisions))
            watch_decisions(self.metrics, decisions)
            late = stage.engine.late_observations
            self.metrics.set("late_observations", late, group=group)
        watch_delay(self.metrics, group, self.clock.now_us(), stage.watermark_us)
        return outgoing

    @staticmethod
    def _append(log: Log, message: Message, decoded: Decoded, counted: Counted) -> None:
        """Log each event once: those that came twice in an open bin are left out."""
        if not counted.repeated:
            log.append(message, decoded.events, decoded.extras, frozenset(counted.late))
            return
        repeated = set(counted.repeated)
        kept = [i for i in range(len(decoded.events)) if i not in repeated]
        place = {old: new for new, old in enumerate(kept)}
        log.append(
            message,
            [decoded.events[i] for i in kept],
            {place[i]: extra for i, extra in decoded.extras.items() if i in place},
            frozenset(place[i] for i in counted.late),
        )

    def _dead_letters(self, message: Message, decoded: Decoded) -> list[Outgoing]:
        if not decoded.bad:
            return []
        name = message.topic.name(self.settings.run.prefix)
        self.metrics.count("dead_letters", len(decoded.bad), topic=message.topic.kind)
        letters = [
            DeadLetter(
                run_id=self.settings.run.run_id,
                at_us=self.clock.now_us(),
                raw=bad.raw,
                error=bad.error,
                topic=name,
                partition=message.partition,
                offset=message.offset,
            )
            for bad in decoded.bad
        ]
        if message.topic is DEADLETTER:
            return []
        return [Outgoing(DEADLETTER, name, letters)]
