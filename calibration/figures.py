"""The figures of one policy in one run, and what the run served."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from calibration.contender import Merge
from calibration.crossfit import Ceiling
from calibration.envelope import Envelope
from calibration.fairness import Fairness, fairness
from calibration.placement import Degradation, Grid, degradation
from calibration.protocol import Protocol
from calibration.results import Run, share
from calibration.serving import Overlap, Requests, Served


@dataclass(frozen=True, slots=True)
class ServedLoad:
    """What one arm of one run served, a control on average; `tokens` None where unknown."""

    requests: float
    tokens: float | None


@dataclass(frozen=True, slots=True, eq=False)
class Stretch:
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
        """The run's name."""
        return f"{self.trace}#{self.segment}"


def run_figures(
    load: Stretch,
    policy: str,
    merges: list[Merge],
    envelope: Envelope,
    ceiling: Ceiling,
    served: Served,
    protocol: Protocol,
) -> Run:
    """One policy's figures in one run: its schedule, its control, and what the model served."""
    costs = load.grid.costs_per_start[[merge.start_cell for merge in merges]]
    cost, gain = float(costs.sum()), envelope.mean - float(costs.sum())
    known = _forecasts(merges, protocol)
    wrong = _degradation(load.grid, known, len(merges)) if known else None
    error, bias = _forecast_error(known, load.grid)
    sidecars = _fairness(served, load.led.sidecar, load.lead_s)
    tenants = _fairness(served, load.led.tenant, load.lead_s)
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
        excess_pp=_excess_pp(served, load, protocol.slo_s),
        forecast_error=error,
        forecast_bias=bias,
        forecast_worst=wrong.window_error if wrong else None,
        bound=wrong.bound if wrong else None,
        bound_share=share(cost - envelope.oracle_exact, wrong.bound) if wrong else None,
        ceiling=ceiling.gain,
        ceiling_se=ceiling.standard_error,
        jain_sidecars=sidecars.jain if sidecars else None,
        jain_tenants=tenants.jain if tenants else None,
        sidecars=sidecars.bearers() if sidecars else None,
        tenants=tenants.bearers() if tenants else None,
        worst_sidecar=sidecars.worst if sidecars else None,
        worst_sidecar_burden=sidecars.worst_burden if sidecars else None,
        worst_tenant=tenants.worst if tenants else None,
        worst_tenant_burden=tenants.worst_burden if tenants else None,
        starts_s=tuple(merge.start_cell * protocol.cell_s for merge in merges),
        reasons=tuple(merge.reason for merge in merges),
    )


def _excess_pp(served: Served, load: Stretch, slo_s: float) -> float | None:
    """Over the requests of the run alone: those of its lead no window can touch."""
    rate = served.violation_rate(slo_s, load.lead_s)
    base = load.unmerged.violation_rate(slo_s, load.lead_s)
    return None if rate is None or base is None else 100 * (rate - base)


def _forecasts(merges: list[Merge], protocol: Protocol) -> dict[int, float]:
    """Forecast by start; none where the model counts otherwise than what arrives or is served."""
    if not isinstance(protocol.model, Overlap) or protocol.model.counting != "in_service":
        return {}
    return {merge.start_cell: merge.forecast for merge in merges if merge.forecast is not None}


def _forecast_error(forecasts: dict[int, float], grid: Grid) -> tuple[float | None, float | None]:
    """Mean absolute error and bias."""
    if not forecasts:
        return None, None
    errors = np.array([known - grid.costs_per_start[at] for at, known in forecasts.items()])
    return float(np.abs(errors).mean()), float(errors.mean())


def _degradation(grid: Grid, forecasts: dict[int, float], budget: int) -> Degradation:
    """What errors as large as the recorded ones can cost; other windows are taken as known."""
    looked = grid.costs_per_start.astype(np.float64)
    looked[list(forecasts)] = list(forecasts.values())
    return degradation(grid, Grid.in_corridor(grid.corridor, looked), budget)


def _fairness(
    served: Served, labels: npt.NDArray[np.generic] | None, lead_s: float
) -> Fairness | None:
    """Who bears the harm, of the requests sent in the run; None for one label or unknown ones."""
    if labels is None or (served.request < 0).any() or len(np.unique(labels)) < 2:
        return None
    own = served.arrival_s >= lead_s
    return fairness(served.harmed[own], labels[served.request[own]])


def served_load(served: Served, requests: Requests) -> ServedLoad:
    """Requests and tokens that were served of those given."""
    known = requests.tokens is not None and not (served.request < 0).any()
    tokens = int(requests.tokens[served.request].sum()) if known else None  # type: ignore[index]
    return ServedLoad(len(served.request), tokens)
