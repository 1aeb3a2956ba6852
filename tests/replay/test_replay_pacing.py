"""Pacing on a clock that the test moves: exact times, real waits, merges heard and bounded."""

from collections.abc import Iterable
from typing import Any

import pytest
import trace_samples as samples

from replay_producer.fleet import Fleet
from replay_producer.generators import generate
from replay_producer.pacing import AckWatch, MergeFollower, WallTime, pace
from replay_producer.readers import read_trace
from replay_producer.windows import WINDOW_LIMIT_US, MergeWindows
from slackwater.clock import RunClock
from slackwater.errors import BrokerError
from slackwater.events import Accepted, Finished, MergesEvent, Request, Skipped, Started
from slackwater.topics import Topic

ORIGIN_US = 1_700_000_000_000_000


class Wall:
    """Wall time that passes only when slept."""

    def __init__(self) -> None:
        self.us = ORIGIN_US
        self.slept_s: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.slept_s.append(seconds)
        self.us += round(seconds * 1e6)

    def clock(self, speed: float = 1.0, lead_us: int = 0) -> RunClock:
        return RunClock(ORIGIN_US, ORIGIN_US + lead_us, speed, lambda: self.us)

    def time(self) -> WallTime:
        return WallTime(self.sleep, lambda: self.us / 1e6)


class Outbox:
    """Keeps what is sent, with the wall time of sending."""

    def __init__(self, wall: Wall, acknowledges: bool = True) -> None:
        self.wall = wall
        self.acknowledges = acknowledges
        self.events: list[Any] = []
        self.sent_at_us: list[int] = []
        self.sent = self.acked = self.failed = 0

    def send(self, topic: Topic, key: str, event: Any) -> None:
        self.events.append(event)
        self.sent_at_us.append(self.wall.us)
        self.sent += 1
        self.acked += self.acknowledges

    def poll(self) -> None:
        """Nothing waits."""

    def requests(self) -> list[tuple[int, Request]]:
        pairs = zip(self.sent_at_us, self.events, strict=True)
        return [(at, event) for at, event in pairs if isinstance(event, Request)]


def report(kind: type[Any], learner: str, merge_id: str = "m1") -> MergesEvent:
    extra = {"seconds": 1.0, "bytes_exchanged": 1} if kind is Finished else {}
    made: MergesEvent = kind(
        run_id="r", at_us=ORIGIN_US, group="default", learner=learner, merge_id=merge_id, step=1,
        **extra,
    )  # fmt: skip
    return made


@pytest.mark.parametrize("speed", [0.5, 1.0, 20.0])
def test_arrivals_1_2_9_and_11_ms_in_are_four_times_paced_apart(
    speed: float, tmp_path: Any
) -> None:
    trace = read_trace(samples.write(tmp_path, samples.guidellm()))
    wall = Wall()
    outbox = Outbox(wall)
    fleet = Fleet(trace, ORIGIN_US, "r", sidecars=1, latency="recorded")
    assert pace(fleet, outbox, wall.clock(speed), wall=wall.time())
    arrivals = [event.arrival_us - ORIGIN_US for _, event in outbox.requests()]
    assert arrivals == [0, 1000, 8000, 10_000]
    for sent_us, event in outbox.requests():
        due_us = ORIGIN_US + (event.at_us - ORIGIN_US) / speed
        # Never before its time, and after it by no more than the shortest sleep.
        assert due_us - 1 <= sent_us <= due_us + 1001


def test_event_times_do_not_depend_on_speed_or_on_how_the_loop_woke() -> None:
    def run(speed: float) -> list[Any]:
        wall = Wall()
        outbox = Outbox(wall)
        pace(Fleet(generate("bursty", 5, 20), ORIGIN_US, "r"), outbox, wall.clock(speed),
             wall=wall.time())  # fmt: skip
        return outbox.events

    assert run(1.0) == run(7.3) == run(100.0)


def test_a_clock_that_starts_later_is_waited_for() -> None:
    wall = Wall()
    outbox = Outbox(wall)
    pace(Fleet(generate("constant", 1, 5), ORIGIN_US, "r"), outbox, wall.clock(lead_us=3_000_000),
         wall=wall.time())  # fmt: skip
    assert min(outbox.sent_at_us) >= ORIGIN_US + 3_000_000
    assert max(wall.slept_s) <= 0.01


def test_a_replay_that_is_stopped_leaves_the_rest_unfinished() -> None:
    wall = Wall()
    fleet = Fleet(generate("constant", 10, 20), ORIGIN_US, "r")
    done = pace(
        fleet,
        Outbox(wall),
        wall.clock(),
        keep_going=lambda now_us: now_us < ORIGIN_US + 2_000_000,
        wall=wall.time(),
    )
    assert not done
    assert 0 < fleet.arrived < 60


def test_a_backlog_that_does_not_drain_is_given_up_at_the_limit() -> None:
    wall = Wall()
    fleet = Fleet(generate("high_pressure", 5, 200), ORIGIN_US, "r")
    assert not pace(
        fleet, Outbox(wall), wall.clock(), until_us=ORIGIN_US + 6_000_000, wall=wall.time()
    )
    assert fleet.in_flight > 0


def test_a_broker_that_acknowledges_nothing_ends_the_replay_with_counts() -> None:
    wall = Wall()
    outbox = Outbox(wall, acknowledges=False)
    with pytest.raises(BrokerError, match=r"(\d+) of \1 sent were not acknowledged"):
        pace(Fleet(generate("constant", 60, 5), ORIGIN_US, "r"), outbox, wall.clock(),
             wall=wall.time())  # fmt: skip
    assert wall.us < ORIGIN_US + 15_000_000


def test_failed_events_end_the_replay_at_once() -> None:
    outbox = Outbox(Wall())
    watch = AckWatch(outbox, 10.0)
    outbox.sent, outbox.acked = 5, 3
    watch.check(0.0)
    outbox.failed = 2
    with pytest.raises(BrokerError, match="2 of 5"):
        watch.check(0.1)


def test_an_idle_producer_is_not_taken_for_a_lost_broker() -> None:
    outbox = Outbox(Wall())
    watch = AckWatch(outbox, 10.0)
    outbox.sent = outbox.acked = 5
    for now_s in (0.0, 100.0):
        watch.check(now_s)
    outbox.sent = 6
    watch.check(105.0)
    with pytest.raises(BrokerError):
        watch.check(111.0)


def run_with_merge(reports: dict[float, list[MergesEvent]], seconds: float = 20) -> Outbox:
    """A calm run that hears `reports`, each list once the given second has come."""
    wall = Wall()
    outbox = Outbox(wall)
    fleet = Fleet(generate("constant", seconds, 10, seed=5), ORIGIN_US, "r")
    due = sorted(reports.items())

    def heard() -> Iterable[MergesEvent]:
        while due and wall.us >= ORIGIN_US + due[0][0] * 1e6:
            yield from due.pop(0)[1]

    pace(fleet, outbox, wall.clock(), follower=MergeFollower(fleet, heard), wall=wall.time())
    return outbox


def test_requests_during_a_merge_are_slowed_from_when_its_report_is_read() -> None:
    both = ["learner-0", "learner-1"]
    calm = {e.id: e for _, e in run_with_merge({}).requests()}
    merged = run_with_merge(
        {
            4.0: [report(Accepted, name) for name in both],
            5.0: [report(Started, name) for name in both],
            8.0: [report(Finished, "learner-0")],
            9.0: [report(Finished, "learner-1")],
        }
    )
    slower = [e for _, e in merged.requests() if e.e2e_s > calm[e.id].e2e_s]
    assert min(e.at_us for e in slower) > ORIGIN_US + 5_000_000
    # The window lasts until the last learner has finished.
    assert any(e.arrival_us > ORIGIN_US + 8_000_000 for e in slower)
    before = [e for _, e in merged.requests() if e.at_us <= ORIGIN_US + 5_000_000]
    assert before == [calm[e.id] for e in before]


def test_a_merge_runs_from_first_start_to_last_finish() -> None:
    windows = MergeWindows()
    states = []
    for event in (
        report(Accepted, "a"),
        report(Accepted, "b"),
        report(Started, "a"),
        report(Finished, "a"),
        report(Started, "b"),
        report(Finished, "b"),
    ):
        windows.report(event, ORIGIN_US)
        states.append(windows.any_running)
    assert states == [False, False, True, True, True, False]
    assert (windows.opened, windows.timed_out) == (1, 0)


def test_a_learner_that_skips_is_not_waited_for() -> None:
    windows = MergeWindows()
    for event in (
        report(Accepted, "a"),
        report(Accepted, "b"),
        report(Started, "a"),
        report(Skipped, "b"),
        report(Finished, "a"),
    ):
        windows.report(event, ORIGIN_US)
    assert not windows.any_running


def test_a_window_whose_learner_died_ends_by_itself_and_is_counted() -> None:
    windows = MergeWindows()
    windows.report(report(Started, "a"), ORIGIN_US)
    windows.expire(ORIGIN_US + WINDOW_LIMIT_US - 1)
    assert windows.any_running
    windows.expire(ORIGIN_US + WINDOW_LIMIT_US)
    assert not windows.any_running
    assert windows.timed_out == 1
    windows.report(report(Started, "b"), ORIGIN_US + WINDOW_LIMIT_US + 1)
    assert not windows.any_running


def test_two_merges_at_once_slow_until_both_are_over() -> None:
    windows = MergeWindows()
    for event in (
        report(Started, "a", "m1"),
        report(Started, "a", "m2"),
        report(Finished, "a", "m1"),
    ):
        windows.report(event, ORIGIN_US)
    assert windows.any_running
    windows.report(report(Finished, "a", "m2"), ORIGIN_US)
    assert not windows.any_running
