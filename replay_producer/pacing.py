"""The pacing loop: sends what a source yields when the run clock gets there, and hears merges.

Event times come from the source, never from the moment the loop woke, so the spacing of
arrivals is kept to the microsecond however busy the machine is. A report of a merge is read a
little after the fact: its slowdown applies from the moment it is read, and what was already
sent is never rewritten.
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from replay_producer.source import Source
from replay_producer.windows import MergeWindows
from slackwater.clock import RunClock
from slackwater.errors import BrokerError
from slackwater.events import MergesEvent
from slackwater.topics import Topic

MIN_SLEEP_S = 0.001
MAX_SLEEP_S = 0.01
ACK_LIMIT_S = 10.0


class Outlet(Protocol):
    """Where events go; `slackwater.transport.BatchProducer` is one."""

    sent: int
    acked: int
    failed: int

    def send(self, topic: Topic, key: str, event: Any) -> None:
        """Add one event to the micro-batch of its key."""

    def poll(self) -> None:
        """Send the micro-batches that have waited long enough."""


@dataclass(frozen=True, slots=True)
class WallTime:
    """The wall as the loop sees it; a test passes its own.

    Attributes:
        sleep: waits for so many seconds of wall time.
        monotonic: seconds of a clock that never goes back.
    """

    sleep: Callable[[float], None] = time.sleep
    monotonic: Callable[[], float] = time.monotonic


class AckWatch:
    """Notices a broker that has gone away: events failed, or none acknowledged for long."""

    def __init__(self, outlet: Outlet, limit_s: float) -> None:
        self._outlet = outlet
        self._limit_s = limit_s
        self._acked = -1
        self._since_s = 0.0

    def check(self, now_s: float) -> None:
        """Raise `BrokerError` with the counts when the broker does not take events any more."""
        outlet = self._outlet
        if outlet.acked != self._acked or outlet.acked == outlet.sent:
            self._acked, self._since_s = outlet.acked, now_s
        if outlet.failed or now_s - self._since_s > self._limit_s:
            raise BrokerError(not_acknowledged(outlet))


def not_acknowledged(outlet: Outlet) -> str:
    """What to tell a person when the broker did not acknowledge everything."""
    return (
        f"the broker no longer takes events: {outlet.sent - outlet.acked} of {outlet.sent} "
        "sent were not acknowledged; start it and run again"
    )


class MergeFollower:
    """Slows a source while a merge runs.

    Args:
        source: what is slowed.
        reports: returns the merge reports that have come since the last call, without waiting.
    """

    def __init__(self, source: Source, reports: Callable[[], Iterable[MergesEvent]]) -> None:
        self.windows = MergeWindows()
        self._source = source
        self._reports = reports
        self._slow = False

    def follow(self, now_us: int) -> None:
        """Read reports and tell the source when the first merge began or the last one ended."""
        for event in self._reports():
            self.windows.report(event, now_us)
        self.windows.expire(now_us)
        if self.windows.any_running != self._slow:
            self._slow = not self._slow
            self._source.set_merging(now_us, self._slow)


def pace(
    source: Source,
    outlet: Outlet,
    clock: RunClock,
    *,
    follower: MergeFollower | None = None,
    keep_going: Callable[[int], bool] = lambda _now_us: True,
    until_us: int | None = None,
    wall: WallTime = WallTime(),
) -> bool:
    """Send all events of `source` at their times; True when none are left.

    Args:
        source: the events.
        outlet: where they go; `poll` is called at least every 10 ms.
        clock: event time; time before the source's first event is waited for.
        follower: slows the source during merges, None for a source that merges do not touch.
        keep_going: asked at least every 10 ms with the event time; False ends the loop.
        until_us: event time at which to give up on what is still unfinished.
        wall: sleep and monotonic seconds.

    Raises:
        BrokerError: the broker does not acknowledge any more.
    """
    watch = AckWatch(outlet, ACK_LIMIT_S)
    while keep_going(now_us := clock.now_us()):
        for message in source.advance(now_us):
            outlet.send(message.topic, message.key, message.event)
        if follower is not None:
            follower.follow(now_us)
        outlet.poll()
        watch.check(wall.monotonic())
        next_us = source.next_us()
        if next_us is None:
            return True
        if until_us is not None and now_us >= until_us:
            return False
        due_s = clock.wall_of(next_us) - clock.wall_of(now_us)
        wall.sleep(min(MAX_SLEEP_S, max(MIN_SLEEP_S, due_s)))
    return False
