from typing import Any

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from controller.settings import ControllerSettings
from slackwater.clock import RunClock
from slackwater.codec import encode_lines
from slackwater.events import Bins, Load, Pause, Request, Resume, Step
from slackwater.settings import RunSettings
from slackwater.topics import BINS, COMMANDS, DEADLETTER, DECISIONS, LEARNERS, REQUESTS, Topic
from streams.job import Job, Message, Outgoing
from streams.metrics import Metrics
from streams.service import build_stage
from streams.settings import StreamSettings

T0 = 1_750_000_000_000_000


class ListLog:
    """Keeps what it is given; says that everything below `next_offset` is stored."""

    def __init__(self, next_offset: int = 0) -> None:
        self.next_offset = next_offset
        self.events: list[Any] = []
        self.late: list[Any] = []
        self.said_late = False

    def stored(self, topic: str, partition: int) -> int:
        return self.next_offset

    def append(self, message: Message, events: Any, extras: Any, late: Any) -> None:
        self.said_late = late is not None
        self.late += [events[i] for i in late or ()]
        self.events += events


def make_job(log: ListLog | None = None, **settings: Any) -> Job:
    whole = StreamSettings(
        run=RunSettings(bootstrap="none:1", run_id="r"),
        controller=ControllerSettings(min_gap_steps=10, max_gap_steps=40, fixed_steps=20),
        policy="fixed_h",
        **settings,
    )
    clock = RunClock(T0, 0, wall_us=lambda: 0)
    return Job(whole, clock, Metrics(CollectorRegistry()), build_stage(whole), log)


def request(at_us: int, name: str) -> Request:
    return Request(
        run_id="r", at_us=T0 + at_us, sidecar="s", id=name, arrival_us=T0, status="ok", e2e_s=0.1
    )


def load(at_us: int) -> Load:
    return Load(run_id="r", at_us=T0 + at_us, sidecar="s", running=1, waiting=0)


def step(number: int, run_id: str = "r") -> Step:
    return Step(
        run_id=run_id,
        at_us=T0 + number * 100_000,
        learner="a",
        step=number,
        step_time_s=0.1,
        steps_since_merge=number,
    )


def message(topic: Topic, *events: Any, offset: int = 0) -> Message:
    return Message(topic, 0, offset, encode_lines(events))


def sent(outgoing: list[Outgoing], topic: Topic) -> list[Any]:
    return [event for out in outgoing if out.topic is topic for event in out.events]


def test_unreadable_lines_become_dead_letters_and_the_rest_is_kept() -> None:
    log = ListLog()
    job = make_job(log)
    raw = b"garbage\n" + encode_lines([request(10, "a")]) + b'{"type":"load"}'
    outgoing = job.handle(Message(REQUESTS, 3, 17, raw))
    letters = sent(outgoing, DEADLETTER)
    assert [letter.raw for letter in letters] == [b"garbage", b'{"type":"load"}']
    assert {(x.topic, x.partition, x.offset) for x in letters} == {("slackwater.requests", 3, 17)}
    assert [event.id for event in log.events] == ["a"]


def test_unreadable_dead_letter_makes_no_further_ones() -> None:
    assert make_job().handle(Message(DEADLETTER, 0, 0, b"junk")) == []


def test_late_event_is_logged_as_late_and_repeated_one_once() -> None:
    log = ListLog()
    job = make_job(log)
    job.handle(message(REQUESTS, request(10, "a"), request(10, "a"), load(2_000_000)))
    job.handle(message(REQUESTS, request(20, "b"), offset=1))
    assert [getattr(e, "id", "load") for e in log.events] == ["a", "load", "b"]
    assert [e.id for e in log.late] == ["b"]


def test_message_that_is_in_the_log_is_left_out_whole() -> None:
    log = ListLog(next_offset=5)
    job = make_job(log)
    assert job.handle(message(REQUESTS, request(10, "a"), load(9_000_000), offset=4)) == []
    assert log.events == []


def test_bins_leave_as_soon_as_the_watermark_passes_them() -> None:
    outgoing = make_job().handle(message(REQUESTS, request(10, "a"), load(900_000)))
    [bins] = sent(outgoing, BINS)
    assert [(row.finished, row.start_us - T0) for row in bins.rows] == [(1, 0)]


def test_decisions_and_commands_follow_learners_and_bins() -> None:
    job = make_job()
    outgoing: list[Outgoing] = []
    for tenth in range(1, 30):
        bins = Bins(
            run_id="r", at_us=T0 + tenth * 100_000, group="default", partition=0, bin_s=0.25,
            watermarks_us={"s": T0 + tenth * 100_000},
        )  # fmt: skip
        outgoing += job.handle(message(BINS, bins, offset=tenth))
        outgoing += job.handle(message(LEARNERS, step(tenth), offset=tenth))
    [command] = sent(outgoing, COMMANDS)
    assert (command.at_step, command.reason, command.participants) == (20, "period_due", ["a"])
    decisions = sent(outgoing, DECISIONS)
    assert [d.at_us for d in decisions] == sorted({d.at_us for d in decisions})
    assert [d.merge_id for d in decisions if d.action == "merge"] == [command.merge_id]


def test_events_of_another_run_are_not_decided_on() -> None:
    job = make_job()
    for number in range(1, 60):
        outgoing = job.handle(message(LEARNERS, step(number, run_id="other"), offset=number))
        assert sent(outgoing, DECISIONS) == []


@pytest.mark.parametrize("roles", [("count",), ("log",)])
def test_process_without_the_role_decides_nothing(roles: tuple[str, ...]) -> None:
    job = make_job(roles=roles)
    job.stage = None
    for number in range(1, 60):
        assert job.handle(message(LEARNERS, step(number), offset=number)) == []


def test_figure_that_is_unknown_is_shown_as_nothing() -> None:
    job = make_job()
    for number in range(1, 10):
        job.handle(message(LEARNERS, step(number), offset=number))
    exported = {m.name: m.samples for m in job.metrics.registry.collect()}
    assert exported["slackwater_forecast_rate"] == []
    assert len(exported["slackwater_gap_steps"]) == 1


def test_requests_of_another_run_are_logged_and_not_counted() -> None:
    log = ListLog()
    job = make_job(log)
    foreign = msgspec.structs.replace(request(10, "x"), run_id="other")
    outgoing = job.handle(message(REQUESTS, foreign, request(10, "a"), load(900_000)))
    [bins] = sent(outgoing, BINS)
    assert [row.finished for row in bins.rows] == [1]
    assert [getattr(e, "id", "load") for e in log.events] == ["x", "a", "load"]


def test_pause_of_another_group_pauses_nothing() -> None:
    job = make_job()
    pause = Pause(run_id="r", at_us=T0, group="other")
    job.handle(message(COMMANDS, pause))
    outgoing: list[Outgoing] = []
    for number in range(1, 35):
        outgoing += job.handle(message(LEARNERS, step(number), offset=number))
    assert len(sent(outgoing, COMMANDS)) == 1


def test_pause_and_its_end_are_said(caplog: pytest.LogCaptureFixture) -> None:
    job = make_job()
    about: dict[str, Any] = {"run_id": "r", "group": job.settings.run.group}
    with caplog.at_level("INFO", logger="streams"):
        job.handle(message(COMMANDS, Pause(at_us=T0, **about)))
        job.handle(message(COMMANDS, Resume(at_us=T0 + 1, **about), offset=1))
    texts = [record.getMessage() for record in caplog.records]
    assert texts == ["the group is paused: H_max alone is commanded", "the group goes on"]


def test_message_delivered_twice_is_handled_once() -> None:
    log = ListLog()
    job = make_job(log)
    for _ in range(2):
        job.handle(message(REQUESTS, request(10, "a"), offset=3))
    assert len(log.events) == 1
    assert job.handle(message(REQUESTS, request(20, "b"), offset=2)) == []


def test_hole_in_what_the_broker_gives_is_said(caplog: pytest.LogCaptureFixture) -> None:
    run_log = ListLog()
    job = make_job(run_log)
    for offset in (0, 1, 3, 2, 4):
        job.handle(message(REQUESTS, request(10 + offset, f"r{offset}"), offset=offset))
    (said,) = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    name = REQUESTS.name(job.settings.run.prefix)
    assert said.startswith(f"{name}[0]: the broker gave message 3 after 1;")
    assert [getattr(e, "id", None) for e in run_log.events] == ["r0", "r1", "r3", "r4"]


def test_partition_that_another_process_read_meanwhile_comes_back_without_a_hole(
    caplog: pytest.LogCaptureFixture,
) -> None:
    job = make_job(roles=("count",))
    first, back, later = (message(REQUESTS, request(o, f"r{o}"), offset=o) for o in (7, 20, 22))
    job.handle(first)
    assert job.hole_before(back) == range(8, 20)
    job.let_go(REQUESTS, 0)
    assert not job.hole_before(back)
    job.handle(back)
    assert not caplog.records
    assert job.hole_before(later) == range(21, 22)


def test_rebalance_hides_no_hole_from_a_process_that_logs() -> None:
    job = make_job(ListLog())
    job.handle(message(REQUESTS, request(0, "r0"), offset=0))
    job.let_go(REQUESTS, 0)
    assert job.hole_before(message(REQUESTS, request(2, "r2"), offset=2)) == range(1, 2)


def test_hole_before_the_first_message_is_one_where_the_log_knows_what_is_next() -> None:
    first = message(REQUESTS, request(10, "a"), offset=7)
    assert make_job(ListLog(5)).hole_before(first) == range(5, 7)
    assert not make_job(ListLog(7)).hole_before(first)
    assert not make_job(roles=("count",)).hole_before(first)


def test_process_that_does_not_count_does_not_say_what_is_late() -> None:
    log = ListLog()
    job = make_job(log, roles=("log",))
    job.handle(message(REQUESTS, request(10, "a")))
    assert not log.said_late
    assert len(log.events) == 1


def test_obstacle_to_the_policy_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    job = make_job()
    job.stage = build_stage(
        msgspec.structs.replace(
            job.settings,
            controller=msgspec.structs.replace(job.settings.controller, expect_learners=2),
        )
    )
    with caplog.at_level("INFO", logger="streams"):
        for number in range(1, 400):
            job.handle(message(LEARNERS, step(number), offset=number))
            job.stage.progress._first_s = -1e9
    texts = [record.getMessage() for record in caplog.records]
    assert sum("fewer learners report" in text for text in texts) == 1
    assert sum("learner a is heard" in text for text in texts) == 1


def test_dead_letter_of_a_huge_line_says_what_was_left_out() -> None:
    raw = b"x" * 3_000_000
    [letter] = sent(make_job().handle(Message(REQUESTS, 0, 0, raw)), DEADLETTER)
    assert letter.raw == raw[:524_288]
    assert "first 524288 of 3000000 bytes" in letter.error


def test_many_unreadable_lines_leave_in_few_messages_that_a_broker_takes() -> None:
    raw = b"a\n" * 3000 + b"x" * 400_000 + b"\n" + b"y" * 400_000
    outgoing = make_job().handle(Message(REQUESTS, 0, 0, raw))
    letters = sent(outgoing, DEADLETTER)
    assert b"\n".join(letter.raw for letter in letters) == raw
    assert len(outgoing) <= 5
    assert max(len(encode_lines(out.events)) for out in outgoing) < 1_000_000


def test_many_decisions_leave_in_messages_that_a_broker_takes() -> None:
    job = make_job()
    for number in range(1, 300):
        job.stage.observe(step(number))
    outgoing = [out for out in job.tick() if out.topic is DECISIONS]
    assert len(outgoing) > 1
    assert max(len(out.events) for out in outgoing) <= 100
    ticks = [event.at_us for out in outgoing for event in out.events]
    assert ticks == sorted(ticks)
