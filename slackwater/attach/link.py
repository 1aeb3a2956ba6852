"""The thread between a learner and Kafka: it alone waits for the broker, whatever that does."""

import contextlib
import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from kafka import KafkaConsumer

from slackwater.attach.outbox import Outbox, Outgoing
from slackwater.codec import Codec, encode
from slackwater.errors import BrokerError
from slackwater.events import LearnersEvent, MergesEvent
from slackwater.sessions import Sessions
from slackwater.settings import RunSettings
from slackwater.topics import COMMANDS, LEARNERS, MERGES, Topic
from slackwater.transport import BatchProducer, reader

TICK_S = 0.02
CONNECT_TIMEOUT_MS = 1_000
FLUSH_TIMEOUT_S = 0.8
MOST_IN_FLIGHT = 2_048
ACK_PATIENCE_S = 2.0
# Longer than it takes to see that the broker is away, and than clocks of hosts differ.
LOOK_BACK_S = 15.0

Hear = Callable[[Topic, Any], None]
Refused = Callable[[Exception], None]


class Link(Sessions):
    """Sends what is in the outbox, hands on what the commands and merges topics say.

    Args:
        settings: which broker, and what its topics are called.
        outbox: drained while the broker acknowledges; it keeps filling while it does not.
        hear: called with (topic, event) for each event read, in this thread.
        beat: called when nothing was sent for `heartbeat_s`; it may put a heartbeat.
        heartbeat_s: seconds of wall time.
        lock: held by all who put into the outbox.
        refused: told, in this thread, why an event was dropped that cannot be encoded.
        log: where the broker's comings and goings are said.

    Attributes:
        unreadable: lines on the topics read that are no events.
    """

    def __init__(
        self,
        settings: RunSettings,
        outbox: Outbox,
        hear: Hear,
        beat: Callable[[], None],
        heartbeat_s: float,
        lock: threading.Lock,
        refused: Refused,
        log: logging.Logger,
    ) -> None:
        super().__init__("slackwater-link", settings.bootstrap, log, "training goes on")
        self._settings = settings
        self._outbox = outbox
        self._hear = hear
        self._beat = beat
        self._heartbeat_s = heartbeat_s
        self._lock = lock
        self._refused = refused
        self._away_since: float | None = None
        self._codecs = {t.name(settings.prefix): Codec(t) for t in (COMMANDS, MERGES)}
        self._flight = _Flight()
        self._acked_before = 0
        self.unreadable = 0

    @property
    def acked(self) -> int:
        """How many events the broker has acknowledged."""
        return self._acked_before + self._flight.acked

    @property
    def under_way(self) -> int:
        """How many events were sent, are not acknowledged, and are not back in the outbox either.

        Read it with the lock held.
        """
        return 0 if self._flight.landed else len(self._flight)

    def session(self) -> None:
        """Send and read until `stop`, or until the broker does not answer."""
        where, prefix = self._settings.bootstrap, self._settings.prefix
        self._acked_before, flight = self.acked, _Flight()
        self._flight = flight
        with contextlib.ExitStack() as stack:
            producer = BatchProducer(
                where,
                prefix,
                bootstrap_timeout_ms=CONNECT_TIMEOUT_MS,
                max_block_ms=CONNECT_TIMEOUT_MS,
                on_ack=flight.on_ack,
            )
            stack.callback(self._land, producer, flight)
            consumer = reader(
                where, (COMMANDS, MERGES), prefix, bootstrap_timeout_ms=CONNECT_TIMEOUT_MS
            )
            stack.callback(consumer.close)
            self._resume(consumer)
            self.say_connected(True)
            try:
                self._serve(producer, flight, consumer)
            finally:
                self._away_since = time.time()

    def _resume(self, consumer: KafkaConsumer) -> None:
        # What was said while this link was away still counts. By time, because offsets of a
        # restarted broker may be those of another log; reading a thing twice does no harm.
        if self._away_since is None:
            return
        since_ms = int((self._away_since - LOOK_BACK_S) * 1000)
        wanted = dict.fromkeys(consumer.assignment(), since_ms)
        for partition, found in consumer.offsets_for_times(wanted).items():
            if found is not None and found.timestamp >= since_ms:
                consumer.seek(partition, found.offset)

    def _land(self, producer: BatchProducer, flight: "_Flight") -> None:
        """Close the producer; what was not acknowledged waits for the next session."""
        producer.close(FLUSH_TIMEOUT_S)
        with self._lock:
            self._outbox.put_back(flight.rest())
            flight.landed = True

    def _serve(self, producer: BatchProducer, flight: "_Flight", consumer: KafkaConsumer) -> None:
        last_sent = time.monotonic()
        while True:
            stopping = self._stopping.is_set()
            if producer.failed or flight.stalled:
                msg = "it does not acknowledge what it is sent"
                raise BrokerError(msg)
            if not stopping and time.monotonic() - last_sent > self._heartbeat_s:
                self._beat()
            if self._send(producer, flight):
                last_sent = time.monotonic()
            if stopping:
                return
            self._read(consumer)
            self._stopping.wait(TICK_S)

    def _send(self, producer: BatchProducer, flight: "_Flight") -> bool:
        sent = urgent = False
        for topic, event in self._outbox.take(MOST_IN_FLIGHT - len(flight)):
            if not self._encodes(event):
                continue
            key = self._settings.group if topic is MERGES else event.learner
            flight.add(topic, event)
            producer.send(topic, key, event)
            sent, urgent = True, urgent or topic is MERGES
        if urgent:
            producer.push()
        producer.poll()
        return sent

    def _encodes(self, event: LearnersEvent | MergesEvent) -> bool:
        # One that does not would come back with each session, and end it.
        try:
            encode(event)
        except Exception as error:
            with self._lock:
                self._outbox.dropped += 1
            self._refused(error)
            return False
        return True

    def _read(self, consumer: KafkaConsumer) -> None:
        for partition, records in consumer.poll(timeout_ms=0).items():
            topic = self._codecs[partition.topic].topic
            for record in records:
                decoded = self._codecs[partition.topic].decode(record.value)
                self.unreadable += len(decoded.bad)
                for event in decoded.events:
                    self._hear(topic, event)


class _Flight:
    """What was handed to a producer and is not acknowledged yet, in the order of each topic.

    `landed` is true once that is back in the outbox.
    """

    def __init__(self) -> None:
        self._unacked: dict[Topic, deque[LearnersEvent | MergesEvent]] = {
            MERGES: deque(),
            LEARNERS: deque(),
        }
        self._moved = time.monotonic()
        self.acked = 0
        self.landed = False

    def add(self, topic: Topic, event: LearnersEvent | MergesEvent) -> None:
        """Note an event that is handed to the producer."""
        if not len(self):
            self._moved = time.monotonic()
        self._unacked[topic].append(event)

    def on_ack(self, topic: Topic, _key: str, count: int) -> None:
        """The oldest `count` events of a topic have arrived; called in the producer's thread."""
        for _ in range(count):
            self._unacked[topic].popleft()
        self.acked += count
        self._moved = time.monotonic()

    @property
    def stalled(self) -> bool:
        """True when events are under way and none was acknowledged for `ACK_PATIENCE_S`."""
        return len(self) > 0 and time.monotonic() - self._moved > ACK_PATIENCE_S

    def rest(self) -> list[Outgoing]:
        """All that was not acknowledged."""
        return [(topic, event) for topic, queue in self._unacked.items() for event in queue]

    def __len__(self) -> int:
        return sum(len(queue) for queue in self._unacked.values())
