"""Runs to figures: every policy's schedule beside matched random ones of its own budget.

A source is one served trace with the stretches of it that are scored. Each stretch is one run of
every policy; each policy hands its budget K down to its own control.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import msgspec
import numpy as np
import numpy.typing as npt

from calibration.contender import Entrant, Merge
from calibration.costs import run_costs, serve, stretch
from calibration.envelope import Envelope, Envelopes
from calibration.fairness import fairness
from calibration.placement import Grid
from calibration.protocol import Protocol
from calibration.results import Run, share
from calibration.serving import Overlap, Requests, Served, requests_per_cell
from calibration.simulate import Segment, simulate

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
BASELINE = "no merges"
LEAD_S = 5.0


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """A trace served without merges (every `e2e_s` known), and the cells its runs start at.

    `seed` is for policies that toss coins: sources with one seed toss the same ones.
    """

    name: str
    requests: Requests
    first_cells: tuple[int, ...]
    seed: int = 0


@dataclass(frozen=True, slots=True)
class ServedLoad:
    """What one arm of one run served; `tokens` None where unknown."""

    requests: int
    tokens: int | None


@dataclass(frozen=True, slots=True, eq=False)
class Scored:
    """One run of all policies.

    Attributes:
        runs: each policy's figures, in the order they were entered.
        random_pp: by policy, costs of its control's schedules [draws], percentage points.
        loads: by policy, what its run served; under `BASELINE`, without merges.
        counts: [cells] arrivals.
    """

    runs: tuple[Run, ...]
    random_pp: dict[str, Floats]
    loads: dict[str, ServedLoad]
    counts: Ints


@dataclass(frozen=True, slots=True, eq=False)
class _Stretch:
    """One run's load, before any policy; `led` is the same from `lead_s` before the run on."""

    trace: str
    segment: int
    requests: Requests
    grid: Grid
    led: Requests
    lead_s: float
    unmerged: Served

    @property
    def name(self) -> str:
        return f"{self.trace}#{self.segment}"


def evaluate(
    sources: Iterable[Source], entrants: Sequence[Entrant], protocol: Protocol
) -> Iterator[Scored | None]:
    """Score run after run of every source; None for a stretch without a single request."""
    number = 0
    for source in sources:
        segments = [Segment(first, protocol.corridor) for first in source.first_cells]
        leads_s = [_lead_s(protocol, number + i) for i in range(len(segments))]
        costs = run_costs(source.requests, source.first_cells, protocol, leads_s)
        seeded = [_seeded(entrant, source.seed) for entrant in entrants]
        placed = simulate(source.requests, segments, seeded, cell_s=protocol.cell_s)
        for index, (merges, cost) in enumerate(zip(placed, costs, strict=True)):
            grid = _grid(cost, protocol)
            load = _stretch(source, index, grid, protocol, leads_s[index])
            envelopes = Envelopes(grid, protocol, number)
            yield _score(load, merges, envelopes, protocol) if len(load.requests) else None
            number += 1


def _lead_s(protocol: Protocol, number: int) -> float:
    """How long before a run its serving model begins, at random.

    A schedule that is in step with a closed loop's batches would else be so in every run.
    """
    return float(np.random.default_rng([protocol.seed, number]).uniform(0.0, LEAD_S))


def _stretch(source: Source, index: int, grid: Grid, protocol: Protocol, lead_s: float) -> _Stretch:
    first = source.first_cells[index]
    own = stretch(source.requests, first, protocol)
    led = stretch(source.requests, first, protocol, lead_s)
    unmerged = serve(led, [], protocol, lead_s)
    return _Stretch(source.name, index, own, grid, led, lead_s, unmerged)


def _seeded(entrant: Entrant, seed: int) -> Entrant:
    return replace(entrant, settings=msgspec.structs.replace(entrant.settings, seed=seed))


def _grid(costs: Ints, protocol: Protocol) -> Grid:
    run = protocol.corridor
    return Grid.from_costs(costs, run.window_cells, run.min_gap_cells, run.max_gap_cells)


def _score(
    load: _Stretch, placed: dict[str, list[Merge]], envelopes: Envelopes, protocol: Protocol
) -> Scored:
    runs, random_pp = [], {}
    loads = {BASELINE: _served(load.unmerged, load.led)}
    for policy, merges in placed.items():
        envelope = envelopes.of(len(merges))
        cells = [merge.start_cell for merge in merges]
        served = serve(load.led, cells, protocol, load.lead_s)
        runs.append(_run(load, policy, merges, envelope, served, protocol))
        random_pp[policy] = 100 * envelope.costs / len(load.requests)
        loads[policy] = _served(served, load.led)
    counts = requests_per_cell(load.requests, protocol.cell_s)
    return Scored(tuple(runs), random_pp, loads, counts)


def _run(
    load: _Stretch,
    policy: str,
    merges: list[Merge],
    envelope: Envelope,
    served: Served,
    protocol: Protocol,
) -> Run:
    costs = load.grid.costs_per_start[[merge.start_cell for merge in merges]]
    cost, gain = float(costs.sum()), envelope.mean - float(costs.sum())
    error, bias = _forecast(merges, costs, protocol)
    return Run(
        run=load.name,
        trace=load.trace,
        segment=load.segment,
        requests=len(load.requests),
        policy=policy,
        budget=len(merges),
        cost=cost,
        random_mean=envelope.mean,
        random_sd=envelope.sd,
        random_p05=envelope.p05,
        percentile=envelope.percentile(cost),
        oracle_exact=envelope.oracle_exact,
        oracle_greedy=envelope.oracle_greedy,
        gain=share(gain, envelope.mean),
        gain_pp=100 * gain / len(load.requests),
        capture=share(gain, envelope.mean - envelope.oracle_exact),
        excess_pp=_excess_pp(served, load.unmerged, protocol.slo_s),
        forecast_error=error,
        forecast_bias=bias,
        jain_sidecars=_jain(served, load.led.sidecar),
        jain_tenants=_jain(served, load.led.tenant),
        starts_s=tuple(merge.start_cell * protocol.cell_s for merge in merges),
        reasons=tuple(merge.reason for merge in merges),
    )


def _excess_pp(served: Served, unmerged: Served, slo_s: float) -> float | None:
    rate, base = served.violation_rate(slo_s), unmerged.violation_rate(slo_s)
    return None if rate is None or base is None else 100 * (rate - base)


def _forecast(
    merges: list[Merge], costs: npt.NDArray[np.number], protocol: Protocol
) -> tuple[float | None, float | None]:
    """Mean absolute error and bias; the forecast counts what arrives and what is in service."""
    counted = isinstance(protocol.model, Overlap) and protocol.model.counting == "in_service"
    errors = [
        merge.forecast - float(cost)
        for merge, cost in zip(merges, costs, strict=True)
        if merge.forecast is not None
    ]
    if not counted or not errors:
        return None, None
    return float(np.mean(np.abs(errors))), float(np.mean(errors))


def _jain(served: Served, labels: npt.NDArray[np.generic] | None) -> float | None:
    if labels is None or (served.request < 0).any() or len(np.unique(labels)) < 2:
        return None
    return fairness(served.harmed, labels[served.request]).jain


def _served(served: Served, requests: Requests) -> ServedLoad:
    known = requests.tokens is not None and not (served.request < 0).any()
    tokens = int(requests.tokens[served.request].sum()) if known else None  # type: ignore[index]
    return ServedLoad(len(served.request), tokens)
