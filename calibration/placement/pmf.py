"""The whole law of a random schedule's cost, where costs are whole numbers."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from calibration.placement.compiled import Floats, Ints, compiled
from calibration.placement.corridor import Corridor
from calibration.placement.walk import Walk, walk_of
from slackwater.errors import InputError

LARGEST_TABLE = 40_000_000
Table = npt.NDArray[np.float64]


class Pmf(NamedTuple):
    """Costs in rising order, one apart, and the share of feasible schedules that have each."""

    costs: Ints
    probabilities: Floats


def pmf(corridor: Corridor, costs: Ints, budget: int) -> Pmf:
    """The law of the cost under the uniform law, each probability exact to rounding.

    Raises:
        InputError: the table of states and costs would not fit; draw schedules instead.
    """
    if budget == 0:
        return Pmf(np.zeros(1, dtype=np.int64), np.ones(1))
    walk = walk_of(corridor, budget)
    base = int(costs.min())
    _check_size(walk, int(costs.max()) - base)
    first, table = walk.least, walk.end().values[:, None]
    for left in range(1, budget + 1):
        states = first + np.arange(len(table))
        shifts = costs[walk.cells(budget - left + 1, states)] - base
        out_first, out_last = walk.domain(left)
        table = extend(table, first, shifts, out_first, out_last, walk.powers)
        table, first = table / table.max(), out_first
    found = np.flatnonzero(table[0])
    weights = table[0, found[0] : found[-1] + 1]
    return Pmf(budget * base + np.arange(found[0], found[-1] + 1), weights / weights.sum())


def _check_size(walk: Walk, spread: int) -> None:
    widths = (walk.domain(left) for left in range(walk.budget + 1))
    states = max(last - first + 1 for first, last in widths)
    if states * (walk.budget * spread + 1) > LARGEST_TABLE:
        msg = (
            f"the exact law of the cost needs {states} states by {walk.budget * spread + 1} costs, "
            f"more than {LARGEST_TABLE}: draw schedules and use their costs, or coarsen the grid"
        )
        raise InputError(msg)


@compiled
def extend(
    table: Table, first: int, shifts: Ints, out_first: int, out_last: int, powers: Floats
) -> Table:
    """One more step to go: each state's costs shifted by its own, then tilted window sums.

    As `walk.window_sums`, with a row of costs in place of each number.
    """
    size, theta = len(powers) - 1, powers[1]
    length, columns = out_last - out_first + 1, table.shape[1] + shifts.max()
    blocks = (length - 1) // size + 2
    source = np.zeros((blocks * size, columns))
    for i in range(len(table)):
        place = i + first - out_first
        if 0 <= place < len(source):
            source[place, shifts[i] : shifts[i] + table.shape[1]] = table[i]
    out = np.empty((length, columns))
    for start in range(0, length, size):
        tail, head = np.zeros(columns), np.zeros(columns)
        for i in range(size - 1, -1, -1):
            tail = source[start + i] + theta * tail
            if start + i < length:
                out[start + i] = tail
        for i in range(1, min(size, length - start)):
            head += powers[i - 1] * source[start + size + i - 1]
            out[start + i] += powers[size - i] * head
    return out
