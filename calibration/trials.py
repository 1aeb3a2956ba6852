"""One run of a regime: every policy's schedule served as a whole, beside matched random ones.

Where `calibration.experiment` adds up what each window harms alone, which lets it search and
count, this serves whole schedules: the excess violation is the paper's own figure.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from calibration.contender import Entrant
from calibration.costs import serve, stretch
from calibration.placement import Grid
from calibration.placement.corridor import Corridor
from calibration.protocol import Protocol
from calibration.serving import ClosedLoop, Requests, Served, start_costs
from calibration.simulate import Segment, simulate
from slackwater.errors import InputError

Floats = npt.NDArray[np.float64]
Starts = npt.NDArray[np.int64]
LEAD_S = 5.0


@dataclass(frozen=True, slots=True, eq=False)
class Load:
    """A trace served without merges, its one run's first cell, and the seed of the run."""

    name: str
    requests: Requests
    first_cell: int
    seed: int


@dataclass(frozen=True, slots=True, eq=False)
class Arm:
    """One schedule maker in one run. Excess is over the violation rate without merges.

    Attributes:
        policy: its name.
        budget: merges made.
        requests: sent without merges.
        sent: sent with them; fewer where clients wait for their batches.
        unmerged_pp: violation rate without merges, %.
        excess_pp: of the schedule, percentage points.
        random_pp: [draws] of matched random schedules.
        oracle_pp: of the schedule of least overlap with arrivals, this budget.
        p95_ratio: 95th percentile of latency, with merges over without.
    """

    policy: str
    budget: int
    requests: int
    sent: int
    unmerged_pp: float
    excess_pp: float
    random_pp: Floats
    oracle_pp: float
    p95_ratio: float


class Trial:
    """One run, ready to serve schedules of windows in the protocol's corridor.

    Raises `InputError` for a run without a request.
    """

    def __init__(self, load: Load, protocol: Protocol) -> None:
        self._load, self._protocol = load, protocol
        # A schedule in step with a closed loop's batches would else be so in every run.
        rng = np.random.default_rng([protocol.seed, load.seed])
        self._lead_s = float(rng.uniform(0.0, LEAD_S))
        self._led = stretch(load.requests, load.first_cell, protocol, self._lead_s)
        own = stretch(load.requests, load.first_cell, protocol)
        if not len(own):
            msg = f"{load.name}: its run has no request; take a higher rate"
            raise InputError(msg)
        self._costs = start_costs(own, protocol.window_s, protocol.cell_s, "arriving")
        self._alone = serve(self._led, [], protocol, self._lead_s)
        self._controls: dict[tuple[Corridor, int], tuple[Floats, Starts]] = {}

    def policies(self, entrants: Sequence[Entrant]) -> list[Arm]:
        """Each policy's arm, by the live code."""
        protocol, load = self._protocol, self._load
        segment = Segment(load.first_cell, protocol.corridor)
        (placed,) = simulate(load.requests, [segment], entrants, cell_s=protocol.cell_s)
        return [
            self._arm(name, [merge.start_cell for merge in merges], protocol.corridor)
            for name, merges in placed.items()
        ]

    def offline(self, budget: int) -> Arm:
        """The oracle's arm with so many merges and no largest gap."""
        run = self._protocol.corridor
        wide = Corridor(run.cells, run.window_cells, run.min_gap_cells, run.cells)
        _, oracle = self._control(wide, budget)
        return self._arm("oracle", oracle.tolist(), wide)

    def _arm(self, policy: str, cells: list[int], corridor: Corridor) -> Arm:
        served = serve(self._led, cells, self._protocol, self._lead_s)
        random_pp, oracle = self._control(corridor, len(cells))
        whole = serve(self._led, oracle.tolist(), self._protocol, self._lead_s)
        return Arm(
            policy=policy,
            budget=len(cells),
            requests=len(self._alone.request),
            sent=len(served.request),
            unmerged_pp=self._rate_pp(self._alone),
            excess_pp=self._excess_pp(served),
            random_pp=random_pp,
            oracle_pp=self._excess_pp(whole),
            p95_ratio=p95_s(served) / p95_s(self._alone),
        )

    def _control(self, corridor: Corridor, budget: int) -> tuple[Floats, Starts]:
        """Excess of matched random schedules, and the starts of least overlap."""
        if (corridor, budget) not in self._controls:
            grid = Grid.in_corridor(corridor, self._costs)
            rng = np.random.default_rng([self._protocol.seed, self._load.seed, budget])
            drawn = grid.draw(budget, self._protocol.draws, rng)
            made = self._excesses_pp(drawn), grid.optimum(budget)[1]
            self._controls[corridor, budget] = made
        return self._controls[corridor, budget]

    def _excesses_pp(self, drawn: Starts) -> Floats:
        protocol, model = self._protocol, self._protocol.model
        if not isinstance(model, ClosedLoop):
            rows: Iterable[list[int]] = drawn.tolist()
            return np.array(
                [self._excess_pp(serve(self._led, row, protocol, self._lead_s)) for row in rows]
            )
        starts_s: Floats = (self._lead_s + protocol.cell_s * drawn).astype(np.float64)
        rates = model.violation_rates(self._led, starts_s, protocol.window_s, protocol.slo_s)
        return 100 * rates - self._rate_pp(self._alone)

    def _excess_pp(self, served: Served) -> float:
        return self._rate_pp(served) - self._rate_pp(self._alone)

    def _rate_pp(self, served: Served) -> float:
        return 100 * float(np.mean(served.latency_s > self._protocol.slo_s))


def p95_s(served: Served) -> float:
    """95th percentile of latency."""
    return float(np.quantile(served.latency_s, 0.95))
