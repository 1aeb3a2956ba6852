"""The greedy re-selection: cheapest windows first, as long as the rest can still be placed."""

from bisect import bisect_left

import numpy as np

from calibration.placement.compiled import Floats, Ints
from calibration.placement.corridor import Corridor


def greedy(corridor: Corridor, costs: Ints | Floats, budget: int) -> Ints:
    """Start cells chosen from the cheapest on, of equals the earliest.

    Each is kept if and only if the chosen ones can still be completed to a feasible schedule of
    this budget. Always feasible, seldom optimal: the paper's calibrated replay, to be reported
    beside the optimum and never in its place.
    """
    chosen = _Chosen(corridor, budget)
    for start in np.argsort(costs, kind="stable").tolist():
        if len(chosen.starts) == budget:
            break
        chosen.offer(start)
    return np.array(chosen.starts, dtype=np.int64)


class _Chosen:
    """The starts chosen so far and how many merges the stretches between them need and hold."""

    def __init__(self, corridor: Corridor, budget: int) -> None:
        self.corridor, self.budget = corridor, budget
        self.starts: list[int] = []
        self.fewest, self.most = self._stretch(0, None)

    def offer(self, start: int) -> None:
        """Take the start if the stretches can hold exactly what is then left to place."""
        place = bisect_left(self.starts, start)
        before = self.starts[place - 1] if place else 0
        after = self.starts[place] if place < len(self.starts) else None
        split = (self._stretch(before, start), self._stretch(start, after))
        if any(fewest > most for fewest, most in split):
            return
        old = self._stretch(before, after)
        fewest = self.fewest - old[0] + split[0][0] + split[1][0]
        most = self.most - old[1] + split[0][1] + split[1][1]
        if fewest <= self.budget - len(self.starts) - 1 <= most:
            self.starts.insert(place, start)
            self.fewest, self.most = fewest, most

    def _stretch(self, start: int, end: int | None) -> tuple[int, int]:
        """Fewest and most merges strictly between two merges, or after the last one (None)."""
        corridor = self.corridor
        if end is None:
            length, most = corridor.cells - start, corridor.last_start - start
            most = most // corridor.min_gap_cells
        else:
            length = end - start
            most = length // corridor.min_gap_cells - 1
        return max(-(-length // corridor.max_gap_cells) - 1, 0), most
