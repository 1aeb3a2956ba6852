"""The cheapest schedule of a budget, exact, by pricing merges (docs/placement.md, Theorem 3).

The least cost of k merges is convex in k, because a corridor's schedules form a Monge graph.
So some price per merge makes the wanted budget optimal without counting merges: a search over
prices, each one pass over the cells, replaces a table of budget times cells.
"""

import math

import numpy as np

from calibration.placement.compiled import Floats, Ints, compiled
from calibration.placement.corridor import Corridor

INFEASIBLE = 2**62
LARGEST_SUM = 2**60


def optimum(corridor: Corridor, costs: Ints | Floats, budget: int) -> Ints:
    """Start cells of a cheapest schedule; of several, the one whose starts come first.

    Whole-number costs below 2^53 / (largest budget)^2 give the optimum itself. Others are rounded
    to multiples of q first, and the schedule found is within budget * q of the optimum: with B the
    largest budget and d the distance to the nearer end of the feasible range (at least 1),
    q = B (1 + B / d) 2^-59 of the spread of costs.
    """
    if budget == 0:
        return np.empty(0, dtype=np.int64)
    fitting = corridor.budgets()
    whole, price_low, price_high = _to_integers(costs, budget, fitting)
    return search(
        whole,
        budget,
        price_low,
        price_high,
        corridor.cells,
        corridor.min_gap_cells,
        corridor.max_gap_cells,
    )


def _to_integers(costs: Ints | Floats, budget: int, fitting: range) -> tuple[Ints, int, int]:
    """Costs from 0 as integers on the finest grid whose sums fit 64 bits, and bounds of the price.

    The wanted price is the fall of the least cost from `budget` merges to one more. By convexity
    it is at most the mean fall over the smaller budgets, and at least that over the larger ones.
    """
    spread = costs.max() - costs.min()
    most = max(fitting[-1], 1)
    above, below = max(fitting[-1] - budget, 1), max(budget + 1 - fitting[0], 1)
    reach = float(spread) * most * (1 + most / min(above, below)) + 4 * most
    scale = math.floor(math.log2(LARGEST_SUM / reach))
    if np.issubdtype(costs.dtype, np.integer):
        scale = min(scale, 0)
    whole = np.rint(np.ldexp((costs - costs.min()).astype(np.float64), scale)).astype(np.int64)
    total = most * int(whole.max())
    return whole, -(total // above) - 2, total // below + 2


@compiled
def search(
    costs: Ints,
    budget: int,
    price_low: int,
    price_high: int,
    cells: int,
    min_gap: int,
    max_gap: int,
) -> Ints:
    """The least price at which no more than `budget` merges pay, then a schedule at that price."""
    while price_low < price_high:
        price = price_low + (price_high - price_low) // 2
        _, fewest = priced(costs, price, cells, min_gap, max_gap, 1)
        if fewest[0] <= budget:
            price_high = price
        else:
            price_low = price + 1
    value, fewest = priced(costs, price_low, cells, min_gap, max_gap, 1)
    _, most = priced(costs, price_low, cells, min_gap, max_gap, -1)
    starts = np.empty(budget, dtype=np.int64)
    cell = 0
    for merge in range(budget):
        left = budget - merge - 1
        start = cell + min_gap
        while (
            value[start] == INFEASIBLE
            or costs[start] + price_low + value[start] != value[cell]
            or not fewest[start] <= left <= most[start]
        ):
            start += 1
        starts[merge] = cell = start
    return starts


@compiled
def priced(
    costs: Ints, price: int, cells: int, min_gap: int, max_gap: int, prefer: int
) -> tuple[Ints, Ints]:
    """Least cost to complete from a merge at each cell, every merge paying `price`; its merges.

    Among equals the fewest merges for prefer = 1, the most for prefer = -1. A queue holds the
    starts within reach, from the best on, each better than all that came into reach after it.
    """
    value, merges = np.full(len(costs), INFEASIBLE), np.zeros(len(costs), dtype=np.int64)
    queue = np.empty(len(costs), dtype=np.int64)
    total, number = np.empty(len(costs), dtype=np.int64), np.empty(len(costs), dtype=np.int64)
    head = tail = 0
    for cell in range(len(costs) - 1, -1, -1):
        start = cell + min_gap
        if start < len(costs) and value[start] != INFEASIBLE:
            cost, count = costs[start] + price + value[start], prefer * (merges[start] + 1)
            while tail > head and (
                total[tail - 1] > cost or (total[tail - 1] == cost and number[tail - 1] >= count)
            ):
                tail -= 1
            queue[tail], total[tail], number[tail] = start, cost, count
            tail += 1
        while head < tail and queue[head] > cell + max_gap:
            head += 1
        if head < tail:
            value[cell], merges[cell] = total[head], prefer * number[head]
        may_end = cells - cell <= max_gap
        if may_end and (value[cell] > 0 or (value[cell] == 0 and prefer * merges[cell] > 0)):
            value[cell], merges[cell] = 0, 0
    return value, merges
