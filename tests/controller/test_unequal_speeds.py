"""Learners of unequal speed are commanded to a moment, equal ones to a step."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from unequal import Race, Racer
from worlds import T0, engine

from controller.learners import LearnerState
from controller.policies import POLICIES
from controller.settings import ControllerSettings
from controller.view import timing_of

FAST_US = 50_000


def race(ratio: float, ticks: int = 150, policy: str = "fixed_h", **other: object) -> Race:
    made = engine(policy, **{"expect_learners": 2, "fixed_steps": 250, **other})
    return Race(made, {"a": FAST_US, "b": round(ratio * FAST_US)}).run(ticks)


def test_learners_of_one_speed_are_commanded_to_one_step() -> None:
    found = race(1.0)
    assert len(found.merges) == 2
    assert {c.moment_us for c in found.commands} == {None}
    assert all(racer.gaps == [250] * len(found.merges) for racer in found.racers)


def test_learners_of_unequal_speed_merge_at_their_own_steps_and_hardly_wait() -> None:
    found = race(2.0)
    assert len(found.merges) == 2
    assert found.refused == []
    assert {c.at_step for c in found.commands} == {None}
    for merge_id, came_us in found.merges:
        moment_us = next(c.moment_us for c in found.commands if c.merge_id == merge_id)
        assert moment_us is not None
        # The one half a step of its own later, the other at most a whole one.
        assert all(0 <= us - moment_us <= 2 * FAST_US for us in came_us.values())
    fast, slow = found.racers
    assert set(fast.gaps) == {250}
    assert all(124 <= gap <= 126 for gap in slow.gaps)
    merges = [d for d in found.decisions if d.action == "merge"]
    assert [(d.at_step, d.moment_us) for d in merges] == [
        (None, c.moment_us) for c in found.commands
    ]


def test_the_spread_that_is_allowed_is_a_setting() -> None:
    assert race(1.2, 60).commands[0].moment_us is None
    assert race(1.2, 60, step_time_spread=0.1).commands[0].moment_us is not None


@pytest.mark.parametrize(("steps", "apart"), [((400, 3), True), ((400, 301), False)])
def test_one_that_began_much_later_is_commanded_to_a_moment_too(
    steps: tuple[int, int], apart: bool
) -> None:
    found = timing_of({str(step): standing(step) for step in steps}, 0, 1.0, ControllerSettings())
    assert found is not None
    assert (found.leader_us is not None) == apart
    # One step for both would be waited for as long as the one is behind the other.
    assert found.least_gap_steps == (3 + 35 if apart else 400 + 35)


def standing(step: int) -> LearnerState:
    """A learner of 30 ms a step that stands there at time 0, before its first merge."""
    state = LearnerState(step, 0, 0, 0, 0)
    state.step_time.update(0.03, 1.0)
    return state


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(
    policy=st.sampled_from(sorted(POLICIES)),
    ratio=st.floats(1.3, 3.5),
    lead_s=st.sampled_from([0.0, 1.0, 4.0]),
)
def test_gaps_of_both_lie_in_the_corridor_and_all_merges_are_made(
    policy: str, ratio: float, lead_s: float
) -> None:
    found = race(ratio, 300, policy, command_lead_s=lead_s)
    assert found.merges
    assert {reason.partition(":")[0] for reason in found.refused} <= {"promised"}
    for racer in found.racers:
        assert all(100 <= gap <= 400 for gap in racer.gaps), racer.gaps


def test_h_max_is_that_of_the_faster_one() -> None:
    found = race(2.0, 200, policy="pressure_gate", pressure_threshold=0.0, fallback="h_max")
    assert {c.reason for c in found.commands} == {"h_max"}
    fast, slow = found.racers
    assert set(fast.gaps) == {400}
    assert all(199 <= gap <= 201 for gap in slow.gaps)


def test_after_h_max_was_in_vain_nothing_is_commanded_before_the_h_min_of_the_slowest() -> None:
    # Four times as slow would be H_max / H_min.
    found = race(8.0, 250)
    (_, came_us), *_ = found.merges
    overdue = [c for c in found.commands if c.reason == "h_max_overdue"]
    assert overdue
    # At its first H_max the faster one stands for the slower in any case.
    assert found.commands[0].reason == "h_max"
    h_min_us = T0 + 100 * 8 * FAST_US
    assert all((c.moment_us or 0) > h_min_us - 8 * FAST_US for c in overdue)
    assert max(came_us.values()) - min(came_us.values()) <= 8 * FAST_US


def test_a_moment_leaves_the_lead_and_waits_for_the_h_min_of_the_slower() -> None:
    found = race(2.0, policy="adaptive_tokens", tokens_target=1.0, command_lead_s=2.0)
    assert found.commands
    assert all((c.moment_us or 0) - c.at_us >= 2_000_000 for c in found.commands)
    # The policy wants to merge at any time.
    fast, slow = found.racers
    assert all(100 <= gap <= 104 for gap in slow.gaps), slow.gaps
    assert all(199 <= gap <= 208 for gap in fast.gaps), fast.gaps


class Stalling(Race):
    """Now and then a learner stands still for a second."""

    rng = random.Random(3)

    def _plan(self, us: int, racer: Racer | None) -> None:
        stalls = racer is not None and self.rng.random() < 0.02
        super()._plan(us + 1_200_000 if stalls else us, racer)


def test_a_merge_of_learners_that_stall_in_turns_is_one_interval_of_the_switchback() -> None:
    made = engine("slack", expect_learners=2, switchback="uniform", step_time_spread=0.1)
    found = Stalling(made, {"a": FAST_US, "b": round(1.05 * FAST_US)}).run(900)
    leaders = {d.moment_us is None for d in found.decisions if d.action == "merge"}
    assert leaders == {False}
    assert len(found.merges) > 5
    numbers = [d.interval_number for d in found.decisions if d.interval_number is not None]
    assert numbers == sorted(numbers)
    assert max(numbers) in {len(found.merges), len(found.merges) - 1}
    assert set(numbers) == set(range(max(numbers) + 1))
