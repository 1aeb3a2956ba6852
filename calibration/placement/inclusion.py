"""How often a random schedule has a window at each cell: the mean cost is this times the costs.

The figures depend on the corridor and the budget alone. Grids that share them, as the random
halves of one run do, share this too.
"""

from functools import lru_cache

import numpy as np

from calibration.placement.compiled import Floats
from calibration.placement.corridor import Corridor
from calibration.placement.walk import Row, Walk, walk_of, window_sums

KEPT = 128


@lru_cache(maxsize=KEPT)
def inclusion(corridor: Corridor, budget: int) -> Floats:
    """[last_start + 1] probability that a uniform feasible schedule starts a window there.

    Forward through the walk: the weight of reaching a state, over the weight with which the state
    before it could be completed, times that of completing the new one.
    """
    found = np.zeros(max(0, corridor.last_start + 1))
    if budget == 0:
        return found
    walk = walk_of(corridor, budget)
    reached, completed = Row(0, np.ones(1)), None
    for merge, row in enumerate(walk.rows_down(), start=1):
        completed = completed or walk.before(row, budget)
        reached, completed = _step(walk, reached, completed, row), row
        states = row.first + np.arange(len(row.values))
        found[walk.cells(merge, states)] += reached.values
    found.flags.writeable = False
    return found


def _step(walk: Walk, reached: Row, completed: Row, row: Row) -> Row:
    """Probabilities of the states after one more step, from those before it."""
    first = reached.first - completed.first
    forward = reached.values / completed.values[first : first + len(reached.values)]
    last, end = reached.first + len(forward) - 1, row.first + len(row.values) - 1
    # Sums over what comes before a state are window sums of the states in falling order.
    sums = window_sums(forward[::-1].copy(), -last, -end, -row.first, walk.powers, walk.base)
    values = sums[::-1] * row.values
    return Row(row.first, values / values.sum())
