"""Draws are uniform: each schedule as often as any other, on small grids and on long runs."""

from fractions import Fraction

import numpy as np
import pytest
from every_schedule import chi_square_z, enumerate_schedules

from calibration.placement import Corridor, Grid
from calibration.placement.uniform import whole_law

CORRIDORS = [
    (18, 2, 3, 7, 3),
    (24, 3, 3, 14, 3),
    (24, 3, 3, 14, 2),
    (20, 2, 2, 5, 7),
    (20, 2, 2, 5, 4),
    (12, 3, 4, 9, 1),
    (24, 4, 2, 9, 7),
    (40, 4, 5, 11, 5),
    (14, 1, 1, 4, 11),
    (26, 1, 1, 25, 3),
]


@pytest.mark.parametrize("corridor", CORRIDORS, ids=str)
def test_every_schedule_is_drawn_equally_often(corridor: tuple[int, int, int, int, int]) -> None:
    cells, window, low, high, budget = corridor
    grid = Grid([1] * cells, window, low, high)
    schedules = enumerate_schedules(grid, budget)
    place = {schedule: i for i, schedule in enumerate(schedules)}
    draws = 40 * len(schedules)
    seen = np.zeros(len(schedules))
    for schedule in grid.draw(budget, draws, np.random.default_rng(11)).tolist():
        seen[place[tuple(schedule)]] += 1
    assert abs(chi_square_z(seen, np.full(len(schedules), 40.0))) < 4


def gap_law(corridor: Corridor, budget: int) -> list[float]:
    """The exact law of the first gap by counting what each leaves: the law of every gap."""
    gaps = range(corridor.min_gap_cells, corridor.max_gap_cells + 1)
    rest = [
        Corridor(
            corridor.cells - gap,
            corridor.window_cells,
            corridor.min_gap_cells,
            corridor.max_gap_cells,
        ).count(budget - 1)
        for gap in gaps
    ]
    assert sum(rest) == corridor.count(budget)
    return [float(Fraction(count, sum(rest))) for count in rest]


@pytest.mark.parametrize("budget", [72, 100, 130, 180, 240, 275])
def test_gaps_of_long_schedules_follow_their_exact_law(budget: int) -> None:
    corridor, draws = Corridor(10_000, 16, 36, 144), 20_000
    starts = Grid([1] * 10_000, 16, 36, 144).draw(budget, draws, np.random.default_rng(5))
    law = np.array(gap_law(corridor, budget))
    often = law * draws > 5
    for gap in (starts[:, 0], starts[:, budget // 2] - starts[:, budget // 2 - 1]):
        seen = np.bincount(gap - 36, minlength=109)
        counts = np.append(seen[often], seen[~often].sum())
        expected = np.append(law[often], law[~often].sum() + 1e-12) * draws
        assert abs(chi_square_z(counts, expected)) < 4


def test_costs_of_draws_have_the_exact_mean_and_variance() -> None:
    rng = np.random.default_rng(3)
    grid, draws = Grid(rng.poisson(np.repeat([1, 9], 5000)), 16, 36, 144), 20_000
    mean, variance = grid.moments(140)
    assert grid.mean(140) == pytest.approx(mean, rel=1e-10)
    costs = grid.costs(grid.draw(140, draws, rng))
    assert abs(costs.mean() - mean) < 4 * (variance / draws) ** 0.5
    assert costs.var() == pytest.approx(variance, rel=4 * (2 / draws) ** 0.5)


def test_step_by_inversion_has_the_law_of_weights_times_completions() -> None:
    values, weights = np.array([0.5, 0.0, 2.0, 1.0]), np.array([0.4, 0.3, 0.2, 0.1])
    grid = (np.arange(20_000) + 0.5) / 20_000
    for offset in (-2, 0, 1, 3):
        law = np.array(
            [w * values[offset + x] if 0 <= offset + x < 4 else 0.0 for x, w in enumerate(weights)]
        )
        seen = np.bincount([whole_law(offset, values, weights, u) for u in grid], minlength=4)
        assert seen / len(grid) == pytest.approx(law / law.sum(), abs=1e-4)


def test_same_seed_gives_the_same_draws_and_moves_the_generator() -> None:
    grid = Grid([1] * 200, 4, 9, 30)
    rng = np.random.default_rng(1)
    first, second = grid.draw(10, 50, rng), grid.draw(10, 50, rng)
    again = grid.draw(10, 50, np.random.default_rng(1))
    assert (first == again).all()
    assert (first != second).any()


def test_day_of_traffic_fits() -> None:
    """172,800 cells and 2,400 merges: draws, optimum and mean agree with one another."""
    rng = np.random.default_rng(2)
    rate = 5.8 * (1 + np.sin(np.arange(172_800) / 500))
    grid = Grid(rng.poisson(rate), 16, 36, 144)
    starts = grid.draw(2400, 200, rng)
    assert grid.feasible(starts).all()
    costs = grid.costs(starts)
    mean, variance = grid.moments(2400)
    assert abs(costs.mean() - mean) < 4 * (variance / 200) ** 0.5
    least, best = grid.optimum(2400)
    assert grid.feasible(best)
    assert least == grid.costs(best) <= grid.greedy(2400)[0] < costs.min()
