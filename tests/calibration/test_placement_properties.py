"""Every answer equals plain enumeration, on any small grid."""

from collections import Counter

import numpy as np
import pytest
from every_schedule import Schedule, cheapest, cost, enumerate_schedules, small_grids
from hypothesis import given, settings
from hypothesis import strategies as st

from calibration.placement import Grid, degradation

EXAMPLES = settings(max_examples=60, deadline=None)


@EXAMPLES
@given(small_grids())
def test_count_and_budgets_are_those_of_enumeration(grid: Grid) -> None:
    counts = {k: len(enumerate_schedules(grid, k)) for k in range(grid.corridor.cells + 2)}
    assert {k: grid.count(k) for k in counts} == counts
    assert list(grid.budgets()) == [k for k, n in counts.items() if n]


@EXAMPLES
@given(small_grids())
def test_optimum_is_the_first_cheapest_schedule(grid: Grid) -> None:
    for budget in grid.budgets():
        least, first = cheapest(grid, enumerate_schedules(grid, budget))
        found, starts = grid.optimum(budget)
        assert (found, tuple(starts.tolist())) == (least, first)


@EXAMPLES
@given(small_grids(fractions=True))
def test_optimum_of_fractional_costs_is_the_least(grid: Grid) -> None:
    for budget in grid.budgets():
        least, _ = cheapest(grid, enumerate_schedules(grid, budget))
        found, starts = grid.optimum(budget)
        assert grid.feasible(starts)
        assert found == pytest.approx(least, rel=1e-12, abs=1e-12)


@EXAMPLES
@given(small_grids())
def test_least_cost_is_convex_in_the_budget(grid: Grid) -> None:
    least = [grid.optimum(budget)[0] for budget in grid.budgets()]
    assert (np.diff(least, n=2) >= 0).all()


@EXAMPLES
@given(small_grids(fractions=True))
def test_mean_and_variance_are_those_of_all_schedules(grid: Grid) -> None:
    for budget in grid.budgets():
        costs = np.array([cost(grid, s) for s in enumerate_schedules(grid, budget)])
        assert grid.mean(budget) == pytest.approx(costs.mean(), rel=1e-11, abs=1e-11)
        assert grid.variance(budget) == pytest.approx(costs.var(), rel=1e-9, abs=1e-9)


@EXAMPLES
@given(small_grids())
def test_law_of_the_cost_is_that_of_all_schedules(grid: Grid) -> None:
    for budget in grid.budgets():
        schedules = enumerate_schedules(grid, budget)
        tally = Counter(int(cost(grid, schedule)) for schedule in schedules)
        law = grid.pmf(budget)
        expected = [tally.get(int(c), 0) / len(schedules) for c in law.costs]
        assert law.probabilities == pytest.approx(expected, rel=1e-12, abs=1e-300)
        assert (law.costs[0], law.costs[-1]) == (min(tally), max(tally))


def slow_greedy(grid: Grid, budget: int) -> list[int]:
    """The same selection, asking the list of all schedules whether a choice can be completed."""
    left: list[Schedule] = enumerate_schedules(grid, budget)
    for start in np.argsort(grid.costs_per_start, kind="stable").tolist():
        left = [schedule for schedule in left if start in schedule] or left
    return list(left[0])


@EXAMPLES
@given(small_grids())
def test_greedy_takes_the_cheapest_windows_that_can_be_completed(grid: Grid) -> None:
    for budget in grid.budgets():
        found, starts = grid.greedy(budget)
        assert starts.tolist() == slow_greedy(grid, budget)
        assert found >= grid.optimum(budget)[0]


@EXAMPLES
@given(small_grids(), st.integers(0, 2**32 - 1))
def test_draws_are_feasible_schedules(grid: Grid, seed: int) -> None:
    for budget in grid.budgets():
        starts = grid.draw(budget, 20, np.random.default_rng(seed))
        assert {tuple(s) for s in starts.tolist()} <= set(enumerate_schedules(grid, budget))


@EXAMPLES
@given(small_grids(fractions=True), st.integers(0, 2**32 - 1), st.floats(0, 3))
def test_forecasts_optimum_costs_at_most_twice_budget_times_error_more(
    grid: Grid, seed: int, error: float
) -> None:
    c, rng = grid.corridor, np.random.default_rng(seed)
    wrong = grid.costs_per_start + rng.uniform(-error, error, len(grid.costs_per_start))
    if not len(wrong):
        return
    forecast = Grid.from_costs(wrong, c.window_cells, c.min_gap_cells, c.max_gap_cells)
    for budget in grid.budgets():
        result = degradation(grid, forecast, budget)
        assert result.window_error <= error + 1e-9
        assert -1e-9 <= result.excess_cost <= result.bound + 1e-9


@EXAMPLES
@given(small_grids())
def test_offline_calibrated_schedule_is_optimal_among_those_of_its_budget(grid: Grid) -> None:
    for budget in grid.budgets():
        least, _ = grid.optimum(budget)
        assert all(cost(grid, s) >= least for s in enumerate_schedules(grid, budget))


def test_forecast_bound_is_reached() -> None:
    truth = Grid.from_costs([0, 0, 0, 2, 0], 1, 3, 4)
    forecast = Grid.from_costs([1, 1, 1, 1, 1], 1, 3, 4)
    result = degradation(truth, forecast, 1)
    assert result.excess_cost == result.bound == 2


@EXAMPLES
@given(small_grids())
def test_costs_by_start_give_the_same_grid(grid: Grid) -> None:
    c = grid.corridor
    if not len(grid.costs_per_start):
        return
    same = Grid.from_costs(grid.costs_per_start, c.window_cells, c.min_gap_cells, c.max_gap_cells)
    assert same.corridor == c
    for budget in grid.budgets():
        assert same.optimum(budget)[0] == grid.optimum(budget)[0]
        assert same.mean(budget) == grid.mean(budget)
