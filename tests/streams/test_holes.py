"""A message that the broker showed too late is read again, and handled where it belongs."""

import asyncio
import logging
import signal
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import pytest
from kafka import TopicPartition
from prometheus_client import CollectorRegistry

from slackwater.broker import EmbeddedBroker
from slackwater.clock import RunClock
from slackwater.codec import encode_lines
from slackwater.events import Heartbeat
from slackwater.settings import RunSettings
from slackwater.topics import LEARNERS
from slackwater.transport import BatchProducer, make_topics
from streams.acks import Shipper
from streams.app import Wiring, build_app
from streams.job import Job
from streams.metrics import Metrics
from streams.offsets import read_again
from streams.service import StreamProcess
from streams.settings import StreamSettings

T0 = 1_750_000_000_000_000
SENT = [Heartbeat(run_id="r", at_us=T0 + i, learner="a") for i in range(5)]


class ListLog:
    def __init__(self) -> None:
        self.events: list[Any] = []

    def stored(self, topic: str, partition: int) -> int:
        return 0

    def append(self, message: Any, events: Any, extras: Any, late: Any) -> None:
        self.events += events


def send(bootstrap: str) -> None:
    """Each of `SENT` as a message of its own."""
    producer = BatchProducer(bootstrap)
    for event in SENT:
        producer.send(LEARNERS, "a", event)
        assert producer.flush()
    producer.close()


async def take(bootstrap: str, offsets: list[int], log: ListLog) -> list[int]:
    """Give a wiring these of the messages, as its consumer would; returns what it acknowledged."""
    run = RunSettings(bootstrap=bootstrap, run_id="r")
    settings = StreamSettings(run=run, roles=("log",))
    job = Job(settings, RunClock(T0, 0), Metrics(CollectorRegistry()), None, log)
    wiring = Wiring(build_app(settings, "g"), job, Shipper(None, 1.0), lambda: None)
    acked: list[int] = []

    async def ack(event: Any) -> None:
        acked.append(event.message.offset)

    name = LEARNERS.name(run.prefix)
    for offset in offsets:
        message = SimpleNamespace(topic=name, partition=0, offset=offset)
        event = SimpleNamespace(message=message, value=encode_lines([SENT[offset]]))
        await wiring._take(LEARNERS, SimpleNamespace(ack=ack), event)
    return acked


@pytest.mark.kafka
def test_messages_left_out_by_the_consumer_are_handled_in_their_order(
    caplog: pytest.LogCaptureFixture,
) -> None:
    log = ListLog()
    with caplog.at_level(logging.WARNING), EmbeddedBroker() as broker:
        make_topics(broker.bootstrap, partitions=1)
        send(broker.bootstrap)
        assert asyncio.run(take(broker.bootstrap, [0, 1, 4], log)) == [0, 1, 4]
    assert log.events == SENT
    [said] = [record.getMessage() for record in caplog.records if record.name == "streams.offsets"]
    assert said == (
        "slackwater.learners[0]: messages 2 to 3 were left out at first; 2 of 2 read again"
    )
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


@pytest.mark.kafka
def test_what_the_broker_does_not_have_is_not_waited_for_long(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING), EmbeddedBroker() as broker:
        make_topics(broker.bootstrap, partitions=1)
        send(broker.bootstrap)
        partition = TopicPartition("slackwater.learners", 0)
        found = read_again(broker.bootstrap, partition, range(4, 9), timeout_s=0.3)
    assert found == {4: encode_lines([SENT[4]])}
    assert "messages 4 to 8 were left out at first; 1 of 5 read again" in caplog.text


def test_broker_that_is_gone_is_named(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        partition = TopicPartition("slackwater.learners", 0)
        assert read_again("127.0.0.1:1", partition, range(1), timeout_s=0.3) == {}
    assert "0 of 1 read again: " in caplog.text


@pytest.mark.kafka
def test_what_a_topic_held_before_a_new_run_began_is_no_hole(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    db = tmp_path / "run.duckdb"
    with caplog.at_level(logging.WARNING), EmbeddedBroker() as broker:
        make_topics(broker.bootstrap, partitions=1)
        send(broker.bootstrap)
        run = RunSettings(bootstrap=broker.bootstrap, run_id="r")
        producer = BatchProducer(broker.bootstrap)

        def speak() -> None:
            producer.send(LEARNERS, "a", SENT[-1])
            assert producer.flush()
            threading.Timer(1.0, signal.raise_signal, [signal.SIGTERM]).start()

        settings = StreamSettings(run=run, db=db)
        StreamProcess(settings, RunClock.real(), speak).run()
        producer.close()
    assert not [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]
    with duckdb.connect(str(db), read_only=True) as log:
        assert log.execute("SELECT at_us FROM heartbeats").fetchall() == [(SENT[-1].at_us,)]
