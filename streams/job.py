"""The stream job without Kafka: messages in, outgoing events and run log rows out.

`streams.app` feeds it from Faust and sends what it returns. Everything here is synchronous and
takes its clock and its log from outside.
"""

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec

from controller.counting import Counted, PartitionCounter
from slackwater.clock import RunClock
from slackwater.codec import BadLine, Codec, Decoded
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
from streams.ours import Ours
from streams.settings import StreamSettings
from streams.stage import DecisionStage
from streams.watch import (
    Obstacles,
    watch_bins,
    watch_command,
    watch_counted,
    watch_decisions,
    watch_delay,
    watch_reports,
)

# A message must stay well below what brokers take (1 MB as they ship).
MAX_DECISIONS = 100
MAX_RAW_BYTES = 512 << 10
# What a dead letter takes beside its bytes and its error, at the least.
LETTER_BYTES = 256
DECIDE_TOPICS = (BINS, LEARNERS, MERGES, COMMANDS)

log = logging.getLogger(__name__)


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
        late: frozenset[int] | None,
    ) -> None:
        """Buffer the events of one message for the next commit; `late` None if nobody said."""
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
    _next: dict[tuple[Topic, int], int] = field(default_factory=dict)
    _away: set[tuple[Topic, int]] = field(default_factory=set)
    _codecs: dict[Topic, Codec] = field(
        default_factory=lambda: {topic: Codec(topic) for topic in ALL_TOPICS}
    )
    _ours: Ours = field(init=False)
    _obstacles: Obstacles = field(default_factory=Obstacles)

    def __post_init__(self) -> None:
        self._ours = Ours(self.settings.run)

    def handle(self, message: Message) -> list[Outgoing]:
        """Take one message of any topic; returns what it gives rise to, nothing for a repeat."""
        if self._seen(message):
            return []
        decoded = self._codecs[message.topic].decode(message.value)
        outgoing = self._dead_letters(message, decoded)
        counted: Counted | None = None
        if message.topic is REQUESTS and "count" in self.settings.roles:
            counted, bins = self._count(message, decoded.events)
            outgoing += bins
        if self.stage is not None and self.deciding and message.topic in DECIDE_TOPICS:
            ours = [event for event in decoded.events if self._ours(event)]
            outgoing += self._decide(self.stage, ours)
            watch_reports(self.metrics, ours)
        # Last: what could not be decided on is not in the log, and is read again.
        if self.log is not None:
            self._append(self.log, message, decoded, counted)
        return outgoing

    def hole_before(self, message: Message) -> range:
        """Offsets between the message of its partition that was handled last and this one.

        The job's topics are neither compacted nor written in transactions: none should lie there.
        """
        if (message.topic, message.partition) in self._away:
            return range(0)
        return range(self._due(message), message.offset)

    def let_go(self, topic: Topic, partition: int) -> None:
        """Another process may read this partition now: where it comes back there is no hole.

        One that logs has a consumer group of its own: nobody else reads for it.
        """
        if self.log is None:
            self._away.add((topic, partition))

    def _due(self, message: Message) -> int:
        """The next offset of the message's partition; without a log any may be the first."""
        due = self._next.get((message.topic, message.partition))
        if due is not None:
            return due
        if self.log is None:
            return message.offset
        return self.log.stored(self._name(message), message.partition)

    def _seen(self, message: Message) -> bool:
        """True for a message that was handled by this process, or is in the log."""
        where = (message.topic, message.partition)
        if hole := self.hole_before(message):
            lost = "%s[%d]: the broker gave message %d after %d; what lay between is not read"
            log.error(lost, self._name(message), message.partition, hole.stop, hole.start - 1)
        self._away.discard(where)
        if message.offset < self._due(message):
            return True
        self._next[where] = message.offset + 1
        return False

    def _name(self, message: Message) -> str:
        return message.topic.name(self.settings.run.prefix)

    def tick(self) -> list[Outgoing]:
        """Wall time has passed: a silent source may have to be left behind."""
        return self._outcomes(self.stage) if self.stage is not None and self.deciding else []

    def _count(self, message: Message, events: list[Any]) -> tuple[Counted, list[Outgoing]]:
        run, settings = self.settings.run, self.settings
        counter = self.counters.get(message.partition)
        if counter is None:
            counter = self.counters[message.partition] = PartitionCounter(
                message.partition, settings.bin_s, settings.lateness_s
            )
        ours = self._ours.among(events)
        found = counter.add([events[i] for i in ours])
        counted = Counted([ours[i] for i in found.late], [ours[i] for i in found.repeated])
        watch_counted(self.metrics, [events[i] for i in ours], counted)
        bins = counter.close(run.run_id, run.group)
        if bins is None:
            return counted, []
        watch_bins(self.metrics, bins)
        return counted, [Outgoing(BINS, run.group, [bins])]

    def _decide(self, stage: DecisionStage, events: list[Any]) -> list[Outgoing]:
        for event in events:
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
                watch_command(command)
        if decisions:
            outgoing += [
                Outgoing(DECISIONS, group, decisions[i : i + MAX_DECISIONS])
                for i in range(0, len(decisions), MAX_DECISIONS)
            ]
            watch_decisions(self.metrics, decisions)
            self._obstacles.watch(decisions)
            late = stage.engine.late_observations
            self.metrics.set("late_observations", late, group=group)
        watch_delay(self.metrics, group, self.clock.now_us(), stage.watermark_us)
        return outgoing

    def _append(
        self, log: Log, message: Message, decoded: Decoded, counted: Counted | None
    ) -> None:
        """Log each event once, without those that came twice in an open bin or name another group.

        The message's offset counts even where nothing of it is logged.
        """
        if counted is None:
            late, left_out = None, self._ours.elsewhere(decoded.events)
        else:
            late, left_out = frozenset(counted.late), set(counted.repeated)
        if not left_out:
            log.append(message, decoded.events, decoded.extras, late)
            return
        kept = [i for i in range(len(decoded.events)) if i not in left_out]
        place = {old: new for new, old in enumerate(kept)}
        log.append(
            message,
            [decoded.events[i] for i in kept],
            {place[i]: extra for i, extra in decoded.extras.items() if i in place},
            None if late is None else frozenset(place[i] for i in late),
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
                raw=bad.raw[:MAX_RAW_BYTES],
                error=_told(bad),
                topic=name,
                partition=message.partition,
                offset=message.offset,
            )
            for bad in decoded.bad
        ]
        if message.topic is DEADLETTER:
            return []
        return [Outgoing(DEADLETTER, name, batch) for batch in _batches(letters)]


def _batches(letters: Iterable[DeadLetter]) -> Iterator[list[DeadLetter]]:
    """Few messages that a broker takes: a client may send thousands of bad lines in one."""
    batch: list[DeadLetter] = []
    size = 0
    for letter in letters:
        cost = len(letter.raw) + len(letter.error) + LETTER_BYTES
        if batch and size + cost > MAX_RAW_BYTES:
            yield batch
            batch, size = [], 0
        batch.append(letter)
        size += cost
    if batch:
        yield batch


def _told(bad: BadLine) -> str:
    """The error, with what was left out of a line too long to send on; the topic still has it."""
    if len(bad.raw) <= MAX_RAW_BYTES:
        return bad.error
    return f"{bad.error} (the first {MAX_RAW_BYTES} of {len(bad.raw)} bytes)"
