"""The quality study compares moments, never budgets: its schedules, without any training."""

from itertools import pairwise

import pytest

from bench.schedules import BROKEN, H_FIXED, H_MAX, H_MIN, KEPT, Schedule, drawn, schedules
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
        for arm in ("unbounded", "bunched"):
            assert min(gaps(plan[arm])) < H_MIN, arm


def test_seeds_have_irregular_and_slack_schedules_of_their_own(plans) -> None:
    first, second = plans
    for arm in ("irregular", "slack", "unbounded"):
        assert first[arm] != second[arm]
    assert first["fixed_h"] == second["fixed_h"]


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize(("least", "most"), [(H_MIN, H_MAX), (1, 16 * H_FIXED)])
def test_any_drawn_schedule_keeps_its_bounds(seed: int, least: int, most: int) -> None:
    found = gaps(drawn(seed, 16, least, most))
    assert len(found) == 16
    assert sum(found) == 16 * H_FIXED
    assert least <= min(found) <= max(found) <= most


@pytest.mark.parametrize("budget", [0, -8, 10])
def test_a_budget_that_whole_bursts_do_not_fill_is_refused(budget: int) -> None:
    with pytest.raises(InputError, match="multiple of 4"):
        schedules(1, budget)
