"""The replay against a real broker: nothing lost, merges close the loop, ends are clean."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import trace_samples as samples

from replay_producer.flood import flood
from replay_producer.generators import generate
from replay_producer.replay import Control, replay
from replay_producer.sidecar import PAPER_SLOWDOWN, ServiceSettings
from slackwater.broker import EmbeddedBroker
from slackwater.clock import RunClock
from slackwater.codec import Codec
from slackwater.errors import BrokerError, InputError
from slackwater.events import Finished, Request, Started
from slackwater.settings import RunSettings
from slackwater.topics import ALL_TOPICS, MERGES, REQUESTS, Topic
from slackwater.transport import BatchProducer, make_topics, reader

pytestmark = pytest.mark.kafka

ORIGIN_US = 1_800_000_000_000_000
READ_LIMIT_S = 20.0


@pytest.fixture
def prefix(broker: EmbeddedBroker, request: pytest.FixtureRequest) -> str:
    name = f"t{abs(hash(request.node.name)) % 10**9}"
    make_topics(broker.bootstrap, name, partitions=2)
    return name


def start(
    broker: EmbeddedBroker, prefix: str, *arguments: object, clock: RunClock | None = None
) -> "subprocess.Popen[str]":
    env = {
        **os.environ,
        "KAFKA_BOOTSTRAP_SERVERS": broker.bootstrap,
        "SLACKWATER_TOPIC_PREFIX": prefix,
        "SLACKWATER_RUN_ID": "run-1",
    }
    if clock is not None:
        env["SLACKWATER_CLOCK"] = clock.encode()
    return subprocess.Popen(
        [sys.executable, "-m", "slackwater", "replay", *map(str, arguments), "--json"],
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: "subprocess.Popen[str]") -> dict[str, Any]:
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    report: dict[str, Any] = json.loads(out)
    return report


def wait_for(path: Path, process: "subprocess.Popen[str]") -> None:
    while not path.exists():
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.01)


def read(broker: EmbeddedBroker, prefix: str, topic: Topic, count: int) -> list[Any]:
    """The first `count` events of a topic, and any more that are there already."""
    consumer = reader(broker.bootstrap, [topic], prefix, from_start=True)
    codec, events = Codec(topic), []
    deadline = time.monotonic() + READ_LIMIT_S
    while len(events) < count and time.monotonic() < deadline:
        for records in consumer.poll(timeout_ms=100).values():
            for record in records:
                decoded = codec.decode(record.value)
                assert not decoded.bad
                events += decoded.events
    consumer.close()
    return events


def clock_from_now(speed: float) -> RunClock:
    # Origin and wall origin differ: event time is not the wall's.
    return RunClock(ORIGIN_US, time.time_ns() // 1000 + 1_500_000, speed)


def test_what_is_replayed_live_is_what_is_exported_offline(
    broker: EmbeddedBroker, prefix: str, tmp_path: Path
) -> None:
    options = ("--regime", "aperiodic", "--duration", 2, "--sidecars", 3, "--seed", 4)
    clock = clock_from_now(20)
    report = finish(start(broker, prefix, *options, clock=clock))
    assert report["complete"]
    assert report["arrived"] == report["requests"] > 0
    assert report["sent"] == report["acked"] == report["requests"] + report["loads"]
    live = read(broker, prefix, REQUESTS, report["sent"])
    exported = tmp_path / "offline.jsonl"
    process = start(broker, prefix, *options, "--export", exported, clock=clock)
    finish(process)
    offline = Codec(REQUESTS).decode(exported.read_bytes()).events
    order = lambda e: (e.at_us, e.sidecar, type(e).__name__)  # noqa: E731
    assert sorted(live, key=order) == sorted(offline, key=order)


def test_each_sidecar_keeps_its_order_and_its_partition(
    broker: EmbeddedBroker, prefix: str
) -> None:
    report = finish(start(broker, prefix, "--regime", "bursty", "--duration", 1, "--speed", 30))
    events = read(broker, prefix, REQUESTS, report["sent"])
    for name in ("sidecar-0", "sidecar-1"):
        times = [e.at_us for e in events if e.sidecar == name]
        assert times == sorted(times)
        assert len(times) > 100


def stretch(event: Request) -> float:
    """How many times longer than its work a request's service took."""
    service = ServiceSettings()
    work_us = service.prefill_us(event.prompt_tokens) + service.decode_us(event.output_tokens)
    return (event.prefill_s + event.decode_s) * 1e6 / work_us


def test_a_real_merge_slows_the_requests_it_meets(
    broker: EmbeddedBroker, prefix: str, tmp_path: Path
) -> None:
    ready = tmp_path / "ready"
    clock = clock_from_now(10)
    # 5 a second keep the eight slots from filling even while slowed: service follows arrival.
    process = start(
        broker, prefix, "--regime", "constant", "--duration", 6, "--rate", 5,
        "--ready-file", ready, clock=clock,
    )  # fmt: skip
    wait_for(ready, process)
    learners = BatchProducer(broker.bootstrap, prefix)

    def report(kind: type[Any], at_s: float, **extra: object) -> int:
        while clock.now_us() < ORIGIN_US + at_s * 1_000_000:
            time.sleep(0.01)
        now_us = clock.now_us()
        for learner in ("learner-0", "learner-1"):
            event = kind(
                run_id="run-1", at_us=now_us, group="default", learner=learner,
                merge_id="m1", step=128, **extra,
            )  # fmt: skip
            learners.send(MERGES, "default", event)
        learners.flush()
        return now_us

    started_us = report(Started, 15)
    finished_us = report(Finished, 35, seconds=20.0, bytes_exchanged=4)
    learners.close()
    summary = finish(process)
    assert (summary["merges"], summary["merges_timed_out"]) == (1, 0)
    events = read(broker, prefix, REQUESTS, summary["sent"])
    done = sorted((e for e in events if isinstance(e, Request)), key=lambda e: e.arrival_us)
    full = [i for i, e in enumerate(done) if stretch(e) == pytest.approx(PAPER_SLOWDOWN, 1e-4)]
    plain = [i for i, e in enumerate(done) if stretch(e) == pytest.approx(1, 1e-4)]
    partial = set(range(len(done))) - set(full) - set(plain)
    # One stretch of slowed requests, met in part only at its two ends by what was in service.
    assert full == [i for i in range(full[0], full[-1] + 1) if i not in partial]
    assert len(full) > len(partial)
    assert all(done[i].at_us > started_us for i in full)
    assert all(e.at_us <= started_us or stretch(e) > 1.0001 for e in done[full[0] : full[-1]])
    assert plain[0] == 0
    assert done[plain[-1]].arrival_us > finished_us


def test_reports_of_another_run_do_not_slow_this_one(
    broker: EmbeddedBroker, prefix: str, tmp_path: Path
) -> None:
    ready = tmp_path / "ready"
    process = start(
        broker, prefix, "--regime", "constant", "--duration", 2, "--ready-file", ready
    )  # fmt: skip
    wait_for(ready, process)
    other = BatchProducer(broker.bootstrap, prefix)
    event = Started(
        run_id="run-2", at_us=ORIGIN_US, group="default", learner="l", merge_id="m", step=1
    )
    other.send(MERGES, "default", event)
    other.close()
    assert finish(process)["merges"] == 0


def test_a_recording_is_replayed_onto_all_its_topics(
    broker: EmbeddedBroker, prefix: str, tmp_path: Path
) -> None:
    learner = {"run_id": "old", "learner": "learner-0"}
    merge = {**learner, "group": "default", "merge_id": "m", "step": 1}
    lines = [
        {"type": "load", **learner, "sidecar": "s", "running": 1, "waiting": 0},
        {"type": "step", **learner, "step": 1, "steps_since_merge": 1},
        {"type": "heartbeat", **learner},
        {"type": "accepted", **merge},
        {"type": "started", **merge},
        {"type": "finished", **merge, "seconds": 1.0, "bytes_exchanged": 4},
    ]
    first_us = samples.EPOCH_US + 1234
    text = "".join(
        json.dumps({**line, "at_us": first_us + i * 10_001}) + "\n" for i, line in enumerate(lines)
    )
    path = samples.write(tmp_path, text)
    report = finish(start(broker, prefix, path, clock=clock_from_now(1)))
    assert (report["sent"], report["acked"], report["complete"]) == (6, 6, True)
    found = {}
    for topic, count in ((REQUESTS, 1), (ALL_TOPICS[1], 2), (MERGES, 3)):
        for event in read(broker, prefix, topic, count):
            found[event.__struct_config__.tag] = event
    assert [found[line["type"]].at_us for line in lines] == [
        ORIGIN_US + 1234 + i * 10_001 for i in range(6)
    ]
    assert {event.run_id for event in found.values()} == {"run-1"}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_cleanly_with_everything_sent_acknowledged(
    number: signal.Signals, broker: EmbeddedBroker, prefix: str, tmp_path: Path
) -> None:
    ready = tmp_path / "ready"
    process = start(broker, prefix, "--regime", "constant", "--rate", 50, "--ready-file", ready)
    wait_for(ready, process)
    assert len(read(broker, prefix, REQUESTS, 50)) >= 50
    process.send_signal(number)
    report = finish(process)
    assert not report["complete"]
    assert report["error"] is None
    assert report["sent"] == report["acked"] >= 50


def test_a_broker_that_dies_ends_the_replay_with_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("replay_producer.pacing.ACK_LIMIT_S", 1.0)
    own = EmbeddedBroker().start()
    make_topics(own.bootstrap, "slackwater", partitions=1)
    now_us = time.time_ns() // 1000

    def keep_going(event_us: int) -> bool:
        if event_us > now_us + 1_000_000:
            own.stop()
        return True

    report = replay(
        generate("constant", 60),
        RunSettings(bootstrap=own.bootstrap),
        lambda: RunClock(now_us, now_us),
        control=Control(keep_going=keep_going),
    )
    assert not report.complete
    assert report.acked > 0
    assert report.failed == report.sent - report.acked > 0
    assert f"{report.failed} of {report.sent} sent were not acknowledged" in (report.error or "")


@pytest.mark.slow
def test_a_broker_that_dies_is_reported_with_what_was_not_acknowledged(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    with EmbeddedBroker() as own:
        make_topics(own.bootstrap, "slackwater", partitions=1)
        process = start(own, "slackwater", "--regime", "constant", "--ready-file", ready)
        wait_for(ready, process)
        read(own, "slackwater", REQUESTS, 20)
    out, err = process.communicate(timeout=60)
    report = json.loads(out)
    assert process.returncode == 1
    assert report["failed"] == report["sent"] - report["acked"] > 0
    assert report["error"] in err
    assert f"{report['failed']} of {report['sent']} sent were not acknowledged" in err
    assert "Traceback" not in err


def test_topics_that_are_not_there_are_one_line_and_exit_code_1(broker: EmbeddedBroker) -> None:
    process = start(broker, "nothing-made", "--regime", "constant")
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "make the topics first" in err
    assert err.count("\n") == 1


def test_a_flood_is_valid_distinct_and_complete(broker: EmbeddedBroker, prefix: str) -> None:
    clock = RunClock(ORIGIN_US, time.time_ns() // 1000)
    report = flood(
        broker.bootstrap, prefix, "run-1", rate_per_s=10_000, duration_s=0.5, sidecars=3,
        clock=clock,
    )  # fmt: skip
    assert report.failed == 0
    assert report.requests == report.acked >= 3 * 256
    events = read(broker, prefix, REQUESTS, report.requests)
    assert len({e.id for e in events}) == len(events) == report.requests
    for name in ("sidecar-0", "sidecar-1", "sidecar-2"):
        times = [e.at_us for e in events if e.sidecar == name]
        assert times == sorted(times)
        # Times follow the clock: they span the run, not one instant.
        assert len(set(times)) > len(times) // 2
    for e in events:
        assert ORIGIN_US < e.at_us <= clock.now_us()
        assert e.at_us - e.arrival_us == round(e.e2e_s * 1e6)


def test_a_flood_goes_on_where_another_ended(broker: EmbeddedBroker, prefix: str) -> None:
    for first_id in (0, 1_000_000):
        flood(broker.bootstrap, prefix, "r", rate_per_s=5000, duration_s=0.2, first_id=first_id)
    ids = {int(e.id) for e in read(broker, prefix, REQUESTS, 1024)}
    assert min(ids) == 0
    assert max(ids) > 1_000_000


@pytest.mark.parametrize(("rate", "duration"), [(0, 1), (-1, 1), (1, 0), (1, float("nan"))])
def test_an_impossible_flood_is_refused(rate: float, duration: float) -> None:
    with pytest.raises(InputError, match="must be above 0"):
        flood("127.0.0.1:9", "p", "r", rate_per_s=rate, duration_s=duration)


def test_a_flood_without_a_broker_is_one_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("replay_producer.flood.BOOTSTRAP_TIMEOUT_MS", 500)
    with pytest.raises(BrokerError, match="no Kafka broker answers at"):
        flood("127.0.0.1:9", "p", "r", rate_per_s=1, duration_s=1)
