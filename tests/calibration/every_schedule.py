"""Every feasible schedule of a small grid by plain enumeration, for fast answers to equal."""

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from calibration.placement import Grid

Schedule = tuple[int, ...]


def enumerate_schedules(grid: Grid, budget: int) -> list[Schedule]:
    """All of them, in lexicographic order, straight from the rule's words."""
    c = grid.corridor
    found: list[Schedule] = []

    def extend(chosen: Schedule) -> None:
        last = chosen[-1] if chosen else 0
        if len(chosen) == budget:
            ends_within = not chosen or last + c.window_cells <= c.cells
            if ends_within and c.cells - last <= c.max_gap_cells:
                found.append(chosen)
            return
        room = c.cells - last - (budget - len(chosen) - 1) * c.min_gap_cells
        for gap in range(c.min_gap_cells, min(c.max_gap_cells, room) + 1):
            extend((*chosen, last + gap))

    extend(())
    return found


def cost(grid: Grid, schedule: Schedule) -> float:
    return sum(float(grid.costs_per_start[start]) for start in schedule)


def cheapest(grid: Grid, schedules: list[Schedule]) -> tuple[float, Schedule]:
    return min((cost(grid, schedule), schedule) for schedule in schedules)


@st.composite
def small_grids(draw: st.DrawFn, *, fractions: bool = False) -> Grid:
    """Up to 16 cells, any corridor that can be asked for, overlapping windows included."""
    number = st.floats(0, 9) if fractions else st.integers(0, 5)
    requests = draw(st.lists(number, min_size=1, max_size=16))
    low = draw(st.integers(1, 6))
    high = draw(st.integers(low, low + 8))
    return Grid(requests, draw(st.integers(1, min(high, 5))), low, high)


def chi_square_z(counts: npt.ArrayLike, expected: npt.ArrayLike) -> float:
    """How many standard deviations Pearson's statistic lies above what chance gives."""
    seen, hoped = np.asarray(counts, dtype=float), np.asarray(expected, dtype=float)
    freedom = len(hoped) - 1
    statistic = ((seen - hoped) ** 2 / hoped).sum()
    return float((statistic - freedom) / (2 * freedom) ** 0.5)
