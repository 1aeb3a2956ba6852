"""The attach client against a real broker, and without one."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest

from slackwater.attach import Attachment, Corridor, MergeOrder, waiting
from slackwater.attach.outbox import Outbox, Outgoing
from slackwater.broker import EmbeddedBroker, free_port
from slackwater.clock import RunClock
from slackwater.codec import Codec, encode_lines
from slackwater.errors import InputError
from slackwater.events import Accepted, Finished, Heartbeat, Pause, Skipped, Started, Step
from slackwater.settings import RunSettings
from slackwater.topics import LEARNERS, MERGES
from slackwater.transport import make_topics

BOTH = ["learner-0", "learner-1"]
CLOCK = RunClock.real()
NOWHERE = RunSettings(bootstrap="127.0.0.1:9")


def attach(
    settings: RunSettings,
    learner: str = "learner-0",
    participants: list[str] | None = None,
    corridor: Corridor | None = None,
    **other: Any,
) -> Attachment:
    who = participants or [learner]
    return Attachment(settings, learner, who, corridor or Corridor(5, 1_000_000), CLOCK, **other)


def until(what: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def of(kind: type, said: list[Any]) -> list[Any]:
    return [event for event in said if isinstance(event, kind)]


@pytest.mark.kafka
def test_a_merge_is_promised_started_and_finished_by_all(
    settings: RunSettings, controller: Any
) -> None:
    with (
        attach(settings, "learner-0", BOTH) as first,
        attach(settings, "learner-1", BOTH) as second,
    ):
        until(lambda: first.summary().connected and second.summary().connected)
        controller.merge("m1", 10, BOTH)
        controller.hears(lambda said: len(of(Accepted, said)) == 2)
        for step in range(1, 11):
            orders = [one.on_step(step, 1.5, 64) for one in (first, second)]
        for one, order in zip((first, second), orders, strict=True):
            assert order is not None
            one.started(order)
            one.finished(order, seconds=0.5, bytes_exchanged=400, digest="d", note="warm")
    said = controller.hears(lambda said: len(of(Finished, said)) == 2)
    assert {(e.merge_id, e.step) for kind in (Started, Finished) for e in of(kind, said)} == {
        ("m1", 10)
    }
    assert {e.reason for e in of(Finished, said)} == {"score; warm"}
    assert [e.reports_sent for e in of(Heartbeat, said) if e.final] == [3, 3]
    last = [step for step in of(Step, said) if step.learner == "learner-0"][-1]
    assert (last.step, last.loss, last.steps_since_merge, last.tokens_since_merge) == (
        10,
        1.5,
        10,
        640,
    )


@pytest.mark.kafka
def test_a_promise_nobody_else_makes_holds_no_learner_up_for_good(
    settings: RunSettings,
    controller: Any,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(waiting, "SAY_AFTER_S", 0.0)
    caplog.set_level("INFO", "slackwater.attach")
    with attach(settings, "learner-0", BOTH, commit_timeout_s=0.2) as alone:
        until(lambda: alone.summary().connected)
        controller.merge("m1", 8, BOTH)
        until(lambda: alone.summary().accepted == 1)
        assert [alone.on_step(step, 1.0, 1) for step in range(1, 30)] == [None] * 29
    assert alone.summary().skipped == {"no_commit": 1}
    said = controller.hears(lambda said: of(Skipped, said))
    assert of(Skipped, said)[0].reason == "no_commit: no word from learner-1"
    told = [r.getMessage() for r in caplog.records]
    waits, on = [text for text in told if " waits " in text or " goes on after " in text]
    assert waits == "learner-0 waits for learner-1 to promise m1, 0.2 s at most"
    assert on.endswith(" s: without this merge")


@pytest.mark.kafka
def test_the_wait_ends_when_the_last_promise_comes(settings: RunSettings, controller: Any) -> None:
    with (
        attach(settings, "learner-0", BOTH, commit_timeout_s=30.0) as early,
        attach(settings, "learner-1", BOTH) as late,
    ):
        until(lambda: early.summary().connected and late.summary().connected)
        controller.merge("m1", 5, BOTH)
        until(lambda: early.summary().accepted == 1)
        order = next(filter(None, (early.on_step(step, 1.0, 1) for step in range(1, 6))))
    assert isinstance(order, MergeOrder)


@pytest.mark.kafka
def test_commands_for_others_are_not_answered_but_counted(
    settings: RunSettings, controller: Any
) -> None:
    with attach(settings) as learner:
        until(lambda: learner.summary().connected)
        controller.merge("m1", 9, ["learner-0"], group="other")
        controller.merge("m2", 9, ["learner-0"], run_id="run-0")
        controller.merge("m3", 9, ["learner-0"], deadline_us=time.time_ns() // 1000 - 1)
        controller.merge("m3", 9, ["learner-0"])
        controller.merge("m4", 2, ["learner-0"])
        controller.merge("m5", 9, ["learner-7"])
        until(lambda: sum(learner.summary().skipped.values()) == 3)
    assert learner.summary().ignored == {"foreign_group": 1, "foreign_run": 1, "duplicate": 1}
    assert learner.summary().skipped == {"expired": 1, "corridor": 1, "not_participant": 1}
    said = controller.hears(lambda said: len(of(Skipped, said)) == 3)
    assert {e.merge_id for e in of(Skipped, said)} == {"m3", "m4", "m5"}
    assert not of(Accepted, said)


@pytest.mark.kafka
def test_a_pause_on_the_topic_refuses_merges(settings: RunSettings, controller: Any) -> None:
    with attach(settings) as learner:
        until(lambda: learner.summary().connected)
        controller.send(Pause(run_id="run-1", at_us=CLOCK.now_us(), group="default"))
        controller.merge("m1", 9, ["learner-0"])
        until(lambda: learner.summary().skipped == {"paused": 1})


@pytest.mark.kafka
def test_heartbeats_fill_the_silence_and_the_last_says_so(
    settings: RunSettings, controller: Any
) -> None:
    with attach(settings):
        controller.hears(lambda said: len(of(Heartbeat, said)) >= 3)
    said = controller.hears(lambda said: any(e.final for e in of(Heartbeat, said)))
    assert [e.final for e in of(Heartbeat, said)].index(True) == len(of(Heartbeat, said)) - 1
    times = [e.at_us for e in said]
    assert times == sorted(times)


def test_without_a_broker_h_max_merges_and_what_was_not_sent_is_counted() -> None:
    with attach(NOWHERE, corridor=Corridor(5, 20)) as learner:
        orders = []
        for step in range(1, 51):
            order = learner.on_step(step, 1.0, 1)
            if order is not None:
                orders.append((order.merge_id, order.reason))
                learner.finished(order, seconds=0.1, bytes_exchanged=1)
    assert orders == [("hmax-20", "h_max"), ("hmax-40", "h_max")]
    summary = learner.summary()
    assert summary.connected is False
    # 50 steps, two reports, one final heartbeat.
    assert (summary.acked, summary.dropped) == (0, 53)


@pytest.mark.kafka
def test_a_broker_that_comes_late_dies_and_returns_misses_nothing(new_controller: Any) -> None:
    port = free_port()
    settings = RunSettings(bootstrap=f"127.0.0.1:{port}", run_id="run-1")
    with attach(settings) as learner:
        learner.on_step(1, 1.0, 1)
        with EmbeddedBroker(port) as broker:
            make_topics(broker.bootstrap)
            early = new_controller(settings)
            early.hears(lambda said: [e.step for e in of(Step, said)] == [1])
            early.merge("m1", 2, ["learner-0"])
            early.close()
        learner.on_step(3, 1.0, 1)
        until(lambda: not learner.summary().connected)
        learner.on_step(4, 1.0, 1)
        with EmbeddedBroker(port) as broker:
            make_topics(broker.bootstrap)
            later = new_controller(settings)
            later.merge("m2", 10, ["learner-0"])
            later.hears(lambda said: {e.step for e in of(Step, said)} >= {3, 4})
            later.hears(lambda said: "m2" in {e.merge_id for e in of(Accepted, said)})
            learner.close()
    assert learner.summary().dropped == 0


@pytest.mark.kafka
def test_tokens_count_from_a_merge_that_a_peer_called_to(
    settings: RunSettings, controller: Any
) -> None:
    with attach(settings, corridor=Corridor(5, 10)) as only:
        until(lambda: only.summary().connected)
        orders = [only.on_step(step, None, 64) for step in range(1, 11)]
        assert orders[-1] is not None
        only.finished(orders[-1], seconds=0.1, bytes_exchanged=8)
        for step in range(11, 16):
            only.on_step(step, None, 64)
        called = only.called(15)
        assert called is not None
        only.finished(called, seconds=0.1, bytes_exchanged=8)
        only.on_step(16, None, 64)
        controller.hears(
            lambda said: [s.tokens_since_merge for s in of(Step, said) if s.step == 16] == [64]
        )


def test_a_full_queue_drops_the_oldest_steps_and_no_merge_report() -> None:
    outbox = Outbox(CLOCK, limit=3)
    for number in range(5):
        step = Step(run_id="r", at_us=CLOCK.now_us(), learner="l", step=number, steps_since_merge=0)
        outbox.put(LEARNERS, step)
    report = Accepted(
        run_id="r", at_us=CLOCK.now_us(), group="g", learner="l", merge_id="m", step=9
    )
    outbox.put(MERGES, report)
    assert outbox.dropped == 2
    taken = list(outbox.take(2))
    assert [event.step for _, event in taken] == [9, 2]  # type: ignore[union-attr]
    outbox.put(LEARNERS, step)
    outbox.put_back(taken)
    assert outbox.dropped == 3
    assert [event.step for _, event in outbox.take(9)] == [9, 3, 4, 4]  # type: ignore[union-attr]


def test_what_was_sent_and_never_acknowledged_counts_as_dropped() -> None:
    learner = attach(NOWHERE)
    step = Step(run_id="r", at_us=CLOCK.now_us(), learner="l", step=1, steps_since_merge=0)
    flight = learner._link._flight
    flight.add(LEARNERS, step)
    learner.close()
    # The last heartbeat and the step.
    assert learner.summary().dropped == 2
    flight.landed = True
    assert learner.summary().dropped == 1


@pytest.mark.kafka
def test_what_comes_back_is_put_under_the_lock_of_those_who_put(
    settings: RunSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    held: list[bool] = []
    put_back = Outbox.put_back

    def watched(outbox: Outbox, events: Iterable[Outgoing]) -> None:
        held.append(learner._lock.locked())
        put_back(outbox, events)

    monkeypatch.setattr(Outbox, "put_back", watched)
    with attach(settings) as learner:
        until(lambda: learner.summary().connected)
    assert held == [True]
    assert learner.summary().dropped == 0


def test_stamps_do_not_go_back_when_the_wall_clock_does() -> None:
    wall = iter([1_800_000_000_000_000, 1_700_000_000_000_000, 1_800_000_000_000_005])
    outbox = Outbox(RunClock(0, 0, 1.0, wall_us=lambda: next(wall)), limit=1)
    stamps = [outbox.stamp_us() for _ in range(3)]
    assert stamps == [1_800_000_000_000_000] * 2 + [1_800_000_000_000_005]


def test_a_fault_in_the_client_does_not_reach_the_training_loop_and_is_said_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with attach(NOWHERE) as learner:
        for step in ("first", "second"):
            assert learner.on_step(step, 1.0, 1) is None  # type: ignore[arg-type]
        assert learner.on_step(2, 1.0, 1) is None
    assert learner.summary().errors == 2
    (said,) = [r for r in caplog.records if "on_step failed" in r.getMessage()]
    assert said.exc_info


@pytest.mark.parametrize("tokens", ["many", float("nan"), 60.5, -5, 2**70, None])
def test_tokens_that_cannot_be_are_counted_and_spoil_no_later_step(tokens: Any) -> None:
    with attach(NOWHERE) as learner:
        learner.on_step(1, 1.0, tokens)
        learner.on_step(2, 1.0, 7)
        steps = [event for _, event in learner._outbox.take(10) if isinstance(event, Step)]
    assert [(step.tokens, step.tokens_since_merge) for step in steps] == [(0, 0), (7, 7)]
    assert learner.summary().errors == 1


def test_what_no_reader_would_take_is_unknown_and_said_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with attach(NOWHERE) as learner:
        for step in (1, 2):
            learner.on_step(step, 1.0, 1, network_pressure=7.0, memory_pressure=0.5)
        learner.on_step(3, 1.0, 1, step_time_s=-1.0, update_norm=float("inf"))
        found = [event for _, event in learner._outbox.take(10) if isinstance(event, Step)]
    decoded = Codec(LEARNERS).decode(encode_lines(found))
    assert not decoded.bad
    assert [(e.network_pressure, e.memory_pressure) for e in decoded.events] == [
        (None, 0.5), (None, 0.5), (None, None),
    ]  # fmt: skip
    assert decoded.events[2].step_time_s is None
    assert learner.summary().errors == 3
    said = [r.getMessage() for r in caplog.records if "taken as unknown" in r.getMessage()]
    assert len(said) == 2
    assert "network_pressure is 7 at step 1; it must be from 0 to 1" in said[0]


def test_steps_that_count_anew_after_a_merge_are_dropped_and_said_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with attach(NOWHERE, corridor=Corridor(2, 4)) as learner:
        for step in (1, 2, 3, 4):
            if order := learner.on_step(step, 1.0, 1):
                learner.finished(order, seconds=0.1, bytes_exchanged=0)
        for step in (1, 2):
            learner.on_step(step, 1.0, 1)
        learner.on_step(5, 1.0, 1)
        found = [event for _, event in learner._outbox.take(20) if isinstance(event, Step)]
    assert [event.step for event in found] == [1, 2, 3, 4, 5]
    assert learner.summary().errors == 2
    assert caplog.text.count("step 1 comes after a merge at 4; steps count on from there") == 1


@pytest.mark.parametrize("tokens", [8.0, np.float64(8), np.float32(8), np.int64(8)])
def test_a_float_without_a_fraction_is_a_number_of_tokens(tokens: Any) -> None:
    with attach(NOWHERE) as learner:
        learner.on_step(tokens, 1.0, tokens)
        (event,) = [event for _, event in learner._outbox.take(10) if isinstance(event, Step)]
    (read,) = Codec(LEARNERS).decode(encode_lines([event])).events
    assert (read.step, read.tokens) == (8, 8)
    assert learner.summary().errors == 0


@pytest.mark.parametrize(
    ("given", "read", "errors"),
    [
        ({"seconds": np.float32(0.5), "bytes_exchanged": 32e6}, (0.5, 32_000_000, None), 0),
        ({"seconds": 1, "bytes_exchanged": np.int64(4), "parameters": 2.5}, (1.0, 4, None), 0),
        ({"seconds": -1.0, "bytes_exchanged": "4 MB", "digest": ""}, (0.0, 0, None), 2),
    ],
)
def test_the_end_of_a_merge_can_be_read_whatever_numbers_it_was_told_in(
    caplog: pytest.LogCaptureFixture, given: dict[str, Any], read: tuple[Any, ...], errors: int
) -> None:
    with attach(NOWHERE, corridor=Corridor(2, 4)) as learner:
        for step in range(1, 9):
            if order := learner.on_step(step, 1.0, 1):
                learner.finished(order, **given)
        found = [event for _, event in learner._outbox.take(10) if isinstance(event, Finished)]
    decoded = Codec(MERGES).decode(encode_lines(found))
    assert not decoded.bad
    assert [(e.seconds, e.bytes_exchanged, e.digest) for e in decoded.events] == [read] * 2
    assert learner.summary().errors == 2 * errors
    assert len([r for r in caplog.records if "counted as 0" in r.getMessage()]) == errors


def test_numbers_of_numpy_are_reported_as_numbers() -> None:
    codec = Codec(LEARNERS)
    with attach(NOWHERE) as learner:
        learner.on_step(np.int64(3), np.float32(0.5), np.int64(7))  # type: ignore[arg-type]
        (event,) = [event for _, event in learner._outbox.take(10) if isinstance(event, Step)]
    (read,) = codec.decode(encode_lines([event])).events
    assert (read.step, read.loss, read.tokens, read.tokens_since_merge) == (3, 0.5, 7, 7)
    assert learner.summary().errors == 0


def test_a_learner_outside_its_own_group_is_refused() -> None:
    with pytest.raises(InputError, match="not among the participants"):
        attach(NOWHERE, "learner-7", BOTH)


def test_the_attach_client_needs_no_torch() -> None:
    code = "import sys, slackwater.attach; print({'torch', 'typer', 'duckdb'} & set(sys.modules))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "set()"


@pytest.mark.kafka
def test_an_event_that_cannot_be_encoded_is_dropped_and_ends_no_link(
    settings: RunSettings, controller: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with attach(settings) as learner:
        until(lambda: learner.summary().connected)
        # No JSON has half of a surrogate pair.
        order = MergeOrder("m-\ud800", 3, 3, 0, "score", ("learner-0",))
        for _ in range(2):
            learner.started(order)
            learner.on_step(1, 1.0, 8)
        controller.hears(lambda said: len(of(Step, said)) == 2)
        controller.merge("m1", 9, ["learner-0"])
        until(lambda: learner.summary().accepted == 1)
    summary = learner.summary()
    assert (summary.dropped, summary.errors) == (2, 2)
    assert len([r for r in caplog.records if "cannot be encoded" in r.getMessage()]) == 1


def test_where_a_learner_goes_on_from_is_told_in_any_whole_numbers() -> None:
    with attach(NOWHERE) as learner:
        learner.joined(
            *(np.int64(20), 10.0, np.int32(2)),  # type: ignore[arg-type]
            retry_step=np.int64(30),  # type: ignore[arg-type]
            tokens=np.int64(160),  # type: ignore[arg-type]
        )
        assert type(learner.retry_step) is int
        learner.on_step(21, 1.0, 8)
        (event,) = [event for _, event in learner._outbox.take(10) if isinstance(event, Step)]
        (read,) = Codec(LEARNERS).decode(encode_lines([event])).events
        assert (read.steps_since_merge, read.epoch, read.tokens_since_merge) == (11, 2, 168)
        assert learner.errors == 0
        learner.joined(30, 20, "three")  # type: ignore[arg-type]
    assert learner.errors == 1


def test_the_first_step_after_joining_does_not_count_the_wait_for_peers() -> None:
    wall = iter(range(0, 10**9, 1_000_000))
    clock = RunClock(0, 0, 1.0, wall_us=lambda: next(wall))
    learner = Attachment(NOWHERE, "l", ["l"], Corridor(5, 100), clock)
    learner.joined(20, 10, 1)
    learner.on_step(21, 1.0, 8)
    learner.on_step(22, 1.0, 8)
    steps = [event for _, event in learner._outbox.take(10) if isinstance(event, Step)]
    assert [step.step_time_s for step in steps] == [None, 1.0]
