"""Mean and variance of a random schedule's cost, by one pass over the walk: no sampling."""

import numpy as np

from calibration.placement.compiled import Floats
from calibration.placement.corridor import Corridor
from calibration.placement.walk import Row, Walk, walk_of, window_sums


def moments(corridor: Corridor, costs: Floats, budget: int) -> tuple[float, float]:
    """Mean and variance of the cost under the uniform law over feasible schedules.

    Costs are counted from their mean, which the fixed budget allows and which keeps the two
    terms of the variance from cancelling.
    """
    if budget == 0:
        return 0.0, 0.0
    walk = walk_of(corridor, budget)
    centre = float(costs.mean())
    row = walk.end()
    first, second = np.zeros_like(row.values), np.zeros_like(row.values)
    for left in range(1, budget + 1):
        row, first, second = _extend(walk, left, row, (first, second), costs - centre)
    mean = float(first[0] / row.values[0])
    variance = float(second[0] / row.values[0]) - mean * mean
    return mean + budget * centre, max(variance, 0.0)


def _extend(
    walk: Walk, left: int, row: Row, sums: tuple[Floats, Floats], costs: Floats
) -> tuple[Row, Floats, Floats]:
    """One more step to go: completions weighed by 1, by their cost and by its square."""
    states = row.first + np.arange(len(row.values))
    cost = costs[walk.cells(walk.budget - left + 1, states)]
    first = sums[0] + cost * row.values
    second = sums[1] + cost * (2 * sums[0] + cost * row.values)
    longer = walk.before(row, left)
    last = longer.first + len(longer.values) - 1
    grown = [
        window_sums(figure, row.first, longer.first, last, walk.powers, walk.base)
        for figure in (first, second)
    ]
    return longer, grown[0], grown[1]
