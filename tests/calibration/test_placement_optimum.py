"""The priced search equals the textbook table where enumeration cannot follow."""

import numba
import numpy as np
import numpy.typing as npt
import pytest

from calibration.placement import Grid
from calibration.placement.compiled import compiled


def table_optimum(grid: Grid, budget: int) -> float:
    """Budget times cells times gaps: the least cost to complete from each cell, merge by merge."""
    c, costs = grid.corridor, grid.costs_per_start.astype(float)
    value = np.where(c.cells - np.arange(len(costs)) <= c.max_gap_cells, 0.0, np.inf)
    for _ in range(budget):
        onward = np.append(costs + value, np.full(c.max_gap_cells, np.inf))
        reach = np.lib.stride_tricks.sliding_window_view(
            onward, c.max_gap_cells - c.min_gap_cells + 1
        )
        value = reach[c.min_gap_cells : c.min_gap_cells + len(costs)].min(axis=1)
    return float(value[0])


def traffic(kind: str, rng: np.random.Generator) -> npt.NDArray[np.float64]:
    if kind == "ties":
        return rng.integers(0, 2, 3000).astype(float)
    if kind == "idle":
        return np.where(np.arange(3000) % 700 < 20, 1.0, 0.0)
    if kind == "bursts":
        return rng.poisson(np.where(np.arange(3000) // 60 % 4 == 0, 9.0, 1.0)).astype(float)
    return rng.exponential(1.0, 3000) * rng.choice([1e-6, 1.0, 1e6], 3000)


@pytest.mark.parametrize("kind", ["ties", "idle", "bursts", "fractions"])
def test_priced_search_equals_the_table_at_every_kind_of_budget(kind: str) -> None:
    grid = Grid(traffic(kind, np.random.default_rng(6)), 16, 36, 144)
    fitting = grid.budgets()
    for budget in (fitting[0], fitting[0] + 1, 41, 60, fitting[-1] - 1, fitting[-1]):
        cost, starts = grid.optimum(budget)
        assert grid.feasible(starts)
        assert cost == pytest.approx(table_optimum(grid, budget), rel=1e-12)


def test_negative_costs_by_start_are_minimised_too() -> None:
    costs = np.random.default_rng(9).normal(-5, 10, 2985)
    grid = Grid.from_costs(costs, 16, 36, 144)
    for budget in (25, 60):
        assert grid.optimum(budget)[0] == pytest.approx(table_optimum(grid, budget), rel=1e-12)


def test_without_a_folder_for_machine_code_it_compiles_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = numba.njit

    def no_folder(*args: object, **options: object) -> object:
        if options.get("cache"):
            raise RuntimeError("cannot cache function: no locator available")
        return real(*args, **options)

    monkeypatch.setattr(numba, "njit", no_folder)

    @compiled
    def double(x: int) -> int:
        return 2 * x

    assert double(4) == 8
