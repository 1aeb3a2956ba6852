"""Candidates on training runs: each one's gain over matched random deferral of its own budget."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from calibration.contender import Entrant, Merge
from calibration.costs import run_costs, stretch
from calibration.experiment import Source, lead_of, with_seed
from calibration.placement import Grid
from calibration.protocol import Protocol
from calibration.simulate import Segment, simulate
from calibration.tuning.space import Parameter, Values, with_values
from controller.policies import policy_named
from controller.settings import ControllerSettings
from slackwater.errors import InputError

EDGE_SHARE = 0.1


@dataclass(frozen=True, slots=True)
class Score:
    """One candidate in one run.

    Attributes:
        budget: merges made.
        cost_pp: requests harmed, % of the run's.
        gain: what is below matched random's mean, as a share of it; 0 where that mean is 0.
        gain_pp: the same in percentage points of the run's requests.
        oracle_pp: what the exact oracle of this budget gains, percentage points.
        pinned: whether the budget lies at an end of the corridor, see `inner_budgets`.
    """

    budget: int
    cost_pp: float
    gain: float
    gain_pp: float
    oracle_pp: float
    pinned: bool

    @property
    def objective(self) -> float:
        """`gain`, of which nothing is counted above 0 where the budget is pinned."""
        return min(0.0, self.gain) if self.pinned else self.gain


def inner_budgets(protocol: Protocol) -> range:
    """Budgets that leave matched random schedules free to be elsewhere.

    A tenth of the budgets that fit, one at the least, is left out at either end: with the fewest
    or the most merges all schedules are nearly the same, and a gain there says nothing of choice.
    """
    fitting = protocol.corridor.budgets()
    edge = max(1, round(EDGE_SHARE * len(fitting)))
    return fitting[edge : len(fitting) - edge]


class _Run:
    """One training run's window costs, and its control by budget."""

    def __init__(self, name: str, costs: npt.NDArray[np.int64], requests: int) -> None:
        self.name, self._costs, self.requests = name, costs, requests
        self._grid: Grid | None = None
        self._control: dict[int, tuple[float, float]] = {}

    def score(self, merges: Sequence[Merge], protocol: Protocol) -> Score:
        budget, pp = len(merges), 100 / self.requests
        mean, least = self._control_of(budget, protocol)
        cost = float(self._costs[[merge.start_cell for merge in merges]].sum())
        return Score(
            budget=budget,
            cost_pp=pp * cost,
            gain=(mean - cost) / mean if mean > 0 else 0.0,
            gain_pp=pp * (mean - cost),
            oracle_pp=pp * (mean - least),
            pinned=budget not in inner_budgets(protocol),
        )

    def _control_of(self, budget: int, protocol: Protocol) -> tuple[float, float]:
        if budget not in self._control:
            if self._grid is None:
                self._grid = Grid.in_corridor(protocol.corridor, self._costs)
            mean, least = float(self._grid.mean(budget)), float(self._grid.optimum(budget)[0])
            self._control[budget] = (mean, least)
        return self._control[budget]


class Bench:
    """Training runs on which candidates are scored, each once.

    Args:
        sources: served traffic; runs without a request are left out.
        policy: whose parameters are tuned.
        space: those parameters.
        settings: everything else, from `corridor_settings`.
        protocol: how runs are scored.

    Raises `InputError` when no run has a request.
    """

    def __init__(
        self,
        sources: Iterable[Source],
        policy: str,
        space: Sequence[Parameter],
        settings: ControllerSettings,
        protocol: Protocol,
    ) -> None:
        self._policy, self._space, self._settings = policy_named(policy), space, settings
        self._protocol = protocol
        self._sources: list[tuple[Source, list[_Run | None]]] = []
        number = 0
        for source in sources:
            leads_s = [lead_of(protocol, number + i) for i in range(len(source.first_cells))]
            number += len(leads_s)
            costs = run_costs(source.requests, source.first_cells, protocol, leads_s)
            self._sources.append((source, [*map(self._run, *self._cuts(source, list(costs)))]))
        self.runs = [run.name for _, runs in self._sources for run in runs if run is not None]
        self._known: dict[Values, tuple[Score, ...]] = {}
        if not self.runs:
            msg = "no training run has a single request; take another segment length or trace"
            raise InputError(msg)

    def _cuts(
        self, source: Source, costs: list[npt.NDArray[np.int64]]
    ) -> tuple[list[str], list[npt.NDArray[np.int64]], list[int]]:
        names = [f"{source.name}#{i}" for i in range(len(costs))]
        sizes = [len(stretch(source.requests, at, self._protocol)) for at in source.first_cells]
        return names, costs, sizes

    @staticmethod
    def _run(name: str, costs: npt.NDArray[np.int64], requests: int) -> _Run | None:
        return _Run(name, costs, requests) if requests else None

    @property
    def scored(self) -> int:
        """How many candidates have been scored."""
        return len(self._known)

    def scores(
        self, candidates: Sequence[Values], advance: Callable[[], None]
    ) -> dict[Values, tuple[Score, ...]]:
        """Each candidate's score in every run; `advance` is called for each source done.

        The signals are made once for all candidates that see the same ones.
        """
        fresh = [c for c in dict.fromkeys(candidates) if c not in self._known]
        found: dict[Values, list[Score]] = {candidate: [] for candidate in fresh}
        for source, runs in self._sources:
            if fresh:
                self._score(source, runs, found)
            advance()
        self._known |= {candidate: tuple(scores) for candidate, scores in found.items()}
        return {candidate: self._known[candidate] for candidate in candidates}

    def _score(
        self, source: Source, runs: list[_Run | None], found: dict[Values, list[Score]]
    ) -> None:
        entrants = {str(c): with_seed(self._entrant(c), source.seed) for c in found}
        segments = [Segment(first, self._protocol.corridor) for first in source.first_cells]
        placed = simulate(
            source.requests, segments, list(entrants.values()), cell_s=self._protocol.cell_s
        )
        for run, merges in zip(runs, placed, strict=True):
            for candidate, scores in found.items():
                if run is not None:
                    scores.append(run.score(merges[str(candidate)], self._protocol))

    def _entrant(self, candidate: Values) -> Entrant:
        names = [parameter.name for parameter in self._space]
        settings = with_values(self._settings, dict(zip(names, candidate, strict=True)))
        return Entrant(str(candidate), self._policy, settings)
