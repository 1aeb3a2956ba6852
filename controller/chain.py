"""How window costs move from one look to the next, and what waiting for the next looks is worth.

A Markov chain over quantile bins of the cost, fitted to the past, and optimal stopping on it by
backward induction.
"""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

STATES = 12
# A row of the chain is worth as much as its own looks; the marginal counts for so many of them.
PRIOR_LOOKS = 1.0
CONVERGED = 1e-9
LOOKS_BLOCK = 32


def waiting_values(costs: Floats, moves: Floats, looks: int) -> Floats:
    """Expected cost of going on, by optimal stopping, with 1 to `looks` looks still to come.

    With one look left its cost is what it is, for H_max forces: `V_1 = moves @ costs`. With n left
    one stops at the next if that is no dearer than to go on: `V_n = moves @ min(costs, V_(n-1))`.

    Args:
        costs: [states] what stopping costs.
        moves: [states, states] probability of the next look's state, rows sum to 1.
        looks: 1 or more.

    Returns:
        [n, states], row i for i + 1 looks; n is `looks`, or less where more looks change nothing.
    """
    values = [moves @ costs]
    while len(values) < looks:
        further = moves @ np.minimum(costs, values[-1])
        values.append(further)
        if np.abs(further - values[-2]).max() <= CONVERGED * np.abs(costs).max():
            break
    return np.array(values)


@dataclass(frozen=True, eq=False)
class CostChain:
    """Costs in bins of equal weight, and how they followed one another.

    Attributes:
        edges: [states - 1] costs at which the next state begins.
        costs: [states] mean cost in each.
        moves: [states, states] probability of the state one look later.
    """

    edges: Floats
    costs: Floats
    moves: Floats
    _made: dict[int, Floats] = field(default_factory=dict, repr=False)

    def _values(self, looks: float) -> Floats:
        """Values for as many looks or more, made once for each block of them."""
        size = LOOKS_BLOCK * (1 + int(looks) // LOOKS_BLOCK)
        if size not in self._made:
            self._made[size] = waiting_values(self.costs, self.moves, size)
        return self._made[size]

    def state(self, cost: float) -> int:
        """The bin of a cost."""
        return int(np.searchsorted(self.edges, cost, side="right"))

    def waiting(self, cost: float, looks: float) -> float:
        """Expected cost of waiting, in requests, with `looks` looks left; between two, linearly."""
        column = self._values(looks)[:, self.state(cost)]
        position = min(max(looks - 1.0, 0.0), len(column) - 1.0)
        below = int(position)
        above = min(below + 1, len(column) - 1)
        return float(column[below] + (position - below) * (column[above] - column[below]))


def fit_chain(at_us: Ints, costs: Floats, lag_us: int) -> CostChain:
    """The chain of the past: its looks are the costs known at times `lag_us` apart.

    Every remembered cost starts a pair, so pairs overlap: how many looks a row rests on is
    counted in lags. Each row leans towards the marginal with the weight of `PRIOR_LOOKS` of them.

    Args:
        at_us: [n] increasing times.
        costs: [n] at those times, one or more.
        lag_us: from one look to the next, exactly: costs that are not known so far apart make no
            pair, and a chain without pairs takes every look for independent of the last.
    """
    ordered = np.sort(costs)
    cuts = len(costs) * np.arange(1, STATES) // STATES
    edges = np.unique(ordered[cuts])
    edges = edges[edges > ordered[0]]
    states, number = np.searchsorted(edges, costs, side="right"), len(edges) + 1
    held = np.bincount(states, minlength=number)
    follower = np.searchsorted(at_us, at_us + lag_us)
    paired = follower < len(at_us)
    paired[paired] = at_us[follower[paired]] == at_us[paired] + lag_us
    pairs = states[paired] * number + states[follower[paired]]
    counts = np.bincount(pairs, minlength=number * number).reshape(number, number)
    spacing_us = (at_us[-1] - at_us[0]) / max(1, len(at_us) - 1)
    prior = PRIOR_LOOKS * max(1.0, lag_us / spacing_us if spacing_us else 1.0)
    moves = counts + prior * held / len(costs)
    return CostChain(
        edges=edges,
        costs=np.bincount(states, costs, number) / held,
        moves=moves / moves.sum(axis=1, keepdims=True),
    )
