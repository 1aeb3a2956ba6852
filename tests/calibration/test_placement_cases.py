"""Known schedules with known answers, and what users may not ask."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calibration.placement import Grid
from slackwater.errors import InputError

CASES = json.loads(Path(__file__).with_name("data").joinpath("placement.json").read_text())
POSSIBLE = [case for case in CASES if case["count"]]
IMPOSSIBLE = [case for case in CASES if not case["count"]]
ASKS = ("optimum", "greedy", "mean", "variance", "pmf")


def grid_of(case: dict[str, Any]) -> Grid:
    return Grid(case["requests_per_cell"], *case["corridor"])


def name(case: dict[str, Any]) -> str:
    return str(case["name"])


@pytest.mark.parametrize("case", POSSIBLE, ids=name)
def test_case_has_its_known_answers(case: dict[str, Any]) -> None:
    grid, budget = grid_of(case), case["budget"]
    assert grid.count(budget) == case["count"]
    cost, starts = grid.optimum(budget)
    assert cost == case["optimum"]
    assert starts.tolist() == case["optimal"][0]
    assert grid.mean(budget) == pytest.approx(case["mean"], rel=1e-12)
    assert grid.variance(budget) == pytest.approx(case["variance"], rel=1e-10, abs=1e-10)
    law = grid.pmf(budget)
    assert law.costs[0] == case["optimum"]
    assert law.probabilities[0] == pytest.approx(case["at_optimum"], rel=1e-12)


@pytest.mark.parametrize("case", POSSIBLE, ids=name)
def test_cases_draws_keep_the_corridor_and_the_mean(case: dict[str, Any]) -> None:
    grid, budget = grid_of(case), case["budget"]
    starts = grid.draw(budget, 4000, np.random.default_rng(7))
    assert starts.shape == (4000, budget)
    assert grid.feasible(starts).all()
    error = math.sqrt(case["variance"] / 4000)
    assert abs(grid.costs(starts).mean() - case["mean"]) <= 4 * error


@pytest.mark.parametrize("case", IMPOSSIBLE, ids=name)
def test_infeasible_budget_names_the_smallest_and_largest_that_fit(case: dict[str, Any]) -> None:
    grid, budget = grid_of(case), case["budget"]
    fitting = grid.budgets()
    assert grid.count(budget) == 0
    assert grid.count(fitting[0]) > 0
    assert grid.count(fitting[-1]) > 0
    words = f"smallest that fits is {fitting[0]}, the largest {fitting[-1]}"
    for ask in ASKS:
        with pytest.raises(InputError, match=words):
            getattr(grid, ask)(budget)
    with pytest.raises(InputError, match=words):
        grid.draw(budget, 10, np.random.default_rng(0))


def test_run_that_no_budget_fits_says_so() -> None:
    grid = Grid([1] * 25, 6, 10, 10)
    assert len(grid.budgets()) == 0
    with pytest.raises(InputError, match="no budget fits 25 cells"):
        grid.optimum(2)


@pytest.mark.parametrize(
    ("requests", "corridor", "words"),
    [
        ([], (1, 1, 1), "at least one number"),
        ([[1, 2]], (1, 1, 1), "shape"),
        ([1, -2, 3], (1, 1, 1), "negative"),
        ([1, float("nan")], (1, 1, 1), r"requests_per_cell\[1\] is nan"),
        ([1, float("inf")], (1, 1, 1), "finite"),
        (["many"], (1, 1, 1), "list of numbers"),
        ([1, 2, 3], (1, 3, 2), "corridor is empty"),
        ([1, 2, 3], (3, 1, 2), "window_cells 3 exceeds max_gap_cells 2"),
        ([1, 2, 3], (1, 0, 2), "min_gap_cells is 0"),
        ([1, 2, 3], (0, 1, 2), "window_cells is 0"),
        ([1, 2, 3], (1, 1.5, 2), "whole number"),
    ],
)
def test_grid_that_cannot_be_is_refused(requests: Any, corridor: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        Grid(requests, *corridor)


def test_wrong_budgets_draws_and_starts_are_refused() -> None:
    grid = Grid([1] * 10, 2, 3, 5)
    with pytest.raises(InputError, match="whole number"):
        grid.count(2.5)
    with pytest.raises(InputError, match="does not fit"):
        grid.draw(-1, 10, np.random.default_rng(0))
    with pytest.raises(InputError, match="draws is -1"):
        grid.draw(2, -1, np.random.default_rng(0))
    with pytest.raises(InputError, match="within 0 to 8"):
        grid.costs([3, 9])


def test_short_run_may_go_without_a_merge() -> None:
    grid = Grid([1, 2], 3, 4, 6)
    assert list(grid.budgets()) == [0]
    assert grid.count(0) == 1
    cost, starts = grid.optimum(0)
    assert (cost, starts.tolist()) == (0, [])
    assert grid.greedy(0)[0] == 0
    assert grid.moments(0) == (0.0, 0.0)
    assert grid.pmf(0).probabilities.tolist() == [1.0]
    assert grid.draw(0, 3, np.random.default_rng(0)).shape == (3, 0)


def test_law_needs_whole_costs_and_a_table_that_fits() -> None:
    with pytest.raises(InputError, match="whole-number costs"):
        Grid([0.5] * 10, 2, 3, 5).pmf(2)
    big = Grid(np.arange(20_000) % 50, 16, 36, 144)
    with pytest.raises(InputError, match="draw schedules"):
        big.pmf(300)


def test_grid_keeps_its_own_costs() -> None:
    requests = np.ones(10)
    grid = Grid(requests, 2, 3, 5)
    requests[:] = 9
    assert grid.optimum(2)[0] == 4
    with pytest.raises(ValueError, match="read-only"):
        grid.costs_per_start[0] = 1
