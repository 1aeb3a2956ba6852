"""A merge that is commanded to a moment: each learner at a step of its own, in its own corridor."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from protocol_words import ABOUT, BOTH, NOW_US, Learner, command, skipped

from slackwater.attach import Corridor, MergeOrder
from slackwater.attach.protocol import Await
from slackwater.events import Accepted

STEP_US = 100_000
MOMENT_US = NOW_US + 1_050_000
LATER_US = NOW_US + 60_000_000
TO_MOMENT = command("m1", None, moment_us=MOMENT_US, deadline_us=LATER_US)


def told(learner: Learner, merge_id: str, moment_us: int, **other: object) -> None:
    fields = {"deadline_us": LATER_US, **other}
    learner.told(merge_id, None, moment_us=moment_us, **fields)


def hears(learner: Learner, merge_id: str, moment_us: int) -> None:
    """Both promise; each says the step at which it stands."""
    for step, name in enumerate(BOTH):
        learner.heard(
            Accepted(**ABOUT, learner=name, merge_id=merge_id, step=step, moment_us=moment_us)  # type: ignore[arg-type]
        )


def orders(learner: Learner, last: int, step_us: int = STEP_US) -> list[MergeOrder | Await]:
    """What comes of the steps up to `last`, each of so many microseconds."""
    steps = range(learner.step + 1, last + 1)
    found = (learner.at_step(step, NOW_US + step * step_us) for step in steps)
    return [order for order in found if order is not None]


@pytest.mark.parametrize(("step_us", "step"), [(100_000, 11), (200_000, 6), (150_000, 7)])
def test_a_learner_merges_at_its_first_step_at_or_after_the_moment(step_us: int, step: int) -> None:
    learner = Learner()
    told(learner, "m1", MOMENT_US)
    hears(learner, "m1", MOMENT_US)
    (order,) = orders(learner, step, step_us)
    assert isinstance(order, MergeOrder)
    assert (order.step, order.moment_us, order.meeting) == (step, MOMENT_US, "m1 after 0 merges")
    assert learner.said == [("accepted", "m1", 0, "score")]


def test_before_its_h_min_it_waits_for_its_own_steps() -> None:
    learner = Learner(Corridor(15, 20))
    told(learner, "m1", MOMENT_US)
    hears(learner, "m1", MOMENT_US)
    (order,) = orders(learner, 15)
    assert isinstance(order, MergeOrder)
    assert (order.step, order.merge_id) == (15, "m1")


def test_at_its_h_max_it_comes_to_the_commanded_merge_before_the_moment() -> None:
    learner = Learner(Corridor(2, 8))
    told(learner, "m1", MOMENT_US)
    hears(learner, "m1", MOMENT_US)
    (order,) = orders(learner, 8)
    assert isinstance(order, MergeOrder)
    assert (order.step, order.merge_id, order.forced) == (8, "m1", False)


def test_promises_to_another_moment_or_to_a_step_do_not_commit() -> None:
    learner = Learner()
    told(learner, "m1", MOMENT_US)
    hears(learner, "m1", MOMENT_US + 1)
    learner.hears_accepts("m1", 0)
    assert orders(learner, 11) == [Await("m1")]
    assert learner.at_step(11, MOMENT_US + 1, waited=True) is None
    assert learner.last_reason == "no_commit"


def test_a_command_is_late_once_its_step_has_ended_and_not_before() -> None:
    learner = Learner()
    orders(learner, 10)
    learner.command(TO_MOMENT, MOMENT_US + 20_000)
    assert learner.said[-1][0] == "accepted"

    late = Learner()
    orders(late, 11)
    late.command(TO_MOMENT, MOMENT_US + 70_000)
    assert late.said[-1][:3] == ("skipped", "m1", 11)
    assert late.last_reason == "late"


def test_a_command_that_names_neither_step_nor_moment_is_refused() -> None:
    learner = Learner()
    learner.told("m1", None)
    assert learner.last_reason == "unclear"


def test_a_deadline_ends_a_promise_to_a_moment_too() -> None:
    learner = Learner()
    told(learner, "m1", MOMENT_US, deadline_us=MOMENT_US + 10_000)
    hears(learner, "m1", MOMENT_US)
    assert orders(learner, 11) == []
    assert learner.last_reason == "expired"


def test_a_peers_refusal_ends_a_promise_to_a_moment_at_once() -> None:
    learner = Learner()
    told(learner, "m1", MOMENT_US)
    learner.heard(skipped("m1", 3, "learner-1"))
    assert learner.last_reason == "peer_skipped"
    assert orders(learner, 19) == []


@given(
    commands=st.lists(
        st.tuples(st.integers(0, 120), st.integers(-3_000_000, 5_000_000), st.booleans()),
        max_size=30,
    ),
    step_us=st.integers(1_000, 900_000),
)
def test_gaps_stay_in_its_own_corridor_whatever_moments_are_commanded(
    commands: list[tuple[int, int, bool]], step_us: int
) -> None:
    learner = Learner(Corridor(5, 20))
    starts = [0]
    by_step: dict[int, list[tuple[str, int, bool]]] = {}
    for number, (sent, ahead_us, all_accept) in enumerate(commands):
        moment_us = NOW_US + sent * step_us + ahead_us
        by_step.setdefault(sent, []).append((f"m{number}", moment_us, all_accept))
    for step in range(1, 121):
        for merge_id, moment_us, all_accept in by_step.get(step - 1, []):
            told(learner, merge_id, moment_us, deadline_us=NOW_US + 200 * step_us)
            if all_accept:
                hears(learner, merge_id, moment_us)
        now_us = NOW_US + step * step_us
        found = learner.at_step(step, now_us)
        if isinstance(found, Await):
            found = learner.at_step(step, now_us, waited=True)
        if isinstance(found, MergeOrder):
            starts.append(step)
            learner.finished(found)
    gaps = [b - a for a, b in itertools.pairwise(starts)]
    assert all(5 <= gap <= 20 for gap in gaps)
    assert 120 - starts[-1] < 20


@pytest.mark.parametrize(
    ("step_time_s", "moment_s", "deadline_s", "reason"),
    [
        (None, 3_601, 3_602, "far: its moment is 3601 s ahead, 3600 s are allowed here"),
        (0.1, 61, 62, "far: its moment is 61 s ahead, 60 s are allowed here"),
        (0.1, 2, 3_601, "far: its deadline is 3601 s ahead, 3600 s are allowed here"),
        (10.0, 401, 402, "far: its moment is 401 s ahead, 400 s are allowed here"),
        (10.0, None, 3_601, "far: its deadline is 3601 s ahead, 3600 s are allowed here"),
    ],
)
def test_a_command_too_far_ahead_is_refused_and_the_next_one_is_not(
    step_time_s: float | None, moment_s: int | None, deadline_s: int, reason: str
) -> None:
    learner = Learner()
    learner.step_time_s = step_time_s
    moment_us = None if moment_s is None else NOW_US + moment_s * 1_000_000
    at_step = 10 if moment_s is None else None
    far_us = NOW_US + deadline_s * 1_000_000
    learner.told("far", at_step, moment_us=moment_us, deadline_us=far_us)
    told(learner, "m1", MOMENT_US)
    assert [words[:2] for words in learner.said] == [("skipped", "far"), ("accepted", "m1")]
    assert learner.said[0][3] == reason


def test_a_moment_before_h_max_is_never_too_far() -> None:
    learner = Learner()
    learner.step_time_s = 40.0
    h_max_us = NOW_US + 20 * 40_000_000
    told(learner, "m1", h_max_us, deadline_us=h_max_us + 10_000_000)
    assert learner.said[0][0] == "accepted"
