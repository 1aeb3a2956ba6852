"""Commands that must not be obeyed, through a real broker: nobody merges, and all hear why."""

import time
from collections.abc import Callable
from typing import Any

import pytest

from slackwater.attach import Attachment, Corridor
from slackwater.clock import RunClock
from slackwater.events import Accepted, Skipped
from slackwater.settings import RunSettings

BOTH = ["learner-0", "learner-1"]


def attach(settings: RunSettings, learner: str = "learner-0") -> Attachment:
    return Attachment(settings, learner, BOTH, Corridor(30, 1000), RunClock.real())


def until(what: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def reports(said: list[Any], kind: type, merge_id: str) -> list[Any]:
    return [e for e in said if isinstance(e, kind) and e.merge_id == merge_id]


@pytest.mark.kafka
@pytest.mark.parametrize(
    ("at_step", "other", "reason"),
    [
        (10, {}, "late: this learner is at step 20"),
        (29, {}, "corridor: step 29 is outside 30 to 1000"),
        (1001, {}, "corridor: step 1001 is outside 30 to 1000"),
        (40, {"epoch": 3}, "epoch: the command is for 3, this learner is at 0"),
        (40, {"deadline_us": 1_700_000_000_000_000}, "expired: "),
        (None, {"moment_us": 1_700_000_000_000_000}, "late: the first step after the moment"),
    ],
)
def test_the_reason_of_a_refusal_is_on_the_merges_topic_and_nobody_merges(
    settings: RunSettings, controller: Any, at_step: int, other: dict[str, Any], reason: str
) -> None:
    with attach(settings) as learner:
        until(lambda: learner.summary().connected)
        assert [learner.on_step(step, 1.0, 1) for step in range(1, 21)] == [None] * 20
        controller.merge("m1", at_step, BOTH, **other)
        said = controller.hears(lambda said: reports(said, Skipped, "m1"))
        assert [learner.on_step(step, 1.0, 1) for step in range(21, 60)] == [None] * 39
    (skipped,) = reports(said, Skipped, "m1")
    assert skipped.reason.startswith(reason)
    assert learner.summary().skipped == {reason.partition(":")[0]: 1}
    assert not reports(controller.read(), Accepted, "m1")


@pytest.mark.kafka
def test_two_learners_obey_a_command_once_and_an_older_one_that_comes_after_it_never(
    settings: RunSettings, controller: Any
) -> None:
    with attach(settings) as first, attach(settings, "learner-1") as second:
        both = (first, second)
        until(lambda: all(one.summary().connected for one in both))
        now_us = time.time_ns() // 1000
        controller.merge("newer", 40, BOTH)
        controller.merge("newer", 40, BOTH)
        controller.merge("older", 35, BOTH, deadline_us=now_us + 30_000_000)
        controller.hears(lambda said: len(reports(said, Skipped, "older")) == 2)
        until(lambda: all(one.summary().ignored == {"duplicate": 1} for one in both))
        controller.hears(lambda said: len(reports(said, Accepted, "newer")) == 2)
        orders = [(one.learner, one.on_step(s, 1.0, 1)) for s in range(1, 41) for one in both]
        given = [(name, order) for name, order in orders if order is not None]
        assert [(name, order.merge_id, order.step) for name, order in given] == [
            ("learner-0", "newer", 40),
            ("learner-1", "newer", 40),
        ]
        for one, (_, order) in zip(both, given, strict=True):
            one.finished(order, seconds=0.1, bytes_exchanged=4)
        controller.merge("oldest", 38, BOTH)
        said = controller.hears(lambda said: len(reports(said, Skipped, "oldest")) == 2)
    assert {e.reason for e in reports(said, Skipped, "older")} == {
        "promised: already accepted newer"
    }
    assert {e.reason for e in reports(said, Skipped, "oldest")} == {
        "late: this learner is at step 40"
    }
    assert len(reports(said, Accepted, "newer")) == 2
