"""Grid: the one object through which the protocol asks about placement."""

from typing import Any, Self

import numpy as np
import numpy.typing as npt

from calibration.placement import greedy as greedy_selection
from calibration.placement import moments, pmf, uniform
from calibration.placement import optimum as priced_search
from calibration.placement.compiled import Floats, Ints
from calibration.placement.corridor import Corridor, whole
from calibration.placement.inclusion import inclusion
from calibration.placement.pmf import Pmf
from slackwater.errors import InputError

LARGEST_EXACT = 2**53


class Grid:
    """Windows on a grid of cells, what each would cost, and the schedules a corridor allows.

    A schedule is K start cells; feasible as `Corridor` says; its cost is the sum of its windows'.

    Args:
        requests_per_cell: requests, or weights, in each cell of the run: finite, not negative.
        window_cells: length of a merge's window, in cells.
        min_gap_cells: least distance of one start to the next, the first one's from cell 0.
        max_gap_cells: largest such distance, and from the last start to the end of the run.

    Raises:
        InputError: the requests or the corridor cannot be used; the message says which and why.

    >>> grid = Grid([1, 0, 2, 8, 0, 0, 3, 0, 1, 3], 2, 3, 5)
    >>> grid.count(2), grid.optimum(2)
    (6, (1, array([4, 7])))
    """

    def __init__(
        self,
        requests_per_cell: npt.ArrayLike,
        window_cells: int,
        min_gap_cells: int,
        max_gap_cells: int,
    ) -> None:
        requests = _numbers("requests_per_cell", requests_per_cell)
        if requests.min() < 0:
            msg = f"requests_per_cell holds {requests.min()}: counts cannot be negative"
            raise InputError(msg)
        self.corridor = Corridor(len(requests), window_cells, min_gap_cells, max_gap_cells)
        self._keep(_window_costs(requests, self.corridor.window_cells))

    @classmethod
    def from_costs(
        cls,
        costs_per_start: npt.ArrayLike,
        window_cells: int,
        min_gap_cells: int,
        max_gap_cells: int,
    ) -> Self:
        """A grid with its own cost for each start cell 0, 1, ..., cells - window_cells.

        The run is as long as its last window needs: len(costs_per_start) + window_cells - 1.
        For serving models whose windows cost more than the requests that arrive in them.
        """
        costs = _numbers("costs_per_start", costs_per_start)
        grid = cls.__new__(cls)
        cells = len(costs) + whole("window_cells", window_cells) - 1
        grid.corridor = Corridor(cells, window_cells, min_gap_cells, max_gap_cells)
        grid._keep(costs)
        return grid

    @classmethod
    def in_corridor(cls, corridor: Corridor, costs_per_start: npt.ArrayLike) -> "Grid":
        """The grid of a run in this corridor, with its own cost for each start cell."""
        gaps = (corridor.window_cells, corridor.min_gap_cells, corridor.max_gap_cells)
        return cls.from_costs(costs_per_start, *gaps)

    def _keep(self, costs: Ints | Floats) -> None:
        costs.flags.writeable = False
        self.costs_per_start = costs

    def budgets(self) -> range:
        """The budgets that fit, smallest first; empty where none does."""
        return self.corridor.budgets()

    def count(self, budget: int) -> int:
        """How many feasible schedules have this budget: exact, 0 where it does not fit."""
        return self.corridor.count(budget)

    def optimum(self, budget: int) -> tuple[int | float, Ints]:
        """Least cost and the start cells [budget] that have it (of several the first ones)."""
        budget = self.corridor.check(budget)
        starts = priced_search.optimum(self.corridor, self.costs_per_start, budget)
        return self._total(starts), starts

    def greedy(self, budget: int) -> tuple[int | float, Ints]:
        """Cost and start cells [budget] of the paper's greedy re-selection: never below optimum."""
        budget = self.corridor.check(budget)
        starts = greedy_selection.greedy(self.corridor, self.costs_per_start, budget)
        return self._total(starts), starts

    def mean(self, budget: int) -> float:
        """Mean cost of matched random deferral: exact to rounding, not sampled."""
        budget = self.corridor.check(budget)
        return float(inclusion(self.corridor, budget) @ self.costs_per_start)

    def variance(self, budget: int) -> float:
        """Variance of the cost of matched random deferral: exact to rounding, not sampled."""
        return self.moments(budget)[1]

    def moments(self, budget: int) -> tuple[float, float]:
        """Mean and variance in one pass."""
        budget = self.corridor.check(budget)
        return moments.moments(self.corridor, self.costs_per_start.astype(np.float64), budget)

    def draw(self, budget: int, draws: int, rng: np.random.Generator) -> Ints:
        """Exactly uniform feasible schedules, independent: start cells [draws, budget]."""
        budget, draws = self.corridor.check(budget), whole("draws", draws)
        if draws < 0:
            msg = f"draws is {draws}: it must be at least 0"
            raise InputError(msg)
        return uniform.draw(self.corridor, budget, draws, rng)

    def pmf(self, budget: int) -> Pmf:
        """The share of feasible schedules at every cost, where costs are whole numbers.

        Raises:
            InputError: costs are not whole numbers, or the table would be too large.
        """
        budget = self.corridor.check(budget)
        costs = self.costs_per_start
        if not np.issubdtype(costs.dtype, np.integer):
            msg = "the exact law needs whole-number costs: these are fractions; draw() instead"
            raise InputError(msg)
        return pmf.pmf(self.corridor, costs.astype(np.int64), budget)

    def feasible(self, starts: npt.ArrayLike) -> npt.NDArray[np.bool_]:
        """Does each schedule [..., budget] keep the corridor?"""
        return self.corridor.feasible(starts)

    def costs(self, starts: npt.ArrayLike) -> Ints | Floats:
        """Cost of each schedule [..., budget], feasible or not: [...].

        Raises:
            InputError: a window would not lie within the run.
        """
        schedules: Ints = np.asarray(starts, dtype=np.int64)
        if schedules.size and not 0 <= schedules.min() <= schedules.max() <= self.last_start:
            msg = (
                f"starts lie from {schedules.min()} to {schedules.max()}: a window must start "
                f"within 0 to {self.last_start}"
            )
            raise InputError(msg)
        total: npt.NDArray[Any] = np.zeros(schedules.shape[:-1], self.costs_per_start.dtype)
        for merge in range(schedules.shape[-1]):
            np.add(total, self.costs_per_start[schedules[..., merge]], out=total)
        return total

    @property
    def last_start(self) -> int:
        """The last cell at which a window still ends within the run."""
        return self.corridor.last_start

    def _total(self, starts: Ints) -> int | float:
        total: int | float = self.costs_per_start[starts].sum().item()
        return total


def _numbers(name: str, values: npt.ArrayLike) -> Ints | Floats:
    """A copy of the user's numbers: int64 where all are whole, else float64.

    Raises:
        InputError: not a non-empty list of finite numbers.
    """
    try:
        numbers = np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        msg = f"{name} must be a list of numbers"
        raise InputError(msg) from None
    if numbers.ndim != 1 or numbers.size == 0:
        msg = f"{name} has shape {numbers.shape}: it must be a list of at least one number"
        raise InputError(msg)
    bad = np.flatnonzero(~np.isfinite(numbers))
    if bad.size:
        msg = f"{name}[{bad[0]}] is {numbers[bad[0]]}: every value must be finite"
        raise InputError(msg)
    whole_numbers = bool((numbers == np.rint(numbers)).all())
    if whole_numbers and np.abs(numbers).sum() < LARGEST_EXACT:
        return numbers.astype(np.int64)
    return numbers


def _window_costs(requests: Ints | Floats, window_cells: int) -> Ints | Floats:
    """Sum over [start, start + window) for every start whose window ends within the run."""
    if len(requests) < window_cells:
        return requests[:0].copy()
    if np.issubdtype(requests.dtype, np.integer):
        sums = np.concatenate([[0], np.cumsum(requests)])
        return np.asarray(sums[window_cells:] - sums[:-window_cells])
    windows = np.lib.stride_tricks.sliding_window_view(requests, window_cells)
    return np.asarray(windows.sum(axis=1))
