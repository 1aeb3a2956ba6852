"""The matched random envelope of a run for each budget: made once, whoever shares it."""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from calibration.gate import LOW_SHARE
from calibration.placement import Grid
from calibration.protocol import Protocol

ROUNDING = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class Envelope:
    """Random schedules of one budget, and the oracles beside them; costs in requests.

    Attributes:
        mean: exact mean of the uniform law.
        sd: its exact standard deviation.
        starts: [draws, budget] cells at which the drawn schedules' windows open.
        costs: [draws] their costs, ascending order not implied.
        p05: their 5th percentile.
        oracle_exact: least cost.
        oracle_greedy: cost of the greedy re-selection.
    """

    mean: float
    sd: float
    starts: npt.NDArray[np.int32]
    costs: npt.NDArray[np.float64]
    p05: float
    oracle_exact: float
    oracle_greedy: float

    def percentile(self, cost: float) -> float:
        """Share of drawn schedules that cost less, those that cost the same by half: 0 to 100."""
        below = np.count_nonzero(self.costs < cost)
        same = np.count_nonzero(self.costs == cost)
        return 100 * (below + 0.5 * same) / len(self.costs)


class Envelopes:
    """The envelopes of one run by budget.

    Args:
        grid: the run's costs and corridor.
        protocol: number of draws and seed.
        run: number of the run; with the budget and the seed it seeds the draws, so that they
            do not depend on which policies were entered.
    """

    def __init__(self, grid: Grid, protocol: Protocol, run: int) -> None:
        self._grid = grid
        self._protocol = protocol
        self._run = run
        self.made: dict[int, Envelope] = {}

    def of(self, budget: int) -> Envelope:
        """The envelope of schedules with so many merges."""
        if budget not in self.made:
            self.made[budget] = self._make(budget)
        return self.made[budget]

    def _make(self, budget: int) -> Envelope:
        rng = np.random.default_rng([self._protocol.seed, self._run, budget])
        drawn = self._grid.draw(budget, self._protocol.draws, rng)
        costs = np.asarray(self._grid.costs(drawn), dtype=np.float64)
        mean, variance = self._grid.moments(budget)
        least = float(self._grid.optimum(budget)[0])
        return Envelope(
            mean=_settled(float(mean), least),
            sd=float(np.sqrt(max(0.0, variance))),
            starts=drawn.astype(np.int32),
            costs=costs,
            p05=float(np.quantile(costs, LOW_SHARE)),
            oracle_exact=least,
            oracle_greedy=float(self._grid.greedy(budget)[0]),
        )


def _settled(mean: float, least: float) -> float:
    """The mean, free of rounding where all schedules cost the same: noise is no gain."""
    return least if math.isclose(mean, least, rel_tol=ROUNDING, abs_tol=ROUNDING) else mean
