"""A merge that a learner stands still in brings it no step: commands count on none."""

from collections.abc import Iterable

import msgspec
import pytest
from worlds import STEP_US, T0, steps

from controller.learners import Learners
from controller.settings import ControllerSettings
from controller.view import timing_of
from slackwater.events import Finished, MergeReport, Skipped, Started, Step

AT, H_MIN = 40, 10
STEP_S = STEP_US / 1e6


def report(kind: type[MergeReport], after_steps: float) -> MergeReport:
    """One of learner `a`, so many step times after T0; it took its step `AT` `AT` after."""
    ended = {"seconds": 3.0, "bytes_exchanged": 4} if kind is Finished else {}
    at_us = T0 + round(after_steps * STEP_US)
    about = {"run_id": "r", "group": "default", "learner": "a", "step": AT}
    return kind(**about, at_us=at_us, merge_id="m1", **ended)


def reachable(events: Iterable[Step | MergeReport], after_steps: float, lead_s: float = 0.0) -> int:
    """The first step that a command may name so many step times after T0."""
    learners = Learners(H_MIN)
    for event in (*steps("a", AT), *events):
        if isinstance(event, Step):
            learners.observe_step(event)
        else:
            learners.observe_report(event)
    now_us = T0 + round(after_steps * STEP_US)
    timing = timing_of(learners.states, now_us, lead_s, ControllerSettings())
    assert timing is not None
    return timing.first_reachable_step


def behind(first: int, count: int) -> list[Step]:
    return steps("a", count, first=first)


@pytest.mark.parametrize("kind", [Finished, Skipped])
def test_no_step_is_counted_on_for_a_merge_that_a_learner_stood_in(kind: type[MergeReport]) -> None:
    stood = [report(Started, AT + 0.5), report(kind, AT + 60)]
    assert reachable(stood, AT + 60) == AT + 1
    assert reachable(stood, AT + 62.5, lead_s=4 * STEP_S) == AT + 1 + 7


def test_a_learner_that_goes_on_behind_its_merge_is_counted_on() -> None:
    during = [report(Started, AT + 0.5), *behind(AT + 1, 20), report(Finished, AT + 20.5)]
    assert reachable(during, AT + 22) == AT + 20 + 2 + 1


@pytest.mark.parametrize("took", [0.8, 1.4])
def test_a_merge_of_a_step_or_so_may_have_gone_on_behind_it(took: float) -> None:
    """Behind a merge one step may be slow; what was in fact stood is at most two steps then."""
    short = [report(Started, AT + 0.1), report(Finished, AT + 0.1 + took)]
    assert reachable(short, AT + 3) == AT + 3 + 1


def test_a_learner_that_waits_for_its_merge_at_last_is_not_counted_on() -> None:
    during = [report(Started, AT + 0.5), *behind(AT + 1, 5), report(Finished, AT + 60)]
    assert reachable(during, AT + 61) == AT + 5 + 1 + 1


def test_the_wait_for_the_others_before_a_short_merge_is_stood_too() -> None:
    waited = [report(Started, AT + 30), report(Finished, AT + 30.5)]
    assert reachable(waited, AT + 31.5) == AT + 1 + 1


def test_the_moment_of_unequal_learners_counts_on_no_step_of_a_merge_either() -> None:
    """The leader is at its H_max first; the moment is in the middle of the step that is named."""
    learners = Learners(H_MIN)
    for step in steps("a", AT):
        learners.observe_step(step)
    for kind, at in ((Started, AT + 0.5), (Finished, AT + 60)):
        learners.observe_report(report(kind, at))
    for slow in steps("b", 3):
        learners.observe_step(msgspec.structs.replace(slow, step_time_s=10 * STEP_S))
    now_us = T0 + (AT + 60) * STEP_US
    settings = ControllerSettings(min_gap_steps=H_MIN, max_gap_steps=50)
    timing = timing_of(learners.states, now_us, 0.0, settings)
    assert timing is not None
    assert timing.first_reachable_step == AT + 1
    assert timing.moment_us(AT + 1) == now_us + STEP_US // 2


def test_time_that_was_stood_is_no_step_time_of_one_that_tells_none() -> None:
    def told(number: int, at_steps: float) -> Step:
        at_us = T0 + round(at_steps * STEP_US)
        (made,) = steps("a", 1, first=number)
        return msgspec.structs.replace(made, at_us=at_us, step_time_s=None)

    learners = Learners(H_MIN)
    for number in range(1, AT + 1):
        learners.observe_step(told(number, number))
    for kind, at in ((Started, AT + 0.5), (Skipped, AT + 60)):
        learners.observe_report(report(kind, at))
    learners.observe_step(told(AT + 1, AT + 61))
    assert learners.states["a"].step_time.mean == pytest.approx(STEP_S)


def test_the_next_step_tells_more_than_the_merge() -> None:
    stood = [report(Started, AT + 0.5), report(Finished, AT + 60)]
    (made,) = steps("a", 1, last_merge=AT, first=AT + 1)
    after = msgspec.structs.replace(made, at_us=T0 + (AT + 62) * STEP_US)
    assert reachable([*stood, after], AT + 62) == reachable([after], AT + 62) == AT + 2
