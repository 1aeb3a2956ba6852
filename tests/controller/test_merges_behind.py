"""While a learner is in a merge nothing is commanded, also when that goes on behind its steps."""

from collections.abc import Iterable

import msgspec
import pytest
from worlds import STEP_US, T0, engine, run, steps

from controller.learners import Learners
from slackwater.events import Finished, Heartbeat, MergeReport, Skipped, Started, Step

AT, DELAY, H_MIN = 400, 60, 100


def report(kind: type[MergeReport], after_step: int, merge_id: str = f"hmax-{AT}") -> MergeReport:
    ended = {"seconds": 3.0, "bytes_exchanged": 4} if kind is Finished else {}
    about = {"run_id": "r", "group": "default", "learner": "a", "step": AT}
    return kind(**about, at_us=T0 + after_step * STEP_US + 1, merge_id=merge_id, **ended)


def step(number: int, reports: int | None = 1, since: int = 0) -> Step:
    made = steps("a", 1, last_merge=since, first=number)[0]
    return msgspec.structs.replace(made, reports_sent=reports)


def merging_after(events: Iterable[Step | Heartbeat | MergeReport]) -> bool:
    """Whether a learner that started the merge at step `AT` is in it after these events too."""
    learners = Learners(H_MIN)
    for event in (step(AT, 0), report(Started, AT), *events):
        match event:
            case Step():
                learners.observe_step(event)
            case Heartbeat():
                learners.observe_heartbeat(event)
            case MergeReport():
                learners.observe_report(event)
    return learners.merging(learners.states)


LEFT = Heartbeat(run_id="r", at_us=T0 + (AT + 1) * STEP_US, learner="a", final=True)


@pytest.mark.parametrize(
    ("events", "merging"),
    [
        pytest.param([], True, id="begun"),
        pytest.param([step(AT + 1), step(AT + DELAY)], True, id="behind-its-steps"),
        pytest.param([step(AT + 1, None)], True, id="does-not-count-its-reports"),
        pytest.param([report(Skipped, AT + 1, "m1")], True, id="another-was-refused"),
        pytest.param([step(AT + 9), report(Finished, AT + 9)], False, id="finished"),
        pytest.param([step(AT + 9), report(Skipped, AT + 9)], False, id="skipped"),
        pytest.param([step(AT + H_MIN - 1)], True, id="before-h-min"),
        pytest.param([step(AT + H_MIN)], False, id="its-end-was-lost"),
        pytest.param([step(AT + 9, 3, since=AT)], False, id="counts-from-it"),
        pytest.param([step(AT + 9, 0)], False, id="killed-and-came-back"),
        pytest.param([step(AT + 9, 3), step(AT + 10, 2)], False, id="killed-later"),
        pytest.param([step(AT - 90, None)], False, id="went-back"),
        pytest.param([LEFT, step(AT + 9)], False, id="left-and-came-back"),
    ],
)
def test_a_merge_goes_on_until_it_is_known_to_be_over(
    events: list[Step | Heartbeat | MergeReport], merging: bool
) -> None:
    assert merging_after(events) is merging


def test_nothing_is_commanded_to_learners_whose_merge_goes_on_behind_their_steps() -> None:
    """H_max is over all the while: their own merge there may yet come to nothing, and does."""
    made = engine("slack")
    before = run(made, [step(number, 0) for number in range(1, AT + 1)], AT * STEP_US / 1e6)
    (command,) = (command for _, command in before if command is not None)
    missed = report(Skipped, AT - 1, command.merge_id)
    behind = [step(number, 2) for number in range(AT + 1, AT + DELAY + 1)]
    ended = [step(number, 3) for number in range(AT + DELAY + 1, AT + DELAY + 20)]
    begun, over = report(Started, AT), report(Skipped, AT + DELAY)
    after = run(made, [missed, begun, *behind, over, *ended], (AT + DELAY + 20) * STEP_US / 1e6)
    until_us = T0 + (AT + DELAY) * STEP_US
    assert {d.reason for d, _ in after if d.at_us <= until_us} == {"merge_pending"}
    assert next(d.reason for d, _ in after if d.at_us > until_us) == "h_max_overdue"
