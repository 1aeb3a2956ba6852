"""Events on their way out: bounded, stamped in the order they are sent, full without blocking."""

from collections import deque
from collections.abc import Iterable, Iterator

from slackwater.clock import RunClock
from slackwater.events import LearnersEvent, MergesEvent
from slackwater.topics import LEARNERS, MERGES, Topic

MERGES_LIMIT = 1_000

Outgoing = tuple[Topic, LearnersEvent | MergesEvent]


class Outbox:
    """One bounded queue a topic; when one is full its oldest event goes, and is counted.

    The newest events are the ones a controller can still use. Merge reports have a queue of their
    own, so a long outage full of steps costs none of them. Callers hold one lock around
    `stamp_us` and `put`: then times never go back in the order sent, even when the wall clock does.

    Attributes:
        dropped: events that found no room.
        reports: merge reports put so far.
    """

    def __init__(self, clock: RunClock, limit: int) -> None:
        self._clock = clock
        self._queues: dict[Topic, deque[LearnersEvent | MergesEvent]] = {
            MERGES: deque(maxlen=MERGES_LIMIT),
            LEARNERS: deque(maxlen=limit),
        }
        self._last_us = 0
        self.dropped = 0
        self.reports = 0

    def stamp_us(self) -> int:
        """Event time now, never before an earlier stamp, in microseconds since the epoch."""
        self._last_us = max(self._last_us, self._clock.now_us())
        return self._last_us

    def put(self, topic: Topic, event: LearnersEvent | MergesEvent) -> None:
        """Add an event; never blocks."""
        queue = self._queues[topic]
        if len(queue) == queue.maxlen:
            self.dropped += 1
        queue.append(event)
        self.reports += topic is MERGES

    def take(self, most: int) -> Iterator[Outgoing]:
        """Remove and yield up to `most` events, merge reports first."""
        for topic, queue in self._queues.items():
            while queue and most > 0:
                most -= 1
                yield topic, queue.popleft()

    def put_back(self, events: Iterable[Outgoing]) -> None:
        """Put events that were taken and not acknowledged back at the head, in their order."""
        for topic, event in reversed(list(events)):
            queue = self._queues[topic]
            if len(queue) == queue.maxlen:
                self.dropped += 1
            else:
                queue.appendleft(event)

    def __len__(self) -> int:
        return sum(len(queue) for queue in self._queues.values())
