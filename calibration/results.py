"""What an evaluation says of each run and policy: one set of figures for all outputs."""

from collections.abc import Iterable
from dataclasses import dataclass

from calibration.fairness import Bearer, worst_of


@dataclass(frozen=True, slots=True)
class Run:
    """One policy in one run, beside matched random schedules of the same budget.

    Costs are requests that the windows harm, in the serving model's sense, summed over windows.

    Attributes:
        run: name of the run, the same for every policy on the same load.
        trace: name of the trace or regime's run that it was cut from.
        segment: number of the stretch of that trace, from 0.
        requests: how many arrived in the run.
        policy: name of the policy.
        budget: how many merges the policy made.
        cost: of the policy's schedule.
        random_mean: mean cost of matched random schedules, exact.
        random_sd: their standard deviation, exact.
        random_p05: 5th percentile of the drawn ones.
        percentile: share of the drawn schedules that cost less, ties by half, 0 to 100.
        oracle_exact: least cost of any schedule of this budget.
        oracle_greedy: cost of the greedy re-selection.
        gain: (random_mean - cost) / random_mean; None where the mean is 0.
        gain_pp: random_mean - cost in percentage points of the run's requests.
        capture: the gain over the exact oracle's; None where that is 0.
        excess_pp: violation rate minus that without merges, percentage points; None if unknown.
        forecast_error: mean absolute difference of forecast and cost at the starts, requests a
            window; None where the model counts otherwise than the forecast or none is known.
        forecast_bias: mean difference, forecast minus cost.
        forecast_worst: e, the largest such difference at the policy's own starts.
        bound: 2 K e: what a schedule chosen by forecasts no worse can cost above the best one.
        bound_share: what this one costs above the best, over `bound`; None where that is 0.
        ceiling: predictable ceiling of this budget, comparable to `gain`; None where unknown.
        ceiling_se: its standard error from the random splits alone.
        jain_sidecars: Jain's index of the sidecars' harm rates; None without harm or with one.
        jain_tenants: the same over tenants.
        sidecars: each sidecar's part of the requests and of the harm; None with one or unknown.
        tenants: the same by tenant.
        worst_sidecar: the sidecar that bears most for its requests; None without harm.
        worst_sidecar_burden: its share of harm over its share of requests.
        worst_tenant, worst_tenant_burden: the same by tenant.
        starts_s: when the windows open, seconds from the run's start.
        reasons: why each merge was made.
    """

    run: str
    trace: str
    segment: int
    requests: int
    policy: str
    budget: int
    cost: float
    random_mean: float
    random_sd: float
    random_p05: float
    percentile: float
    oracle_exact: float
    oracle_greedy: float
    gain: float | None
    gain_pp: float
    capture: float | None
    excess_pp: float | None
    forecast_error: float | None
    forecast_bias: float | None
    forecast_worst: float | None
    bound: float | None
    bound_share: float | None
    ceiling: float | None
    ceiling_se: float | None
    jain_sidecars: float | None
    jain_tenants: float | None
    sidecars: tuple[Bearer, ...] | None
    tenants: tuple[Bearer, ...] | None
    worst_sidecar: str | None
    worst_sidecar_burden: float | None
    worst_tenant: str | None
    worst_tenant_burden: float | None
    starts_s: tuple[float, ...]
    reasons: tuple[str, ...]


def share(part: float, whole: float) -> float | None:
    """`part / whole`; None where the whole is not above 0 and the share means nothing."""
    return part / whole if whole > 0 else None


def worst_sidecar(runs: Iterable[Run]) -> Bearer | None:
    """Who bears most for its requests, the runs put together; None where unknown."""
    parts = [run.sidecars for run in runs]
    return worst_of(bearer for part in parts for bearer in part or ())


def worst_tenant(runs: Iterable[Run]) -> Bearer | None:
    """The same by tenant."""
    parts = [run.tenants for run in runs]
    return worst_of(bearer for part in parts for bearer in part or ())
