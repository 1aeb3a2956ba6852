"""Events on their way out: bounded, stamped in the order they are sent, full without blocking."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from slackwater.attach.steps import Left
from slackwater.clock import RunClock
from slackwater.events import LearnersEvent, MergesEvent, Step
from slackwater.topics import LEARNERS, MERGES, Topic

MERGES_LIMIT = 1_000

Outgoing = tuple[Topic, LearnersEvent | MergesEvent]


class Outbox:
    """One bounded queue a topic; when one is full its oldest event goes, and is counted.

    The newest events are the ones a controller can still use. Merge reports have a queue of their
    own, so a long outage full of steps costs none of them. Callers hold one lock around
    `stamp_us` and `put`: then times never go back in the order sent, even when the wall clock does.

    Args:
        clock: event time.
        limit: how many events of learners are kept.
        make_step: makes the event of what was left for a step when it is taken; None where that
            cannot be.

    Attributes:
        dropped: events that found no room.
        reports: merge reports put so far.
        wall_us: wall time of the newest stamp.
    """

    __slots__ = (
        "_clock",
        "_limit",
        "_make_step",
        "_queues",
        "_steps",
        "dropped",
        "reports",
        "wall_us",
    )

    def __init__(
        self,
        clock: RunClock,
        limit: int,
        make_step: Callable[[Left], Step | None] = lambda _: None,
    ) -> None:
        self._clock = clock
        self._limit = limit
        self._make_step = make_step
        self._steps: deque[LearnersEvent | Left] = deque(maxlen=limit)
        self._queues: dict[Topic, deque[Any]] = {
            MERGES: deque(maxlen=MERGES_LIMIT),
            LEARNERS: self._steps,
        }
        self.wall_us = 0
        self.dropped = 0
        self.reports = 0

    def stamp_us(self) -> int:
        """Event time now, never before an earlier stamp, in microseconds since the epoch."""
        self.wall_us = max(self.wall_us, self._clock.wall_us())
        return self._clock.event_us(self.wall_us)

    def leave(self, left: Left) -> None:
        """Add a step of which the event is made later; never blocks."""
        steps = self._steps
        if len(steps) == self._limit:
            self.dropped += 1
        steps.append(left)

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
                event = queue.popleft()
                if type(event) is tuple:
                    event = self._make_step(event)
                if event is not None:
                    yield topic, event

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
