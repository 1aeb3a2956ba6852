"""The gains' picture: each policy's gain with its interval, the ceiling and the oracle."""

from collections.abc import Sequence
from dataclasses import dataclass

from calibration.report.axis import Axis, around
from calibration.report.rows import GAIN, Policy


@dataclass(frozen=True, slots=True)
class Gain:
    """One policy's gain over matched random, percentage points of requests."""

    policy: str
    axis: Axis
    verdict: str
    gain: float
    interval: tuple[float, float] | None
    ceiling: float | None
    oracle: float
    p_value: float
    merges: float

    @property
    def claimed(self) -> bool:
        """May a placement gain be claimed?"""
        return self.verdict == GAIN


def forest(policies: Sequence[Policy]) -> tuple[Gain, ...]:
    """One row a policy, all on one axis that holds 0."""
    axis = around([0.0, *(x for policy in policies for x in _values(policy))])
    return tuple(_gain(policy, axis) for policy in policies)


def _values(policy: Policy) -> list[float | None]:
    verdict = policy.verdict
    oracle = policy.random_pp - policy.oracle_pp
    return [verdict["gain_pp"], policy.ceiling_pp, oracle, *(verdict["interval"] or ())]


def _gain(policy: Policy, axis: Axis) -> Gain:
    verdict = policy.verdict
    return Gain(
        policy=policy.name,
        axis=axis,
        verdict=verdict["verdict"],
        gain=verdict["gain_pp"],
        interval=verdict["interval"],
        ceiling=policy.ceiling_pp,
        oracle=policy.random_pp - policy.oracle_pp,
        p_value=verdict["p_value"],
        merges=policy.mean_of("budget") or 0.0,
    )
