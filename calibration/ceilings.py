"""The predictable ceiling of a run for each budget: its requests split once, whoever shares it."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from calibration.crossfit import Ceiling, predictable_ceiling, request_halves
from calibration.placement import Grid
from calibration.protocol import Protocol
from calibration.serving import Overlap, Requests, requests_of, start_costs
from calibration.serving.overlap import finish_s

SPLITS = 20
STREAM = 3
NO_CEILING = Ceiling(None, None, 0)


class Ceilings:
    """The ceilings of one run by budget; none under models whose requests harm one another.

    Args:
        requests: of the whole trace, so that those in service as the run begins count.
        first_cell: the run's first cell.
        protocol: corridor, model and seed.
        run: number of the run; with the seed it seeds the splits.
    """

    def __init__(self, requests: Requests, first_cell: int, protocol: Protocol, run: int) -> None:
        self._halves: list[tuple[Grid, Grid]] = []
        self._rng = np.random.default_rng([protocol.seed, run, STREAM])
        self._made: dict[int, Ceiling] = {}
        if isinstance(protocol.model, Overlap):
            self._halves = _split(requests, first_cell, protocol, protocol.model, self._rng)

    def of(self, budget: int) -> Ceiling:
        """What rate alone lets an oracle of this budget gain; no gain known without halves."""
        if not self._halves:
            return NO_CEILING
        if budget not in self._made:
            pairs: Iterator[tuple[Grid, Grid]] = iter(self._halves)
            ceiling = predictable_ceiling(lambda _: next(pairs), budget, self._rng, SPLITS)
            self._made[budget] = ceiling
        return self._made[budget]


def _split(
    requests: Requests,
    first_cell: int,
    protocol: Protocol,
    model: Overlap,
    rng: np.random.Generator,
) -> list[tuple[Grid, Grid]]:
    arrival_s, length_s = _present(requests, first_cell, protocol, model)

    def build(mask: npt.NDArray[np.bool_]) -> Grid:
        half = requests_of(arrival_s[mask], protocol.run_s, e2e_s=length_s[mask])
        costs = start_costs(half, protocol.window_s, protocol.cell_s, model.counting)
        return Grid.in_corridor(protocol.corridor, costs)

    halves = request_halves(build, len(arrival_s))
    return [halves(rng) for _ in range(SPLITS)]


def _present(
    requests: Requests, first_cell: int, protocol: Protocol, model: Overlap
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Arrivals in the run, and what is in service as it begins, as if it arrived then; lengths.

    A window cannot tell a request that came before the run from one that came as it began.
    """
    begin_s = first_cell * protocol.cell_s
    inside = requests.arrival_s >= begin_s
    if model.counting == "in_service":
        inside |= finish_s(requests, model.counting) > begin_s
    inside &= requests.arrival_s < begin_s + protocol.run_s
    arrival_s = np.maximum(requests.arrival_s[inside] - begin_s, 0.0)
    # Subtraction may round the last arrival up to the very end, which is outside.
    arrival_s = np.minimum(arrival_s, np.nextafter(protocol.run_s, 0.0))
    finish = finish_s(requests, model.counting)[inside] - begin_s
    return arrival_s, np.maximum(finish - arrival_s, 0.0)
