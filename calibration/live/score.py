"""A live run scored: what its windows cost beside matched random schedules in its corridor."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from calibration.ceilings import Ceilings
from calibration.contender import Merge
from calibration.envelope import Envelopes
from calibration.figures import Stretch, run_figures
from calibration.live.corridor import Placed, place
from calibration.live.run import Floats, LiveRun
from calibration.placement import Grid
from calibration.protocol import Protocol
from calibration.results import Run
from calibration.serving import (
    Overlap,
    Requests,
    Served,
    requests_of,
    requests_per_cell,
    start_costs,
    windows_of,
)
from calibration.serving.overlap import Counting
from slackwater.errors import InputError


@dataclass(frozen=True, slots=True)
class Asked:
    """How live runs are scored: which requests count, the grid, the draws and their seed."""

    counting: Counting
    cell_s: float
    draws: int
    seed: int


@dataclass(frozen=True, slots=True, eq=False)
class LiveScored:
    """One run's figures.

    Attributes:
        live: the run itself.
        run: its figures; `excess_pp` is of the measured latencies.
        random_pp: [draws] costs of matched random schedules, percentage points of requests.
        counts: [cells] arrivals.
        placed: its windows on the grid.
    """

    live: LiveRun
    run: Run
    random_pp: Floats
    counts: npt.NDArray[np.int64]
    placed: Placed


def score(live: LiveRun, number: int, unmerged: Sequence[LiveRun], asked: Asked) -> LiveScored:
    """Score a run; `unmerged` are runs of the same load without merges, `number` seeds the draws.

    Raises `InputError` for a run that cannot be placed on the grid or has no request.
    """
    placed = place(live, asked.cell_s)
    model = Overlap(counting=asked.counting)
    protocol = Protocol(
        placed.corridor, asked.cell_s, model, asked.draws, asked.seed, slo_s=live.slo_s
    )
    requests, kept = _requests(live, placed, protocol)
    grid = _grid(requests, protocol)
    stretch = Stretch(live.name, 0, requests, grid, requests, 0.0, _unmerged(live, unmerged))
    budget, cells = len(placed.start_cells), placed.start_cells.tolist()
    envelope = Envelopes(grid, protocol, number).of(budget)
    merges = [Merge(cell, why, None) for cell, why in zip(cells, live.reasons, strict=True)]
    found = run_figures(
        stretch,
        live.policy,
        merges,
        envelope,
        Ceilings(requests, 0, protocol, number).of(budget),
        _served(live, placed, protocol, requests, kept),
        protocol,
    )
    return LiveScored(
        live=live,
        run=replace(found, run=live.name, trace=live.trace),
        random_pp=100 * envelope.costs / len(requests),
        counts=requests_per_cell(requests, asked.cell_s),
        placed=placed,
    )


def _requests(
    live: LiveRun, placed: Placed, protocol: Protocol
) -> tuple[Requests, npt.NDArray[np.bool_]]:
    """The requests that arrived in the run, times from its cell 0, and which ones they are."""
    arrival_s = live.arrival_s - placed.begin_s
    kept = (arrival_s >= 0) & (arrival_s < protocol.run_s)
    if not kept.any():
        msg = f"{live.name}: no request arrived while its learners trained"
        raise InputError(msg)
    requests = requests_of(
        arrival_s[kept],
        protocol.run_s,
        e2e_s=live.length_s[kept],
        tokens=None if live.tokens is None else live.tokens[kept],
        sidecar=live.sidecar[kept],
        tenant=None if live.tenant is None else live.tenant[kept],
    )
    return requests, kept


def _grid(requests: Requests, protocol: Protocol) -> Grid:
    counting = protocol.model.counting  # type: ignore[attr-defined]
    costs = start_costs(requests, protocol.window_s, protocol.cell_s, counting)
    return Grid.in_corridor(protocol.corridor, costs)


def _served(
    live: LiveRun,
    placed: Placed,
    protocol: Protocol,
    requests: Requests,
    kept: npt.NDArray[np.bool_],
) -> Served:
    """Harm by the windows on the grid, latencies as they were measured."""
    windows = windows_of(placed.start_cells * protocol.cell_s, protocol.window_s)
    modelled = protocol.model.serve(requests, windows)
    return replace(modelled, latency_s=live.latency_s[kept])


def _unmerged(live: LiveRun, unmerged: Sequence[LiveRun]) -> Served:
    """What was measured without merges over as much of the load as all the runs have."""
    seconds = min([live.span_s, *(run.span_s for run in unmerged)])
    latency_s = [run.latency_s[run.first(seconds)] for run in unmerged]
    known = np.concatenate([np.zeros(0), *latency_s])
    nobody = np.zeros(len(known), np.bool_)
    return Served(np.arange(len(known)), np.zeros(len(known)), known, nobody)
