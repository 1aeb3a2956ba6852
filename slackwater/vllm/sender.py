"""The thread between vLLM and Kafka: it alone waits for the broker, whatever that does."""

import logging
import threading
import time
from collections.abc import Iterator
from typing import Protocol, TypeVar, cast

from slackwater.errors import BrokerError
from slackwater.events import RequestsEvent
from slackwater.sessions import Sessions
from slackwater.settings import RunSettings
from slackwater.topics import REQUESTS, Topic
from slackwater.transport import BatchProducer, check_topic
from slackwater.vllm.reading import Source
from slackwater.vllm.reporter import Counts

TICK_S = 0.05
RETRY_S = 2.0
CONNECT_TIMEOUT_MS = 1_000
MOST_IN_FLIGHT = 2_048
FLUSH_TIMEOUT_S = 3.0
CLOSE_TIMEOUT_S = 5.0
SAY_EVERY_S = 60.0


class Reports(Protocol):
    """What a sender sends: `slackwater.vllm.reporter.Reporter`, or who sees a server from outside.

    Attributes:
        source: whose events these are.
        last_fault: the newest exception of the reporter's own, for whoever logs it.
    """

    source: Source
    last_fault: Exception | None

    def events(self, most: int) -> Iterator[RequestsEvent]:
        """Up to `most` events to send now; never raises."""

    def acked(self, count: int) -> None:
        """So many events have reached the broker."""

    def failed(self, count: int) -> None:
        """So many events were given up by the broker's client."""

    @property
    def in_flight(self) -> int:
        """Events handed out and neither acknowledged nor given up."""

    def counts(self) -> Counts:
        """What became of the events so far."""


R = TypeVar("R", bound=Reports)


class Sender(Sessions):
    """Sends the events of every reporter of this process, in micro-batches of 50 ms.

    While the broker does not acknowledge, events stay in their reporters, whose buffers are
    bounded. A producer tries for 30 s to deliver what it was given; one that has given up is
    replaced.

    Args:
        settings: which broker, and what its topics are called.
        log: where the broker's comings and goings, losses and faults are said.

    Attributes:
        reporters: whose events are sent, by the name of their sidecar.
    """

    def __init__(self, settings: RunSettings, log: logging.Logger) -> None:
        super().__init__("slackwater-vllm", settings.bootstrap, log, "serving goes on", RETRY_S)
        self._settings = settings
        self.reporters: dict[str, Reports] = {}
        self._said: tuple[int, int] = (0, 0)
        self._said_at_s = float("-inf")

    def add(self, reporter: R) -> R:
        """Send this one's events too; returns the one that goes by its name already, if any."""
        # Replaced, not changed: the sender's thread may be going through it.
        self.reporters = {reporter.source.sidecar: reporter, **self.reporters}
        return cast(R, self.reporters[reporter.source.sidecar])

    def close(self, timeout_s: float = CLOSE_TIMEOUT_S) -> None:
        """Send what is left, within `timeout_s`, and say what became of all events."""
        self.stop(timeout_s)
        for name, reporter in self.reporters.items():
            counts = reporter.counts()
            told = self._log.warning if counts.dropped or counts.queued else self._log.info
            told("%s: %s", name, _words(counts))

    def session(self) -> None:
        """Send until `stop`; raises when the broker or its topic is not there."""
        where, prefix = self._settings.bootstrap, self._settings.prefix
        check_topic(where, prefix, REQUESTS, CONNECT_TIMEOUT_MS)
        flight = _Flight(self)
        producer = BatchProducer(
            where,
            prefix,
            bootstrap_timeout_ms=CONNECT_TIMEOUT_MS,
            max_block_ms=CONNECT_TIMEOUT_MS,
            on_ack=flight.on_ack,
            on_fail=flight.on_fail,
        )
        try:
            self.say_connected(True)
            self._serve(producer)
        finally:
            producer.close(FLUSH_TIMEOUT_S)
            flight.land()

    def _serve(self, producer: BatchProducer) -> None:
        while True:
            stopping = self._stopping.is_set()
            for name, reporter in self.reporters.items():
                for event in reporter.events(MOST_IN_FLIGHT - reporter.in_flight):
                    producer.send(REQUESTS, name, event)
            producer.push()
            self._say_losses()
            if producer.failed:
                # It may fail for good: a broker that has come back empty knows it no more.
                msg = "it does not acknowledge what it is sent"
                raise BrokerError(msg)
            if stopping:
                return
            self._stopping.wait(TICK_S)

    def _say_losses(self) -> None:
        """Say what was lost since it was last said, once a minute at most."""
        counts = [reporter.counts() for reporter in self.reporters.values()]
        lost = sum(c.dropped for c in counts), sum(c.faults for c in counts)
        now_s = time.monotonic()
        if lost == self._said or now_s - self._said_at_s < SAY_EVERY_S:
            return
        self._said, self._said_at_s = lost, now_s
        for name, reporter in self.reporters.items():
            fault = f"; last fault: {reporter.last_fault!r}" if reporter.last_fault else ""
            self._log.warning("%s: %s%s", name, _words(reporter.counts()), fault)


class _Flight:
    """What one session's producer says of the events it was given; called in its threads."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender
        self._landing = threading.Lock()
        self._landed = False

    def on_ack(self, _topic: Topic, name: str, count: int) -> None:
        """These events have reached the broker."""
        with self._landing:
            if not self._landed:
                self._sender.reporters[name].acked(count)
        self._sender.say_connected(True)

    def on_fail(self, _topic: Topic, name: str, count: int) -> None:
        """These events were given up."""
        with self._landing:
            if not self._landed:
                self._sender.reporters[name].failed(count)
        self._sender.say_connected(False, "it does not acknowledge what it is sent")

    def land(self) -> None:
        """The session is over: nobody will hear of what is still under way, so it is lost."""
        with self._landing:
            self._landed = True
            for reporter in self._sender.reporters.values():
                reporter.failed(reporter.in_flight)


def _words(counts: Counts) -> str:
    return (
        f"{counts.recorded} events recorded, {counts.sent} sent, {counts.dropped} dropped, "
        f"{counts.queued} queued, {counts.faults} faults"
    )
