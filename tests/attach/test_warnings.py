"""A wrong name in the environment is said once, not found out by looking."""

import logging
import time
from collections.abc import Callable
from typing import Any

import pytest

from slackwater.attach import Attachment, Corridor
from slackwater.clock import RunClock
from slackwater.events import Accepted, Pause, Resume, Skipped, Started
from slackwater.settings import RunSettings
from slackwater.topics import MERGES
from slackwater.transport import BatchProducer

BOTH = ["learner-0", "learner-1"]


def attach(settings: RunSettings, **other: Any) -> Attachment:
    corridor = Corridor(5, other.pop("max_gap_steps", 1000))
    return Attachment(settings, "learner-0", BOTH, corridor, RunClock.real(), **other)


def until(what: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_a_merge_that_nobody_commanded_asks_once_for_the_stream(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING, "slackwater.attach")
    with attach(RunSettings(bootstrap="127.0.0.1:9", run_id="mine"), max_gap_steps=10) as alone:
        for step in range(1, 31):
            if order := alone.on_step(step, 1.0, 1):
                alone.finished(order, seconds=0.1, bytes_exchanged=1)
    said = [r.getMessage() for r in caplog.records if "H_max" in r.getMessage()]
    assert len(said) == 1
    assert "step 10; no command has come for run mine, group default" in said[0]


@pytest.mark.parametrize("joined_at", [3, 7])
def test_who_resumes_after_h_min_is_not_told_before_the_next_gap_that_nobody_commands(
    caplog: pytest.LogCaptureFixture, joined_at: int
) -> None:
    with attach(RunSettings(bootstrap="127.0.0.1:9"), max_gap_steps=10) as alone:
        alone.joined(joined_at, 0, 0)
        for step in range(joined_at + 1, 31):
            if order := alone.on_step(step, 1.0, 1):
                alone.finished(order, seconds=0.1, bytes_exchanged=1)
    (said,) = [r.getMessage() for r in caplog.records if "no command has come" in r.getMessage()]
    assert f"at step {10 if joined_at < 5 else 20};" in said


@pytest.mark.kafka
def test_a_group_that_was_paused_is_not_told_that_nobody_commands(
    settings: RunSettings, controller: Any, caplog: pytest.LogCaptureFixture
) -> None:
    about: dict[str, Any] = {"run_id": "run-1", "group": "default"}
    caplog.set_level(logging.INFO, "slackwater.attach")
    with attach(settings, max_gap_steps=10) as learner:
        until(lambda: learner.summary().connected)
        controller.send(Pause(at_us=time.time_ns() // 1000, **about))
        until(lambda: learner._protocol.paused)
        for step in range(1, 18):
            if order := learner.on_step(step, 1.0, 1):
                learner.finished(order, seconds=0.1, bytes_exchanged=1)
        controller.send(Resume(at_us=time.time_ns() // 1000, **about))
        until(lambda: not learner._protocol.paused)
        assert [learner.on_step(step, 1.0, 1) is None for step in (18, 19, 20)] == [
            True,
            True,
            False,
        ]
    assert "no command has come" not in caplog.text
    said = [r.getMessage() for r in caplog.records if "the group" in r.getMessage()]
    assert said == [
        "learner-0: the group pauses: H_max alone calls for merges",
        "learner-0: the group goes on",
    ]


@pytest.mark.kafka
def test_a_commanded_learner_is_not_told_that_nobody_commands(
    settings: RunSettings, controller: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with attach(settings, max_gap_steps=10) as learner:
        until(lambda: learner.summary().connected)
        controller.merge("m1", 2000, BOTH)
        until(lambda: learner.summary().skipped == {"corridor": 1})
        assert [learner.on_step(step, 1.0, 1) is None for step in (9, 10)] == [True, False]
    assert "no command has come" not in caplog.text


@pytest.mark.kafka
def test_a_peer_of_another_run_is_named_once_and_others_not_at_all(
    settings: RunSettings, caplog: pytest.LogCaptureFixture
) -> None:
    producer = BatchProducer(settings.bootstrap, settings.prefix)
    with attach(settings) as learner:
        until(lambda: learner.summary().connected)
        for name in ("learner-1", "learner-1", "stranger"):
            report = Started(
                run_id="theirs",
                at_us=time.time_ns() // 1000,
                group="default",
                learner=name,
                merge_id="m1",
                step=3,
            )
            producer.send(MERGES, settings.group, report)
        assert producer.flush()
        until(lambda: learner.summary().ignored == {"foreign_run": 2})
    producer.close()
    said = [r.getMessage() for r in caplog.records if "ignored" in r.getMessage()]
    assert said == [
        "merge reports of learner-1 of run theirs, group default are not for run run-1, "
        "group default; ignored"
    ]


@pytest.mark.kafka
def test_another_group_of_the_run_is_no_cause_for_a_warning_but_a_hint_where_one_is_due(
    settings: RunSettings, controller: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with attach(settings, max_gap_steps=10) as learner:
        until(lambda: learner.summary().connected)
        for number in range(2):
            controller.merge(f"m{number}", 9, ["learner-0"], group="b")
        until(lambda: learner.summary().ignored == {"foreign_group": 2})
        warnings = [r for r in caplog.records if r.name == "slackwater.attach"]
        assert not [r for r in warnings if r.levelno >= logging.WARNING]
        assert learner.on_step(1, 1.0, 1) is None
        assert learner.on_step(10, 1.0, 1) is not None
    said = [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]
    assert [text for text in said if text.endswith("Commands have come for group b.")]


@pytest.mark.kafka
def test_a_learner_that_leaves_takes_its_promise_back(
    settings: RunSettings, controller: Any
) -> None:
    with attach(settings) as learner:
        until(lambda: learner.summary().connected)
        controller.merge("m1", 50, BOTH)
        until(lambda: learner.summary().accepted == 1)
    said = controller.hears(lambda said: any(isinstance(e, Skipped) for e in said))
    assert [e.merge_id for e in said if isinstance(e, Accepted)] == ["m1"]
    assert [e.reason for e in said if isinstance(e, Skipped)] == [
        "left: the learner ended before that step"
    ]


def test_a_merge_that_the_trainer_left_in_the_middle_is_reported_skipped() -> None:
    with attach(RunSettings(bootstrap="127.0.0.1:9"), max_gap_steps=10) as learner:
        assert learner.on_step(10, 1.0, 1) is not None
    assert learner.summary().skipped == {"abandoned": 1}
