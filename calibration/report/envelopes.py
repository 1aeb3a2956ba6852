"""The envelope's picture: matched random cost, where the policy lies in it, and the oracle."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from calibration.report.axis import Axis, around
from calibration.report.rows import Policy, mean


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar, from `low` to `high` in % of requests.

    `share` is its height over the tallest one's; `tail` says that it is below the 5th percentile.
    """

    low: float
    high: float
    share: float
    tail: bool


@dataclass(frozen=True, slots=True)
class Envelope:
    """One policy beside random schedules with as many merges; costs in % of requests."""

    policy: str
    axis: Axis
    bars: tuple[Bar, ...]
    draws: int
    budget: float
    cost: float
    random: float
    p05: float
    median: float
    p95: float
    least: float
    most: float
    oracle: float

    def near(self) -> Axis:
        """An axis for this envelope alone."""
        return around((self.least, self.most, self.cost, self.oracle))

    @property
    def below(self) -> bool:
        """Is the policy below the 5th percentile of its control?"""
        return self.cost < self.p05


def envelopes(
    policies: Sequence[Policy], pictures: Sequence[Mapping[str, Any]]
) -> tuple[Envelope, ...]:
    """Each policy's envelope, all on one axis; none for a policy without a picture."""
    drawn = {picture["policy"]: picture for picture in pictures}
    shown = [policy for policy in policies if policy.name in drawn]
    if not shown:
        return ()
    axis = around(x for policy in shown for x in _values(policy, drawn[policy.name]))
    return tuple(_envelope(policy, drawn[policy.name], axis) for policy in shown)


def _values(policy: Policy, picture: Mapping[str, Any]) -> tuple[float, ...]:
    return (picture["least_pp"], picture["most_pp"], policy.cost_pp, policy.oracle_pp)


def _envelope(policy: Policy, picture: Mapping[str, Any], axis: Axis) -> Envelope:
    p05 = picture["p05_pp"]
    edges, tallest = picture["edges_pp"], max(picture["counts"])
    bars = tuple(
        Bar(low, high, count / tallest, (low + high) / 2 < p05)
        for count, low, high in zip(picture["counts"], edges, edges[1:], strict=False)
        if count
    )
    return Envelope(
        policy=policy.name,
        axis=axis,
        bars=bars,
        draws=picture["draws"],
        budget=mean([run["budget"] for run in policy.runs]),
        cost=policy.cost_pp,
        random=policy.random_pp,
        p05=p05,
        median=picture["median_pp"],
        p95=picture["p95_pp"],
        least=picture["least_pp"],
        most=picture["most_pp"],
        oracle=policy.oracle_pp,
    )
