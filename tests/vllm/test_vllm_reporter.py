"""The border: `record` neither raises nor waits, and every event is accounted for."""

import itertools
import threading
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from vllm_statistics import SOURCE, WALL_S, finished, iteration, recorded, scheduler

from slackwater.clock import RunClock
from slackwater.events import Load, Request, RequestsEvent
from slackwater.vllm.reading import Source
from slackwater.vllm.reporter import SAMPLE_S, STUCK_S, Reporter


class Wall:
    """A wall clock that goes on when it is told to, a monotonic one with it, and may be set."""

    def __init__(self) -> None:
        self.now_s = WALL_S
        self._set_s = 0.0

    def __call__(self) -> float:
        return self.now_s

    def set_by(self, seconds: float) -> None:
        self.now_s += seconds
        self._set_s += seconds

    def monotonic_s(self) -> float:
        return self.now_s - self._set_s


def reporter_at(wall: Wall, source: Source = SOURCE, **limits: int) -> Reporter:
    return Reporter(source, wall, monotonic_s=wall.monotonic_s, **limits)


class Hostile:
    """Raises whatever is asked of it."""

    def __getattribute__(self, name: str) -> Any:
        msg = f"no {name} today"
        raise RuntimeError(msg)


def adds_up(reporter: Reporter) -> bool:
    counts = reporter.counts()
    return counts.recorded == counts.sent + counts.dropped + counts.queued


def loads(events: list[RequestsEvent]) -> list[Load]:
    return [event for event in events if isinstance(event, Load)]


def requests(events: list[RequestsEvent]) -> list[Request]:
    return [event for event in events if isinstance(event, Request)]


@pytest.mark.parametrize(
    "call",
    [
        (Hostile(), None),
        (None, Hostile()),
        (None, SimpleNamespace(finished_requests=7, iteration_timestamp=WALL_S)),
        (scheduler(running=Hostile()), iteration()),
    ],
)
def test_a_fault_in_vllm_s_statistics_stays_inside_and_is_counted(call: tuple[Any, Any]) -> None:
    reporter = Reporter(SOURCE, Wall())
    reporter.record(*call)
    assert requests(list(reporter.events(10))) == []
    counts = reporter.counts()
    assert (counts.faults, counts.dropped) == (1, 1)
    assert reporter.last_fault is not None
    assert adds_up(reporter)


def test_one_unreadable_request_costs_no_other() -> None:
    reporter = Reporter(SOURCE, Wall())
    good = finished(request_id="good")
    reporter.record(None, iteration(finished(e2e_latency=None, inference_time=None), good))
    assert [event.id for event in requests(list(reporter.events(10)))] == ["good"]
    assert reporter.counts().faults == reporter.counts().dropped == 1


def test_record_alone_delivers_every_finished_request_of_a_real_release() -> None:
    # Case 21: `log` is never called.
    reporter = Reporter(SOURCE)
    ended = []
    for scheduler_stats, iteration_stats in recorded():
        reporter.record(scheduler_stats, iteration_stats)
        if iteration_stats is not None:
            ended += [one.request_id for one in iteration_stats.finished_requests]
    assert ended
    assert [event.id for event in requests(list(reporter.events(1000)))] == ended
    assert reporter.counts().faults == 0


def test_the_load_is_sampled_every_100_ms_at_an_iteration() -> None:
    wall = Wall()
    reporter = reporter_at(wall)
    for step in range(100):
        wall.now_s = WALL_S + step * 0.015
        reporter.record(scheduler(running=step), iteration(wall_s=wall.now_s))
    samples = loads(list(reporter.events(1000)))
    assert [sample.seq for sample in samples] == list(range(len(samples)))
    gaps = {b.at_us - a.at_us for a, b in itertools.pairwise(samples)}
    assert gaps <= {105_000, 104_999, 105_001}
    for sample in samples:
        # What was running at that very iteration.
        assert sample.running == round((sample.at_us / 1e6 - WALL_S) / 0.015)


def test_an_idle_engine_is_alive_though_vllm_calls_nothing() -> None:
    wall = Wall()
    reporter = reporter_at(wall)
    assert list(reporter.events(10)) == []
    reporter.record(scheduler(running=0), None)
    for _ in range(100):
        assert len(loads(_later(reporter, wall, 0.75 * SAMPLE_S))) <= 1
    (sample,) = loads(_later(reporter, wall, 1.5 * SAMPLE_S))
    assert sample.seq is not None
    assert sample.seq > 30
    assert (sample.running, sample.waiting, sample.at_us) == (0, 0, round(wall.now_s * 1e6))


def test_an_engine_that_is_stuck_at_work_falls_silent() -> None:
    wall = Wall()
    reporter = reporter_at(wall)
    reporter.record(scheduler(running=2, waiting=1), iteration())
    (first,) = loads(list(reporter.events(10)))
    (later,) = loads(_later(reporter, wall, STUCK_S / 2))
    assert (first.running, later.running, later.waiting) == (2, 2, 1)
    assert _later(reporter, wall, STUCK_S) == []
    reporter.record(scheduler(running=1), iteration(wall_s=wall.now_s))
    assert [sample.running for sample in loads(list(reporter.events(10)))] == [1]


def test_an_engine_shared_with_other_servers_is_not_taken_for_idle() -> None:
    wall = Wall()
    shared = Source("run-1", "vllm-0", RunClock.real(), shared=True)
    reporter = reporter_at(wall, shared)
    reporter.record(scheduler(running=0), iteration())
    assert len(loads(list(reporter.events(10)))) == 1
    assert _later(reporter, wall, 1.0) == []


def test_a_clock_set_back_neither_silences_nor_hurries_an_idle_server() -> None:
    wall = Wall()
    reporter = reporter_at(wall)
    reporter.record(scheduler(running=0), iteration())
    list(reporter.events(10))
    wall.set_by(-3600.0)
    samples = []
    for _ in range(100):
        (sample,) = loads(_later(reporter, wall, SAMPLE_S * 1.01))
        assert list(reporter.events(10)) == []
        assert sample.at_us == round(wall.now_s * 1e6)
        samples.append(sample.at_us)
    assert samples == sorted(set(samples))


def test_a_stuck_server_falls_silent_whatever_is_done_to_the_clock() -> None:
    wall = Wall()
    reporter = reporter_at(wall)
    reporter.record(scheduler(running=7, waiting=3), iteration())
    list(reporter.events(10))
    for set_s in (-3600.0, 7200.0):
        wall.set_by(set_s)
        assert len(loads(_later(reporter, wall, STUCK_S / 3))) == 1
    assert _later(reporter, wall, STUCK_S) == []
    wall.set_by(-3600.0)
    assert _later(reporter, wall, SAMPLE_S * 2) == []


def test_a_full_buffer_drops_the_oldest_and_says_so_in_the_next_sample() -> None:
    wall = Wall()
    reporter = reporter_at(wall, requests_limit=3, loads_limit=2)
    for number in range(10):
        wall.now_s = WALL_S + number
        stats = finished(request_id=f"r{number}")
        reporter.record(scheduler(running=number), iteration(stats, wall_s=wall.now_s))
    events = list(reporter.events(100))
    assert [event.id for event in requests(events)] == ["r7", "r8", "r9"]
    assert [(sample.running, sample.seq) for sample in loads(events)] == [(8, 8), (9, 9)]
    assert loads(events)[-1].dropped == 7 + 7
    assert reporter.counts().dropped == 7 + 8
    assert adds_up(reporter)


@settings(max_examples=40)
@given(st.lists(st.tuples(st.sampled_from(["record", "take", "ack", "fail"]), st.integers(1, 9))))
def test_sent_dropped_and_queued_add_up_after_anything(steps: list[tuple[str, int]]) -> None:
    wall = Wall()
    reporter = reporter_at(wall, requests_limit=4, loads_limit=2)
    out = 0
    for what, number in steps:
        wall.now_s += 0.07
        if what == "record":
            ended = [finished() if n % 3 else Hostile() for n in range(number)]
            reporter.record(scheduler(number), iteration(*ended, wall_s=wall.now_s))
        elif what == "take":
            out += len(list(reporter.events(number)))
        else:
            ended_now = min(out, number)
            out -= ended_now
            (reporter.acked if what == "ack" else reporter.failed)(ended_now)
        assert reporter.in_flight == out
        assert adds_up(reporter)


def test_record_goes_on_while_the_sink_hangs_in_the_middle_of_an_event() -> None:
    reporter = Reporter(SOURCE, requests_limit=5)
    hanging, released = threading.Event(), threading.Event()

    def sink() -> None:
        for _ in reporter.events(1):
            hanging.set()
            released.wait()

    reporter.record(None, iteration(finished()))
    thread = threading.Thread(target=sink)
    thread.start()
    hanging.wait()
    for _ in range(1000):
        reporter.record(None, iteration(finished()))
    counts = reporter.counts()
    released.set()
    thread.join()
    assert (counts.recorded, counts.dropped, counts.queued) == (1001, 995, 6)


def _later(reporter: Reporter, wall: Wall, seconds: float) -> list[RequestsEvent]:
    wall.now_s += seconds
    return list(reporter.events(10))
