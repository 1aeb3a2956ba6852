"""The border to vLLM: what `record` is given goes into bounded buffers, and nothing comes back.

`record` runs on the API server's event loop. There an exception ends the server and a wait stalls
every request, so it only notes references; the sender's thread makes events of them later.
"""

import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from slackwater.events import RequestsEvent
from slackwater.vllm.buffer import Buffer
from slackwater.vllm.ends import Ends
from slackwater.vllm.reading import (
    Sample,
    Source,
    iteration_wall_s,
    load_event,
    request_event,
    sample_of,
)

REQUESTS_LIMIT = 10_000
LOADS_LIMIT = 600
SAMPLE_S = 0.1
SET_BACK_S = 1.0
# A server that reported work and then nothing for so long is stuck: silent, and not at that load.
STUCK_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """What became of one reporter's events; at rest `recorded == sent + dropped + queued`.

    Attributes:
        recorded: finished requests and load samples so far.
        sent: acknowledged by the broker.
        dropped: pushed out of a full buffer, unreadable, or given up by the broker's client.
        queued: not sent yet, or sent and not acknowledged.
        faults: exceptions inside the plugin, none of which reached vLLM; each costs an event.
    """

    recorded: int
    sent: int
    dropped: int
    queued: int
    faults: int


@dataclass(frozen=True, slots=True)
class _Ended:
    """A finished request as vLLM gave it, and when that was."""

    wall_s: float
    stats: Any


@dataclass(frozen=True, slots=True)
class _Latest:
    """The newest load that vLLM reported, and when that was on both clocks."""

    stats: Any
    wall_s: float
    monotonic_s: float


@dataclass(frozen=True, slots=True)
class _Load:
    """A sample and when it was taken; `dropped` as it was then."""

    sample: Sample
    at_s: float
    dropped: int


class Reporter:
    """Takes one engine's statistics from vLLM and hands out its events.

    vLLM's thread calls `record`, the sender's calls `events`, and the broker client's `acked` and
    `failed`. Each counter has one writer, and no lock is shared with `record`.

    Args:
        source: whose events these are.
        wall_s: the wall clock, seconds since the epoch: what events are stamped by.
        requests_limit: finished requests kept while the broker is away.
        loads_limit: load samples kept while it is.
        monotonic_s: a clock that nobody sets: what says when the next sample is due.

    Attributes:
        last_fault: the newest exception inside the plugin, for whoever logs it.
    """

    def __init__(
        self,
        source: Source,
        wall_s: Callable[[], float] = time.time,
        requests_limit: int = REQUESTS_LIMIT,
        loads_limit: int = LOADS_LIMIT,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self.source = source
        self.last_fault: Exception | None = None
        self._wall_s = wall_s
        self._monotonic_s = monotonic_s
        self._finished: Buffer[_Ended] = Buffer(requests_limit)
        self._loads: Buffer[_Load] = Buffer(loads_limit)
        self._latest: _Latest | None = None
        self._sampled_s = float("-inf")
        self._seq = itertools.count()
        self._numbers = itertools.count()
        self._unrecorded = 0
        self._sampled = 0
        self._unreadable = 0
        self._handed_out = 0
        self._ends = Ends()

    def record(self, scheduler_stats: Any = None, iteration_stats: Any = None) -> None:
        """Note what vLLM reports; never raises and never waits."""
        try:
            self._record(scheduler_stats, iteration_stats)
        except Exception as error:
            # Said by the sender: logging can wait, and this is vLLM's event loop.
            self._unrecorded += 1
            self.last_fault = error

    def _record(self, scheduler_stats: Any, iteration_stats: Any) -> None:
        wall_s = iteration_wall_s(iteration_stats, self._wall_s())
        for finished in getattr(iteration_stats, "finished_requests", None) or ():
            self._finished.put(_Ended(wall_s, finished))
        if scheduler_stats is None:
            return
        now_s = self._monotonic_s()
        if self._due(now_s):
            # At the very iteration: the sample and the requests finished by then agree.
            sample = sample_of(scheduler_stats, wall_s)
            if sample is not None:
                self._loads.put(self._load(sample, wall_s, now_s))
        self._latest = _Latest(scheduler_stats, wall_s, now_s)

    def events(self, most: int) -> Iterator[RequestsEvent]:
        """Up to `most` events to send now, finished requests first; never raises."""
        for item in itertools.islice(self._items(), most):
            try:
                event = self._event(item)
            except Exception as error:
                self._unreadable += 1
                self.last_fault = error
            else:
                self._handed_out += 1
                yield event

    def _items(self) -> Iterator[_Ended | _Load]:
        while (ended := self._finished.take()) is not None:
            yield ended
        while (load := self._loads.take()) is not None:
            yield load
        quiet = self._sample_in_the_quiet()
        if quiet is not None:
            yield quiet

    def _event(self, item: _Ended | _Load) -> RequestsEvent:
        if isinstance(item, _Load):
            # Numbered here, by one thread, so that numbers rise as sent; each one pushed out, which
            # was older than this, has left a hole.
            seq = self._loads.dropped + next(self._seq)
            return load_event(self.source, item.sample, item.at_s, seq, item.dropped)
        return request_event(self.source, item.stats, item.wall_s, next(self._numbers))

    def _sample_in_the_quiet(self) -> _Load | None:
        """The load of an engine that has not reported for a while: what it was, if that can be."""
        latest, now_s = self._latest, self._monotonic_s()
        if latest is None or self.source.shared or not self._due(now_s):
            return None
        try:
            sample = sample_of(latest.stats, latest.wall_s)
        except Exception as error:
            self._latest = None
            self._sampled += 1
            self._unreadable += 1
            self.last_fault = error
            return None
        if sample is None or not (sample.idle or now_s - latest.monotonic_s <= STUCK_S):
            return None
        self._sampled += 1
        return self._load(sample, self._quiet_wall_s(latest), now_s)

    def _quiet_wall_s(self, latest: _Latest) -> float:
        """The wall time of a sample now: not before the latest one, unless the clock was set."""
        wall_s = self._wall_s()
        return wall_s if wall_s < latest.wall_s - SET_BACK_S else max(wall_s, latest.wall_s)

    def _due(self, now_s: float) -> bool:
        return now_s - self._sampled_s >= SAMPLE_S

    def _load(self, sample: Sample, wall_s: float, now_s: float) -> _Load:
        self._sampled_s = now_s
        return _Load(sample, wall_s, self.dropped)

    def acked(self, count: int) -> None:
        """So many events have reached the broker."""
        self._ends.add(acked=count)

    def failed(self, count: int) -> None:
        """So many events were given up by the broker's client."""
        self._ends.add(failed=count)

    @property
    def dropped(self) -> int:
        """Events that will never arrive."""
        pushed_out = self._finished.dropped + self._loads.dropped
        return pushed_out + self._unrecorded + self._unreadable + self._ends.failed

    @property
    def in_flight(self) -> int:
        """Events handed out and neither acknowledged nor given up."""
        return self._ends.in_flight(lambda: self._handed_out)

    def counts(self) -> Counts:
        """What became of the events so far."""
        return Counts(
            recorded=self._finished.added + self._loads.added + self._sampled + self._unrecorded,
            sent=self._ends.acked,
            dropped=self.dropped,
            queued=len(self._finished) + len(self._loads) + self.in_flight,
            faults=self._unrecorded + self._unreadable,
        )
