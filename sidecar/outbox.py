"""Events of a server seen from outside, bounded on their way to the sender's thread."""

import itertools
from collections.abc import Iterator

from slackwater.clock import RunClock
from slackwater.events import Load, Request, RequestsEvent
from slackwater.vllm.buffer import Buffer
from slackwater.vllm.ends import Ends
from slackwater.vllm.reading import Source
from slackwater.vllm.reporter import LOADS_LIMIT, REQUESTS_LIMIT, Counts


class Outbox:
    """What a tap or a load client puts, and a `slackwater.vllm.sender.Sender` takes.

    One thread puts and the sender's takes; when a queue is full its oldest event goes, and is
    counted.

    Args:
        run_id: of the events.
        sidecar: the server's name in them.

    Attributes:
        source: whose events these are.
        last_fault: None: what is put is an event already.
    """

    def __init__(self, run_id: str, sidecar: str) -> None:
        self.source = Source(run_id, sidecar, RunClock.real())
        self.last_fault: Exception | None = None
        self._requests: Buffer[Request] = Buffer(REQUESTS_LIMIT)
        self._loads: Buffer[Load] = Buffer(LOADS_LIMIT)
        self._ends = Ends()

    def put(self, event: RequestsEvent) -> None:
        """Add an event; never blocks."""
        if isinstance(event, Request):
            self._requests.put(event)
        else:
            self._loads.put(event)

    def events(self, most: int) -> Iterator[RequestsEvent]:
        """Up to `most` events to send now, requests first."""
        return itertools.islice(self._items(), most)

    def _items(self) -> Iterator[RequestsEvent]:
        while (request := self._requests.take()) is not None:
            yield request
        while (load := self._loads.take()) is not None:
            yield load

    def acked(self, count: int) -> None:
        """So many events have reached the broker."""
        self._ends.add(acked=count)

    def failed(self, count: int) -> None:
        """So many events were given up by the broker's client."""
        self._ends.add(failed=count)

    @property
    def in_flight(self) -> int:
        """Events handed out and neither acknowledged nor given up."""
        return self._ends.in_flight(lambda: self._requests.taken + self._loads.taken)

    @property
    def dropped(self) -> int:
        """Events that will never arrive."""
        return self._requests.dropped + self._loads.dropped + self._ends.failed

    def counts(self) -> Counts:
        """What became of the events so far."""
        return Counts(
            recorded=self._requests.added + self._loads.added,
            sent=self._ends.acked,
            dropped=self.dropped,
            queued=len(self._requests) + len(self._loads) + self.in_flight,
            faults=0,
        )
