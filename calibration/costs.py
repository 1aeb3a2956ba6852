"""What a window costs at each cell of each run, and the part of a trace that a run serves."""

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from calibration.protocol import Protocol
from calibration.serving import (
    Overlap,
    Requests,
    Served,
    requests_of,
    start_costs,
    windows_of,
)

Ints = npt.NDArray[np.int64]


def run_costs(
    requests: Requests, first_cells: Sequence[int], protocol: Protocol, leads_s: Sequence[float]
) -> Iterator[Ints]:
    """For each run, the cost of a window at each cell where one may start: [last_start + 1].

    The overlap model's costs come of the whole trace, what is in service as a run begins
    included. Other models serve each run from idle, `leads_s` before its start, and a window's
    cost is what it harms where it stands alone.
    """
    model, starts = protocol.model, protocol.corridor.last_start + 1
    if isinstance(model, Overlap):
        whole = start_costs(requests, protocol.window_s, protocol.cell_s, model.counting)
        yield from (whole[first : first + starts] for first in first_cells)
        return
    for first, lead_s in zip(first_cells, leads_s, strict=True):
        own = stretch(requests, first, protocol, lead_s)
        yield np.array([harmed(own, [cell], protocol, lead_s) for cell in range(starts)])


def harmed(
    requests: Requests, start_cells: Sequence[int], protocol: Protocol, lead_s: float
) -> int:
    """Requests that the serving model harms with windows at these cells."""
    return int(serve(requests, start_cells, protocol, lead_s).harmed.sum())


def serve(
    requests: Requests, start_cells: Sequence[int], protocol: Protocol, lead_s: float
) -> Served:
    """A run's requests, which begin `lead_s` before it, served under windows at these cells."""
    starts_s = [lead_s + cell * protocol.cell_s for cell in start_cells]
    return protocol.model.serve(requests, windows_of(starts_s, protocol.window_s))


def stretch(
    requests: Requests, first_cell: int, protocol: Protocol, lead_s: float = 0.0
) -> Requests:
    """The requests that arrive in a run, or up to `lead_s` before it; times count from there."""
    end_s = first_cell * protocol.cell_s + protocol.run_s
    begin_s, duration_s = end_s - protocol.run_s - lead_s, protocol.run_s + lead_s
    low, high = np.searchsorted(requests.arrival_s, [begin_s, end_s])
    kept = slice(int(low), int(high))
    # Subtraction may round the last arrival up to the very end, which is outside.
    arrival_s = np.minimum(requests.arrival_s[kept] - begin_s, np.nextafter(duration_s, 0.0))
    return requests_of(
        np.maximum(arrival_s, 0.0),
        duration_s,
        e2e_s=_part(requests.e2e_s, kept),
        service_s=_part(requests.service_s, kept),
        tokens=_part(requests.tokens, kept),
        sidecar=_part(requests.sidecar, kept),
        tenant=_part(requests.tenant, kept),
    )


def _part(column: npt.NDArray[np.generic] | None, kept: slice) -> npt.NDArray[np.generic] | None:
    return None if column is None else column[kept]
