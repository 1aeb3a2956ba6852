"""The sender with a broker that answers, that is away, that never answers, and that goes away."""

import logging
import socket
import time
from collections.abc import Callable, Iterator

import pytest
from vllm_statistics import finished, iteration, scheduler

from slackwater.broker import EmbeddedBroker, free_port
from slackwater.clock import RunClock
from slackwater.codec import Codec
from slackwater.events import Load, Request
from slackwater.settings import RunSettings
from slackwater.topics import REQUESTS
from slackwater.transport import make_topics, reader
from slackwater.vllm.reading import Source
from slackwater.vllm.reporter import Counts, Reporter
from slackwater.vllm.sender import Sender

LOG = logging.getLogger("test.vllm")


def reporter_of(name: str = "vllm-0", **limits: int) -> Reporter:
    return Reporter(Source("run-1", name, RunClock.real()), **limits)


def record(reporter: Reporter, count: int) -> None:
    for number in range(count):
        stats = finished(request_id=f"{reporter.source.sidecar}-{number}")
        reporter.record(scheduler(running=1), iteration(stats, wall_s=time.time()))


def until(what: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def adds_up(counts: Counts) -> bool:
    return counts.recorded == counts.sent + counts.dropped + counts.queued


def delivered(settings: RunSettings, count: int) -> list[Request | Load]:
    """What is in the topic, read until it holds `count` requests."""
    codec = Codec(REQUESTS)
    consumer = reader(settings.bootstrap, [REQUESTS], settings.prefix, from_start=True)
    found: list[Request | Load] = []
    deadline = time.monotonic() + 20
    while sum(isinstance(event, Request) for event in found) < count:
        assert time.monotonic() < deadline
        for records in consumer.poll(timeout_ms=50).values():
            for one in records:
                decoded = codec.decode(one.value)
                assert decoded.bad == []
                found += decoded.events
    consumer.close()
    return found


@pytest.fixture
def blackhole() -> Iterator[str]:
    """An address that takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"127.0.0.1:{listener.getsockname()[1]}"


@pytest.mark.kafka
def test_every_finished_request_of_every_engine_is_in_the_topic(settings: RunSettings) -> None:
    reporters = [reporter_of("vllm-0"), reporter_of("vllm-1")]
    sender = Sender(settings, LOG)
    for reporter in reporters:
        assert sender.add(reporter) is reporter
        record(reporter, 700)
    sender.start()
    until(lambda: all(reporter.counts().sent > 700 for reporter in reporters))
    for reporter in reporters:
        record(reporter, 1)
    sender.close(timeout_s=20)
    for reporter in reporters:
        counts = reporter.counts()
        assert (counts.sent, counts.dropped, counts.queued) == (counts.recorded, 0, 0)
    found = delivered(settings, 1402)
    for name in ("vllm-0", "vllm-1"):
        ids = [e.id for e in found if isinstance(e, Request) and e.sidecar == name]
        assert ids == [*(f"{name}-{number}" for number in range(700)), f"{name}-0"]
        seqs = [e.seq for e in found if isinstance(e, Load) and e.sidecar == name]
        assert seqs == list(range(len(seqs)))
        assert seqs


@pytest.mark.kafka
def test_what_was_recorded_before_the_broker_came_arrives(broker: EmbeddedBroker) -> None:
    port = free_port()
    settings = RunSettings(bootstrap=f"127.0.0.1:{port}", prefix="late")
    reporter, sender = reporter_of(), Sender(settings, LOG)
    sender.add(reporter)
    record(reporter, 20)
    sender.start()
    with EmbeddedBroker(port):
        make_topics(settings.bootstrap, "late", partitions=1)
        until(lambda: reporter.counts().sent >= 21)
        sender.close(timeout_s=20)
        assert len([e for e in delivered(settings, 20) if isinstance(e, Request)]) == 20


def test_without_a_broker_the_newest_are_kept_and_the_rest_is_counted() -> None:
    settings = RunSettings(bootstrap=f"127.0.0.1:{free_port()}")
    reporter, sender = reporter_of(requests_limit=10), Sender(settings, LOG)
    sender.add(reporter)
    sender.start()
    record(reporter, 1000)
    sender.close(timeout_s=20)
    counts = reporter.counts()
    assert (counts.sent, counts.dropped) == (0, 990)
    assert adds_up(counts)


def test_a_broker_that_never_answers_holds_nobody_up(
    blackhole: str, caplog: pytest.LogCaptureFixture
) -> None:
    reporter, sender = reporter_of(requests_limit=10), Sender(RunSettings(bootstrap=blackhole), LOG)
    sender.add(reporter)
    sender.start()
    record(reporter, 1000)
    until(lambda: "is away" in caplog.text)
    record(reporter, 1000)
    sender.close(timeout_s=20)
    counts = reporter.counts()
    assert (counts.sent, counts.dropped, counts.faults) == (0, 1990, 0)
    assert adds_up(counts)
    assert f"broker {blackhole} is away" in caplog.text
    assert "serving goes on without it" in caplog.text
    assert "1990 dropped" in caplog.text


@pytest.mark.kafka
def test_a_topic_that_is_not_there_is_named_and_costs_nothing(
    broker: EmbeddedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    settings = RunSettings(bootstrap=broker.bootstrap, prefix="absent")
    reporter, sender = reporter_of(), Sender(settings, LOG)
    sender.add(reporter)
    record(reporter, 5)
    sender.start()
    until(lambda: "absent.requests" in caplog.text)
    sender.close(timeout_s=20)
    assert reporter.counts().dropped == 0
    assert adds_up(reporter.counts())


@pytest.mark.kafka
def test_a_broker_that_dies_costs_what_is_counted_and_no_more(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    with EmbeddedBroker() as own:
        settings = RunSettings(bootstrap=own.bootstrap)
        make_topics(own.bootstrap, partitions=1)
        reporter, sender = reporter_of(), Sender(settings, LOG)
        sender.add(reporter)
        sender.start()
        record(reporter, 5)
        until(lambda: reporter.counts().sent >= 6)
        own.stop()
    record(reporter, 500)
    until(lambda: reporter.in_flight > 0)
    sender.close(timeout_s=20)
    counts = reporter.counts()
    assert adds_up(counts)
    assert counts.sent + counts.dropped + counts.queued >= 506
    assert counts.dropped >= 1


@pytest.mark.kafka
def test_a_broker_that_comes_back_empty_gets_what_is_recorded_from_then_on() -> None:
    port = free_port()
    settings = RunSettings(bootstrap=f"127.0.0.1:{port}")
    reporter, sender = reporter_of(), Sender(settings, LOG)
    sender.add(reporter)
    with EmbeddedBroker(port):
        make_topics(settings.bootstrap, partitions=1)
        sender.start()
        record(reporter, 5)
        until(lambda: reporter.counts().sent >= 6)
    record(reporter, 50)
    until(lambda: reporter.in_flight > 0)

    def sent_while_recording() -> int:
        record(reporter, 1)
        return reporter.counts().sent

    with EmbeddedBroker(port):
        make_topics(settings.bootstrap, partitions=1)
        # More than may still have reached the broker before.
        until(lambda: sent_while_recording() >= 100)
        sender.close(timeout_s=20)
        assert delivered(settings, 20)
    assert adds_up(reporter.counts())


class Broken(Sender):
    """Its sessions raise what no broker would."""

    sessions = 0

    def session(self) -> None:
        self.sessions += 1
        msg = f"session {self.sessions} is broken"
        raise RuntimeError(msg)


@pytest.mark.parametrize(("again_s", "second_time"), [(60.0, 0), (0.0, 1)])
def test_a_fault_of_the_sender_is_said_now_and_then_and_it_starts_again(
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    again_s: float,
    second_time: int,
) -> None:
    monkeypatch.setattr("slackwater.sessions.SAY_AGAIN_S", again_s)
    reporter, sender = reporter_of(), Broken(RunSettings(bootstrap="127.0.0.1:9"), LOG)
    sender._retry_s = 0.001  # Of two seconds.
    sender.add(reporter)
    sender.start()
    record(reporter, 5)
    until(lambda: sender.sessions >= 3)
    sender.close(timeout_s=20)
    assert caplog.text.count("session 1 is broken") == 1
    assert caplog.text.count("session 2 is broken") == second_time
    assert adds_up(reporter.counts())
