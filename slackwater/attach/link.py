"""The thread between a learner and Kafka: it alone waits for the broker, whatever that does.

Broker away at the start, in the middle or for good: the thread tries again until it is told to
stop, and says once that it lost the broker and once that it found it.
"""

import logging
import threading
import time
from collections.abc import Callable
from typing import Any

from kafka import KafkaConsumer, TopicPartition
from kafka.errors import KafkaError

from slackwater.attach.outbox import Outbox
from slackwater.codec import Codec
from slackwater.errors import BrokerError
from slackwater.settings import RunSettings
from slackwater.topics import COMMANDS, MERGES, Topic
from slackwater.transport import BatchProducer, reader

TICK_S = 0.02
RETRY_S = 0.5
CONNECT_TIMEOUT_MS = 1_000
FLUSH_TIMEOUT_S = 0.8
MOST_IN_FLIGHT = 2_048
ACK_PATIENCE_S = 2.0

Hear = Callable[[Topic, Any], None]


class Link(threading.Thread):
    """Sends what is in the outbox, hands on what the commands and merges topics say.

    Args:
        settings: which broker, and what its topics are called.
        outbox: drained while the broker acknowledges; it keeps filling while it does not.
        hear: called with (topic, event) for each event read, in this thread.
        beat: called when nothing was sent for `heartbeat_s`; it may put a heartbeat.
        heartbeat_s: seconds of wall time.
        log: where the broker's comings and goings are said.

    Attributes:
        connected: True while the broker answers.
        acked: events that the broker has acknowledged.
        lost: events handed to Kafka and never acknowledged.
        unreadable: lines on the topics read that are no events.
    """

    def __init__(
        self,
        settings: RunSettings,
        outbox: Outbox,
        hear: Hear,
        beat: Callable[[], None],
        heartbeat_s: float,
        log: logging.Logger,
    ) -> None:
        super().__init__(name="slackwater-link", daemon=True)
        self._settings = settings
        self._outbox = outbox
        self._hear = hear
        self._beat = beat
        self._heartbeat_s = heartbeat_s
        self._log = log
        self._stopping = threading.Event()
        self._told: bool | None = None
        self._positions: dict[TopicPartition, int] = {}
        self._codecs = {t.name(settings.prefix): Codec(t) for t in (COMMANDS, MERGES)}
        self.connected = False
        self.acked = 0
        self.lost = 0
        self.unreadable = 0

    def stop(self, timeout_s: float) -> None:
        """Send what is left, close, and end the thread; gives up after `timeout_s`."""
        self._stopping.set()
        self.join(timeout_s)

    def run(self) -> None:
        """One session with the broker after another, until `stop`."""
        while not self._stopping.is_set():
            try:
                self._session()
            except (BrokerError, KafkaError, OSError) as error:
                self._say_connected(False, str(error))
            except Exception:
                # Whatever goes wrong here must not end reporting for the rest of the run.
                self._log.exception("the link to Kafka failed; it starts again")
                self._say_connected(False, "see above")
            self._stopping.wait(RETRY_S)

    def _session(self) -> None:
        where, prefix = self._settings.bootstrap, self._settings.prefix
        producer = BatchProducer(
            where, prefix, bootstrap_timeout_ms=CONNECT_TIMEOUT_MS, max_block_ms=CONNECT_TIMEOUT_MS
        )
        try:
            consumer = reader(
                where, (COMMANDS, MERGES), prefix, bootstrap_timeout_ms=CONNECT_TIMEOUT_MS
            )
            try:
                self._resume(consumer)
                self._serve(producer, consumer)
            finally:
                consumer.close()
        finally:
            producer.close(FLUSH_TIMEOUT_S)
            self.acked += producer.acked
            self.lost += producer.sent - producer.acked

    def _resume(self, consumer: KafkaConsumer) -> None:
        # What was said while this link was away still counts. A position that a restarted broker
        # does not have falls back to the start of its new log: repeats do no harm.
        for partition, offset in self._positions.items():
            consumer.seek(partition, offset)

    def _serve(self, producer: BatchProducer, consumer: KafkaConsumer) -> None:
        acks = _Acks(producer)
        self._say_connected(True)
        last_sent = time.monotonic()
        while True:
            stopping = self._stopping.is_set()
            if acks.flowing() != self.connected:
                self._say_connected(not self.connected, "it does not acknowledge")
            if self.connected and not stopping and time.monotonic() - last_sent > self._heartbeat_s:
                self._beat()
            if producer.failed:
                msg = "it refused events, or did not acknowledge them in time"
                raise BrokerError(msg)
            if self._send(producer):
                last_sent = time.monotonic()
            if stopping:
                return
            self._read(consumer)
            self._stopping.wait(TICK_S)

    def _send(self, producer: BatchProducer) -> bool:
        room = MOST_IN_FLIGHT - (producer.sent - producer.acked - producer.failed)
        sent = urgent = False
        for topic, event in self._outbox.take(room):
            key = self._settings.group if topic is MERGES else event.learner
            producer.send(topic, key, event)
            sent, urgent = True, urgent or topic is MERGES
        if urgent:
            producer.push()
        producer.poll()
        return sent

    def _read(self, consumer: KafkaConsumer) -> None:
        for partition, records in consumer.poll(timeout_ms=0).items():
            topic = self._codecs[partition.topic].topic
            for record in records:
                decoded = self._codecs[partition.topic].decode(record.value)
                self.unreadable += len(decoded.bad)
                for event in decoded.events:
                    self._hear(topic, event)
                self._positions[partition] = record.offset + 1

    def _say_connected(self, connected: bool, why: str = "") -> None:
        self.connected = connected
        if connected is self._told:
            return
        self._told = connected
        where = self._settings.bootstrap
        if connected:
            self._log.info("reports to %s", where)
        else:
            self._log.warning("broker %s is away (%s); training goes on without it", where, why)


class _Acks:
    """Whether acknowledgements still come in for what was sent."""

    def __init__(self, producer: BatchProducer) -> None:
        self._producer = producer
        self._acked = 0
        self._since = time.monotonic()

    def flowing(self) -> bool:
        """False when something is in flight and nothing was acknowledged for `ACK_PATIENCE_S`."""
        acked = self._producer.acked
        idle = self._producer.sent == acked + self._producer.failed
        if idle or acked != self._acked:
            self._acked, self._since = acked, time.monotonic()
        return time.monotonic() - self._since < ACK_PATIENCE_S
