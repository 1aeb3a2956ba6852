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


def test_a_merge_shorter_than_a_step_may_have_gone_on_behind_it() -> None:
    short = [report(Started, AT + 0.1), report(Finished, AT + 0.9)]
    assert reachable(short, AT + 3) == AT + 3 + 1


def test_the_next_step_tells_more_than_the_merge() -> None:
    stood = [report(Started, AT + 0.5), report(Finished, AT + 60)]
    (made,) = steps("a", 1, last_merge=AT, first=AT + 1)
    after = msgspec.structs.replace(made, at_us=T0 + (AT + 62) * STEP_US)
    assert reachable([*stood, after], AT + 62) == reachable([after], AT + 62) == AT + 2
