"""What a window costs at each cell of each run, and the part of a trace that a run serves."""

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from calibration.protocol import Protocol
from calibration.serving import Overlap, Requests, isolated_costs, requests_of, start_costs

Ints = npt.NDArray[np.int64]


def run_costs(requests: Requests, first_cells: Sequence[int], protocol: Protocol) -> Iterator[Ints]:
    """For each run, the cost of a window at each cell where one may start: [last_start + 1].

    The overlap model's costs come of the whole trace, what is in service as a run begins
    included. Other models serve each run from idle.
    """
    model, starts = protocol.model, protocol.corridor.last_start + 1
    if isinstance(model, Overlap):
        whole = start_costs(requests, protocol.window_s, protocol.cell_s, model.counting)
        yield from (whole[first : first + starts] for first in first_cells)
        return
    for first in first_cells:
        own = stretch(requests, first, protocol)
        yield isolated_costs(model, own, protocol.window_s, protocol.cell_s)


def stretch(requests: Requests, first_cell: int, protocol: Protocol) -> Requests:
    """The requests that arrive in a run, with times from its start."""
    begin_s = first_cell * protocol.cell_s
    low, high = np.searchsorted(requests.arrival_s, [begin_s, begin_s + protocol.run_s])
    kept = slice(int(low), int(high))
    # Subtraction may round the last arrival up to the very end, which is outside.
    arrival_s = np.minimum(requests.arrival_s[kept] - begin_s, np.nextafter(protocol.run_s, 0.0))
    return requests_of(
        arrival_s,
        protocol.run_s,
        e2e_s=_part(requests.e2e_s, kept),
        service_s=_part(requests.service_s, kept),
        tokens=_part(requests.tokens, kept),
        sidecar=_part(requests.sidecar, kept),
        tenant=_part(requests.tenant, kept),
    )


def _part(column: npt.NDArray[np.generic] | None, kept: slice) -> npt.NDArray[np.generic] | None:
    return None if column is None else column[kept]
