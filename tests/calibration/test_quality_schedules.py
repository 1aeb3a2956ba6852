"""The quality study compares moments, never budgets: its schedules, without any training."""

from itertools import pairwise

import pytest

from bench.schedules import BROKEN, H_FIXED, H_MAX, H_MIN, KEPT, Schedule, irregular, schedules
from slackwater.errors import InputError

BUDGET = 8


@pytest.fixture(scope="module")
def plans() -> list[dict[str, Schedule]]:
    return schedules(2, BUDGET)


def gaps(merges: Schedule) -> list[int]:
    return [b - a for a, b in pairwise([0, *merges])]


def test_every_arm_has_the_same_budget_but_the_one_that_merges_once(plans) -> None:
    for plan in plans:
        assert set(plan) == {*KEPT, *BROKEN}
        assert {arm: len(merges) for arm, merges in plan.items()} == {
            arm: 1 if arm == "one_at_end" else BUDGET for arm in plan
        }


def test_every_arm_trains_as_long_and_merges_last_at_the_end(plans) -> None:
    for plan in plans:
        for merges in plan.values():
            assert min(gaps(merges)) >= 1
            assert merges[-1] == BUDGET * H_FIXED


def test_bounded_arms_keep_the_corridor_and_the_others_leave_it(plans) -> None:
    for plan in plans:
        for arm in KEPT:
            assert H_MIN <= min(gaps(plan[arm])) <= max(gaps(plan[arm])) <= H_MAX, arm
        for arm in BROKEN:
            assert max(gaps(plan[arm])) > H_MAX, arm
        assert min(gaps(plan["over_h_max"])) == H_MIN


def test_seeds_have_irregular_and_slack_schedules_of_their_own(plans) -> None:
    first, second = plans
    for arm in ("irregular", "slack"):
        assert first[arm] != second[arm]
    assert first["fixed_h"] == second["fixed_h"]


@pytest.mark.parametrize("seed", range(50))
def test_any_irregular_schedule_keeps_the_corridor(seed: int) -> None:
    drawn = gaps(irregular(seed, 16))
    assert len(drawn) == 16
    assert H_MIN <= min(drawn) <= max(drawn) <= H_MAX


@pytest.mark.parametrize("budget", [0, -8, 12])
def test_a_budget_that_the_repeated_gaps_do_not_fill_is_refused(budget: int) -> None:
    with pytest.raises(InputError, match="multiple of 8"):
        schedules(1, budget)
