"""Kafka at the edges: topics, a micro-batching producer and a plain reader, by kafka-python."""

import logging
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import NewTopic
from kafka.errors import KafkaError, TopicAlreadyExistsError

from slackwater.codec import encode_lines
from slackwater.errors import BrokerError, InputError
from slackwater.topics import ALL_TOPICS, REQUESTS, Topic

BATCH_EVENTS = 256
BATCH_WAIT_S = 0.05
FETCH_WAIT_MS = 10
DELIVERY_TIMEOUT_MS = 30_000
BOOTSTRAP_TIMEOUT_MS = 10_000
MAX_BATCH_BYTES = 512 * 1024
# Before compression: one dead letter of the longest line, and room to spare.
MAX_REQUEST_BYTES = 4 * 1024 * 1024

# Unreachable brokers are reported once, by the caller, with what to do.
logging.getLogger("kafka").setLevel(logging.CRITICAL)


def wait_for_broker(bootstrap: str, timeout_s: float = 10.0) -> None:
    """Return once the broker answers a metadata request; raises `BrokerError` after `timeout_s`."""
    deadline = time.monotonic() + timeout_s
    while not _answers(bootstrap):
        if time.monotonic() > deadline:
            msg = (
                f"no Kafka broker answers at {bootstrap} within {timeout_s:g} s; "
                "start it, or correct --kafka"
            )
            raise BrokerError(msg)
        time.sleep(0.1)


def _answers(bootstrap: str) -> bool:
    try:
        admin = KafkaAdminClient(bootstrap_servers=bootstrap, bootstrap_timeout_ms=1000)
    except (KafkaError, OSError, ValueError):
        return False
    admin.close()
    return True


def make_topics(bootstrap: str, prefix: str = "slackwater", partitions: int = 4) -> dict[str, int]:
    """Create the topics that do not exist yet; returns each topic's number of partitions.

    `requests` gets `partitions`, so that counting scales; every other topic gets one, which keeps
    its events in one order. Raises `BrokerError`, and `InputError` when a topic is there with
    another number of partitions.
    """
    try:
        admin = KafkaAdminClient(
            bootstrap_servers=bootstrap, bootstrap_timeout_ms=BOOTSTRAP_TIMEOUT_MS
        )
    except (KafkaError, ValueError, OSError) as error:
        raise _unreachable(bootstrap) from error
    wanted = {t.name(prefix): partitions if t is REQUESTS else 1 for t in ALL_TOPICS}
    try:
        for name, count in wanted.items():
            _make_topic(admin, name, count)
    except KafkaError as error:
        msg = f"could not create topics at {bootstrap}: {error}"
        raise BrokerError(msg) from error
    finally:
        admin.close()
    return wanted


def _make_topic(admin: KafkaAdminClient, name: str, count: int) -> None:
    try:
        admin.create_topics([NewTopic(name, count, 1)])
    except TopicAlreadyExistsError:
        found = len(admin.describe_topics([name])[0]["partitions"])
        if found != count:
            msg = (
                f"topic {name} is there with {found} partitions, not {count}; "
                f"use {found}, delete it, or choose another topic prefix"
            )
            raise InputError(msg) from None


def check_topic(
    bootstrap: str, prefix: str, topic: Topic, timeout_ms: int = BOOTSTRAP_TIMEOUT_MS
) -> None:
    """Return when the broker has the topic; raises `BrokerError` otherwise.

    It asks for all topics: one asked for by name is made by many a broker, as it sees fit.
    """
    try:
        admin = KafkaAdminClient(
            bootstrap_servers=bootstrap,
            bootstrap_timeout_ms=timeout_ms,
            request_timeout_ms=timeout_ms,
        )
    except (KafkaError, ValueError, OSError) as error:
        raise _unreachable(bootstrap) from error
    try:
        found = admin.list_topics()
    finally:
        admin.close()
    if topic.name(prefix) not in found:
        msg = f"topic {topic.name(prefix)} is not there; `slackwater topics make` makes it"
        raise BrokerError(msg)


def _unreachable(bootstrap: str) -> BrokerError:
    return BrokerError(f"no Kafka broker answers at {bootstrap}; start it, or correct the address")


class BatchProducer:
    """Sends events as newline-delimited JSON, up to 256 of one key in a message.

    Nothing runs in the background but kafka-python's sender thread: call `poll` at least every
    50 ms, it sends what has waited long enough. `acked` and `failed` count events, so a caller
    can say what was lost; `on_ack` is called with (topic, key, events) for each message
    acknowledged, in kafka-python's thread, and `on_fail` for each one given up, there or in the
    caller's. A micro-batch over 512 KiB is split, so that it fits into the message size that
    brokers take by default.
    """

    def __init__(
        self,
        bootstrap: str,
        prefix: str = "slackwater",
        *,
        batch_events: int = BATCH_EVENTS,
        batch_wait_s: float = BATCH_WAIT_S,
        bootstrap_timeout_ms: int = BOOTSTRAP_TIMEOUT_MS,
        monotonic: Callable[[], float] = time.monotonic,
        on_ack: Callable[[Topic, str, int], None] | None = None,
        on_fail: Callable[[Topic, str, int], None] | None = None,
        **kafka: Any,
    ) -> None:
        try:
            self._producer = KafkaProducer(
                bootstrap_servers=bootstrap,
                bootstrap_timeout_ms=bootstrap_timeout_ms,
                acks="all",
                linger_ms=0,
                max_request_size=MAX_REQUEST_BYTES,
                compression_type=kafka.pop("compression_type", "gzip"),
                delivery_timeout_ms=DELIVERY_TIMEOUT_MS,
                **kafka,
            )
        except (KafkaError, ValueError, OSError) as error:
            raise _unreachable(bootstrap) from error
        self._prefix = prefix
        self._batch_events = batch_events
        self._batch_wait_s = batch_wait_s
        self._monotonic = monotonic
        self._acked_callback = on_ack
        self._failed_callback = on_fail
        self._waiting: dict[tuple[Topic, str], list[msgspec.Struct]] = {}
        self._oldest: float | None = None
        self._counting = threading.Lock()
        self.sent = 0
        self.acked = 0
        self.failed = 0

    def send(self, topic: Topic, key: str, event: msgspec.Struct) -> None:
        """Add one event to the micro-batch of its key."""
        batch = self._waiting.setdefault((topic, key), [])
        batch.append(event)
        if self._oldest is None:
            self._oldest = self._monotonic()
        if len(batch) >= self._batch_events:
            del self._waiting[(topic, key)]
            self._send_batch(topic, key, batch)

    def poll(self) -> None:
        """Send the micro-batches that have waited for `batch_wait_s`."""
        if self._oldest is not None and self._monotonic() - self._oldest >= self._batch_wait_s:
            self.push()

    def push(self) -> None:
        """Send every micro-batch now, without waiting for acknowledgement."""
        waiting, self._waiting = self._waiting, {}
        self._oldest = None
        for (topic, key), batch in waiting.items():
            self._send_batch(topic, key, batch)

    def flush(self, timeout_s: float = 30.0) -> bool:
        """Send all and wait for acknowledgement; True when every event sent so far was acked."""
        self.push()
        try:
            self._producer.flush(timeout=timeout_s)
        except KafkaError:
            return False
        return self.acked == self.sent

    def close(self, timeout_s: float = 10.0) -> None:
        """Flush and stop the sender thread; what is not acknowledged by `timeout_s` has failed."""
        if not self.flush(timeout_s):
            # kafka-python's own close raises while batches are pending and leaves its thread.
            self._producer._sender.force_close()
            self._producer._sender.join(timeout_s)
        self._producer.close(timeout=timeout_s)

    def _send_batch(self, topic: Topic, key: str, batch: list[msgspec.Struct]) -> None:
        value = encode_lines(batch)
        if len(value) > MAX_BATCH_BYTES and len(batch) > 1:
            middle = len(batch) // 2
            self._send_batch(topic, key, batch[:middle])
            self._send_batch(topic, key, batch[middle:])
            return
        count = len(batch)
        self.sent += count
        try:
            future = self._producer.send(topic.name(self._prefix), key=key.encode(), value=value)
        except KafkaError as error:
            self._on_error(topic, key, count, error)
            return
        future.add_callback(self._on_ack, topic, key, count)
        future.add_errback(self._on_error, topic, key, count)

    def _on_ack(self, topic: Topic, key: str, count: int, _metadata: object) -> None:
        with self._counting:
            self.acked += count
        if self._acked_callback is not None:
            self._acked_callback(topic, key, count)

    def _on_error(self, topic: Topic, key: str, count: int, _error: object) -> None:
        with self._counting:
            self.failed += count
        if self._failed_callback is not None:
            self._failed_callback(topic, key, count)


def reader(
    bootstrap: str,
    topics: Iterable[Topic],
    prefix: str = "slackwater",
    *,
    from_start: bool = False,
    bootstrap_timeout_ms: int = BOOTSTRAP_TIMEOUT_MS,
) -> KafkaConsumer:
    """A consumer outside any group, on all partitions of `topics`, at their end or start.

    Raises `BrokerError` when the broker or a topic is not there.
    """
    try:
        consumer = KafkaConsumer(
            bootstrap_servers=bootstrap,
            group_id=None,
            enable_auto_commit=False,
            bootstrap_timeout_ms=bootstrap_timeout_ms,
            fetch_max_wait_ms=FETCH_WAIT_MS,
            auto_offset_reset="earliest",
        )
    except (KafkaError, ValueError, OSError) as error:
        raise _unreachable(bootstrap) from error
    assigned = []
    for topic in topics:
        name = topic.name(prefix)
        found = consumer.partitions_for_topic(name)
        if not found:
            consumer.close()
            msg = f"topic {name} is not on {bootstrap}; make the topics first"
            raise BrokerError(msg)
        assigned += [TopicPartition(name, p) for p in sorted(found)]
    consumer.assign(assigned)
    if from_start:
        consumer.seek_to_beginning()
    else:
        consumer.seek_to_end()
        for partition in assigned:
            consumer.position(partition)
    return consumer
