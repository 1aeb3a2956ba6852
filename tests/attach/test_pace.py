"""The step time of a trainer that does not measure it."""

from typing import Any

import pytest

from slackwater.attach import Attachment, Corridor
from slackwater.attach.pace import Pace, slower_of, step_seconds
from slackwater.clock import RunClock
from slackwater.events import Step
from slackwater.settings import RunSettings

ORIGIN_US = 1_800_000_000_000_000


def test_a_step_is_as_long_as_since_the_last_mark() -> None:
    assert step_seconds((1, 0), 2, 250_000) == 0.25


def test_a_trainer_that_reports_every_tenth_step_has_a_tenth_of_the_time() -> None:
    assert step_seconds((10, 0), 20, 1_000_000) == 0.1


@pytest.mark.parametrize(("step", "now_us"), [(5, 10), (4, 10), (6, 0), (6, -1)])
def test_without_progress_of_step_and_clock_the_time_is_unknown(step: int, now_us: int) -> None:
    assert step_seconds((5, 0), step, now_us) is None


def test_across_a_pause_the_time_is_unknown() -> None:
    pace = Pace()
    pace.resume(1, 0)
    pace.pause()
    assert pace.mark is None


@pytest.mark.kafka
def test_step_time_is_measured_in_event_time_and_leaves_out_merges(
    settings: RunSettings, controller: Any
) -> None:
    wall = [0]
    clock = RunClock(ORIGIN_US, 0, 20.0, wall_us=lambda: wall[0])
    with Attachment(settings, "solo", ["solo"], Corridor(1, 3), clock) as learner:
        for step in range(1, 6):
            wall[0] += 10_000
            order = learner.on_step(step, 1.0, 8)
            if order is not None:
                learner.started(order)
                wall[0] += 500_000
                learner.finished(order, seconds=10.0, bytes_exchanged=1)
        wall[0] += 10_000
        learner.on_step(6, 1.0, 8, step_time_s=0.7)
    said = controller.hears(lambda said: sum(isinstance(e, Step) for e in said) == 6)
    times = {e.step: e.step_time_s for e in said if isinstance(e, Step)}
    assert times == {1: None, 2: 0.2, 3: 0.2, 4: 0.2, 5: 0.2, 6: 0.7}


def test_the_time_of_slow_steps_is_forgotten_by_a_tenth_with_each_faster_one() -> None:
    assert slower_of(None, None) is None
    assert slower_of(None, 2.0) == 2.0
    assert slower_of(2.0, None) == 2.0
    assert slower_of(10.0, 1.0) == 9.0
    assert slower_of(1.0, 3.0) == 3.0
