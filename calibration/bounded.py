"""What a bound on one sidecar's harm cost in gain, and what it did to the worst burden."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from calibration.experiment import Scored
from calibration.fairness import Bearer
from calibration.results import Run, share, worst_sidecar
from calibration.signflip import interval


@dataclass(frozen=True, slots=True)
class BoundPrice:
    """One policy with the bound beside itself without, paired over runs.

    Each is measured against matched random schedules of its own budget: the price is of placement,
    not of merging more or less often.

    Attributes:
        policy: its name without the bound.
        max_burden: the bound.
        n: runs.
        gain_pp: placement gain without the bound, mean over runs, percentage points of requests.
        bounded_gain_pp: the same with it.
        price_pp: what the bound cost, `gain_pp - bounded_gain_pp`.
        price_interval_pp: 95% interval of it; None under 6 runs.
        price_share: `price_pp` as a share of `gain_pp`; None where that is not above 0.
        budget, bounded_budget: merges, mean over runs.
        harmed_pp, bounded_harmed_pp: requests in windows, mean over runs, percentage points.
        worst, bounded_worst: the sidecar that bears most for its requests, the runs put together;
            None where unknown.
        exceeded: whether `bounded_worst` lies above `max_burden`. The bound is soft: it refuses
            what a policy chooses by expected harm, not what H_max or the run's end forces.
    """

    policy: str
    max_burden: float
    n: int
    gain_pp: float
    bounded_gain_pp: float
    price_pp: float
    price_interval_pp: tuple[float, float] | None
    price_share: float | None
    budget: float
    bounded_budget: float
    harmed_pp: float
    bounded_harmed_pp: float
    worst: Bearer | None
    bounded_worst: Bearer | None
    exceeded: bool | None


def bounded_name(policy: str, max_burden: float) -> str:
    """The name under which a policy runs with the bound.

    >>> bounded_name("slack", 1.2)
    'slack+burden1.2'
    """
    return f"{policy}+burden{max_burden:g}"


def prices(
    scored: Sequence[Scored], max_burden: float, rng: np.random.Generator
) -> list[BoundPrice]:
    """The price of the bound for each policy that ran with it and without.

    Args:
        scored: runs, one or more.
        max_burden: the bound.
        rng: for the intervals of more than 20 runs.
    """
    names = [run.policy for run in scored[0].runs]
    both = [name for name in names if bounded_name(name, max_burden) in names]
    return [_price(name, scored, max_burden, rng) for name in both]


def _price(
    policy: str, scored: Sequence[Scored], max_burden: float, rng: np.random.Generator
) -> BoundPrice:
    free, bounded = _runs(policy, scored), _runs(bounded_name(policy, max_burden), scored)
    lost = [a.gain_pp - b.gain_pp for a, b in zip(free, bounded, strict=True)]
    gain_pp, price_pp = _mean([run.gain_pp for run in free]), _mean(lost)
    worst = worst_sidecar(bounded)
    return BoundPrice(
        policy=policy,
        max_burden=max_burden,
        n=len(free),
        gain_pp=gain_pp,
        bounded_gain_pp=_mean([run.gain_pp for run in bounded]),
        price_pp=price_pp,
        price_interval_pp=interval(lost, rng=rng),
        price_share=share(price_pp, gain_pp),
        budget=_mean([run.budget for run in free]),
        bounded_budget=_mean([run.budget for run in bounded]),
        harmed_pp=_mean([100 * run.cost / run.requests for run in free]),
        bounded_harmed_pp=_mean([100 * run.cost / run.requests for run in bounded]),
        worst=worst_sidecar(free),
        bounded_worst=worst,
        exceeded=None if worst is None or worst.burden is None else worst.burden > max_burden,
    )


def _runs(policy: str, scored: Sequence[Scored]) -> list[Run]:
    return [run for one in scored for run in one.runs if run.policy == policy]


def _mean(values: list[float]) -> float:
    return float(np.mean(values))
