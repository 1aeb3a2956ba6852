"""Runs to figures: every policy's schedule beside matched random ones of its own budget.

A source is one served trace with the stretches of it that are scored. Each stretch is one run of
every policy; each policy hands its budget K down to its own control.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import msgspec
import numpy as np
import numpy.typing as npt

from calibration.ceilings import Ceilings
from calibration.contender import Entrant, Merge
from calibration.control import control_load
from calibration.costs import run_costs, serve, stretch
from calibration.envelope import Envelope, Envelopes
from calibration.figures import ServedLoad, Stretch, run_figures, served_load
from calibration.placement import Grid
from calibration.protocol import Protocol
from calibration.results import Run
from calibration.serving import Requests, requests_per_cell
from calibration.simulate import Segment, simulate

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
BASELINE = "no merges"
CONTROL = "matched random"
LEAD_S = 5.0
LEAD_GRID = 1 << 20


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """A trace served without merges (every `e2e_s` known), and the cells its runs start at.

    `seed` is for policies that toss coins: sources with one seed toss the same ones.
    """

    name: str
    requests: Requests
    first_cells: tuple[int, ...]
    seed: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Scored:
    """One run of all policies.

    Attributes:
        runs: each policy's figures, in the order they were entered.
        envelopes: by budget, the control of every policy that made so many merges.
        random_pp: by policy, costs of its control's schedules [draws], percentage points.
        loads: by policy, what its run served; under `BASELINE`, without merges.
        control_loads: by policy, what its control served.
        counts: [cells] arrivals.
        lead_s: how long before the run its serving model began.
    """

    runs: tuple[Run, ...]
    envelopes: dict[int, Envelope]
    random_pp: dict[str, Floats]
    loads: dict[str, ServedLoad]
    control_loads: dict[str, ServedLoad]
    counts: Ints
    lead_s: float


def evaluate(
    sources: Iterable[Source], entrants: Sequence[Entrant], protocol: Protocol
) -> Iterator[Scored | None]:
    """Score run after run of every source; None for a stretch without a single request."""
    number = 0
    for source in sources:
        segments = [Segment(first, protocol.corridor) for first in source.first_cells]
        leads_s = [lead_of(protocol, number + i) for i in range(len(segments))]
        costs = run_costs(source.requests, source.first_cells, protocol, leads_s)
        own = [with_seed(entrant, source.seed) for entrant in entrants]
        placed = simulate(source.requests, segments, own, cell_s=protocol.cell_s)
        for index, (merges, cost) in enumerate(zip(placed, costs, strict=True)):
            grid = Grid.in_corridor(protocol.corridor, cost)
            load = _stretch(source, index, grid, protocol, leads_s[index])
            envelopes = Envelopes(grid, protocol, number)
            ceilings = Ceilings(source.requests, source.first_cells[index], protocol, number)
            empty = not len(load.requests)
            yield None if empty else _score(load, merges, envelopes, ceilings, protocol)
            number += 1


def lead_of(protocol: Protocol, number: int) -> float:
    """How long before a run its serving model begins, at random.

    A schedule that is in step with a closed loop's batches would else be so in every run. In whole
    2^-20 s, so that cells add to it without rounding: windows end to end must not overlap.
    """
    lead_s = float(np.random.default_rng([protocol.seed, number]).uniform(0.0, LEAD_S))
    return round(lead_s * LEAD_GRID) / LEAD_GRID


def _stretch(source: Source, index: int, grid: Grid, protocol: Protocol, lead_s: float) -> Stretch:
    first = source.first_cells[index]
    own = stretch(source.requests, first, protocol)
    led = stretch(source.requests, first, protocol, lead_s)
    unmerged = serve(led, [], protocol, lead_s)
    return Stretch(source.name, index, own, grid, led, lead_s, unmerged)


def with_seed(entrant: Entrant, seed: int) -> Entrant:
    """The same policy with another seed for its coins."""
    return replace(entrant, settings=msgspec.structs.replace(entrant.settings, seed=seed))


def _score(
    load: Stretch,
    placed: dict[str, list[Merge]],
    envelopes: Envelopes,
    ceilings: Ceilings,
    protocol: Protocol,
) -> Scored:
    runs, random_pp, control_loads = [], {}, {}
    loads = {BASELINE: served_load(load.unmerged, load.led)}
    for policy, merges in placed.items():
        envelope = envelopes.of(len(merges))
        cells = [merge.start_cell for merge in merges]
        served = serve(load.led, cells, protocol, load.lead_s)
        ceiling = ceilings.of(len(merges))
        runs.append(run_figures(load, policy, merges, envelope, ceiling, served, protocol))
        random_pp[policy] = 100 * envelope.costs / len(load.requests)
        loads[policy] = served_load(served, load.led)
        control_loads[policy] = control_load(load, envelope, protocol)
    counts = requests_per_cell(load.requests, protocol.cell_s)
    made, lead_s = envelopes.made, load.lead_s
    return Scored(tuple(runs), made, random_pp, loads, control_loads, counts, lead_s)
