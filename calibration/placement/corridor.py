"""The corridor on a grid: which budgets fit a run, and how many schedules each one has."""

import math
import operator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from calibration.placement.compiled import Ints
from slackwater.errors import InputError


@dataclass(frozen=True, slots=True)
class Corridor:
    """A run of `cells` cells, windows of `window_cells`, gaps in [min, max]; the one rule.

    Cell 0 counts as a merge for the first gap. The last window ends within the run
    (start + window <= cells), and H_max forces nothing after it (cells - start <= max gap).

    Raises:
        InputError: no run at all could hold a schedule with these gaps and this window.
    """

    cells: int
    window_cells: int
    min_gap_cells: int
    max_gap_cells: int

    def __post_init__(self) -> None:
        for name in ("cells", "window_cells", "min_gap_cells", "max_gap_cells"):
            value = whole(name, getattr(self, name))
            if value < 1:
                msg = f"{name} is {value}: it must be at least 1"
                raise InputError(msg)
            object.__setattr__(self, name, value)
        if self.min_gap_cells > self.max_gap_cells:
            msg = (
                f"the corridor is empty: min_gap_cells {self.min_gap_cells} exceeds max_gap_cells "
                f"{self.max_gap_cells}; lower the one or raise the other"
            )
            raise InputError(msg)
        if self.window_cells > self.max_gap_cells:
            msg = (
                f"window_cells {self.window_cells} exceeds max_gap_cells {self.max_gap_cells}: "
                "the last window could not end within the run; raise max_gap_cells"
            )
            raise InputError(msg)

    @property
    def last_start(self) -> int:
        """The last cell at which a window still ends within the run (negative: none does)."""
        return self.cells - self.window_cells

    def budgets(self) -> range:
        """Every budget with at least one feasible schedule, smallest first; may be empty."""
        smallest = -(-self.cells // self.max_gap_cells) - 1
        largest = max(self.last_start // self.min_gap_cells, 0)
        return range(smallest, largest + 1)

    def check(self, budget: int) -> int:
        """The budget as a plain int.

        Raises:
            InputError: it does not fit; the message names the smallest and largest that do.
        """
        budget = whole("budget", budget)
        fitting = self.budgets()
        if budget in fitting:
            return budget
        run = (
            f"{self.cells} cells with windows of {self.window_cells} and gaps of "
            f"{self.min_gap_cells} to {self.max_gap_cells} cells"
        )
        if not fitting:
            msg = f"no budget fits {run}; widen the corridor or change the length of the run"
            raise InputError(msg)
        msg = (
            f"a budget of {budget} merges does not fit {run}: the smallest that fits is "
            f"{fitting[0]}, the largest {fitting[-1]}"
        )
        raise InputError(msg)

    def count(self, budget: int) -> int:
        """How many feasible schedules have exactly this budget, exact; 0 where none does."""
        budget = whole("budget", budget)
        if budget not in self.budgets():
            return 0
        if budget == 0:
            return 1
        span, slack = self.max_gap_cells - self.min_gap_cells, self.slack(budget)
        return _at_most(budget, span, slack[1]) - _at_most(budget, span, slack[0] - 1)

    def slack(self, budget: int) -> tuple[int, int]:
        """What the gaps of a feasible schedule exceed min_gap by in sum: least and most cells."""
        used = budget * self.min_gap_cells
        span = budget * (self.max_gap_cells - self.min_gap_cells)
        least = max(self.cells - self.max_gap_cells - used, 0)
        return least, min(self.last_start - used, span)

    def feasible(self, starts: npt.ArrayLike) -> npt.NDArray[np.bool_]:
        """For schedules [..., budget] of start cells: does each one keep the corridor? [...]."""
        schedule: Ints = np.asarray(starts, dtype=np.int64)
        gaps = np.diff(schedule, axis=-1, prepend=0)
        kept = np.all((gaps >= self.min_gap_cells) & (gaps <= self.max_gap_cells), axis=-1)
        if schedule.shape[-1] == 0:
            return np.asarray(kept & (self.cells <= self.max_gap_cells))
        last = schedule[..., -1]
        ended = (last <= self.last_start) & (self.cells - last <= self.max_gap_cells)
        return np.asarray(kept & ended)


def whole(name: str, value: object) -> int:
    """A whole number given by the user, as a plain int.

    Raises:
        InputError: it is not one.
    """
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        msg = f"{name} is {value!r}: it must be a whole number"
        raise InputError(msg) from None


def _at_most(parts: int, span: int, total: int) -> int:
    """Vectors of `parts` integers in [0, span] with sum <= total: inclusion and exclusion."""
    if total < 0:
        return 0
    everything = parts * span
    if 2 * total > everything:
        return int((span + 1) ** parts) - _at_most(parts, span, everything - total - 1)
    size = total + parts
    ways = count = math.comb(size, parts)
    for j in range(1, min(parts, total // (span + 1)) + 1):
        # C(size - span - 1, parts) from C(size, parts): far cheaper than anew for large numbers.
        ways = ways * math.perm(size - parts, span + 1) // math.perm(size, span + 1)
        size -= span + 1
        count += (-1) ** j * math.comb(parts, j) * ways
    return count
