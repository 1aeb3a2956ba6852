"""The verdict: what may be claimed of each policy named, from the steps of the gate."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from calibration.correction import holm, max_t
from calibration.equivalence import LoadMatch
from calibration.gate import (
    RunFigures,
    Step,
    Tested,
    effect_step,
    envelope_step,
    independence_step,
    least_gain_step,
    load_step,
    runs_step,
    sign_flip_step,
)
from calibration.phase import PhaseLock
from calibration.profile import Effect
from calibration.signflip import interval, sign_flip
from slackwater.errors import InputError

Name = Literal["no effect", "load not matched", "budget only", "no claim", "placement gain"]
Tier = Literal["none", "serving model", "measured sidecar"]
Floats = NDArray[np.float64]
Evidence = TypeVar("Evidence")


@dataclass(frozen=True, slots=True)
class Verdict:
    """What may be claimed of one policy.

    Attributes:
        policy: its name.
        verdict: one of five.
        tier: what a placement gain holds for: the serving model, or a measured sidecar too.
        n: independent runs.
        gain_pp: matched random mean minus policy, mean over runs, percentage points of requests.
        gain: the same as a share of the matched random mean; None when that is 0.
        interval_pp: 95% interval of `gain_pp`, for this policy alone; None under 6 runs.
        p_value: two-sided, corrected for the policies named.
        p_raw: the same, uncorrected.
        capture: gain over the exact oracle's; None when that is unknown or not above 0.
        spared_requests: requests spared per run, mean over runs.
        policies: how many were named, and corrected for.
        steps: the gate's, in order.
        reason: why this verdict.
    """

    policy: str
    verdict: Name
    tier: Tier
    n: int
    gain_pp: float
    gain: float | None
    interval_pp: tuple[float, float] | None
    p_value: float
    p_raw: float
    capture: float | None
    spared_requests: float
    policies: int
    steps: tuple[Step, ...]
    reason: str


def judge(
    evidence: Mapping[str, Sequence[RunFigures]],
    loads: Mapping[str, LoadMatch],
    phases: PhaseLock | None,
    effect: Effect | None,
    *,
    least_gain: float = 0.0,
    p05_pp: Mapping[str, float] | None = None,
    measured: Mapping[str, tuple[Step, Step]] | None = None,
    rng: np.random.Generator | None = None,
) -> list[Verdict]:
    """A verdict for each policy in `evidence`, corrected for how many there are.

    Name one policy beforehand and pass it alone: the correction is the price of several.

    Args:
        evidence: independent runs of each policy.
        loads: load match by policy; one that is missing is unknown, hence not matched.
        phases: the runs' phase check; None is unchecked, hence no claim.
        effect: effect transfer to a real sidecar; None limits a gain to the serving model.
        least_gain: share of the matched random mean below which a gain is worth no claim.
        p05_pp: by policy, 5th percentile of the mean cost of random schedules over all runs.
        measured: by policy, the steps of effect and envelope where requests themselves were
            measured under policy and control; `effect` and `p05_pp` are then not looked at.
        rng: for more than 20 runs, or more than 14 with several policies.

    Raises `InputError` for no policy, no runs, a run named twice or a least gain that is no share.
    """
    _check(evidence)
    _check_least(least_gain)
    random = _tests({p: _gains(runs) for p, runs in evidence.items()}, evidence, rng)
    over_fixed = {p: _over_fixed(runs) for p, runs in evidence.items()}
    fixed = _tests({p: g for p, g in over_fixed.items() if g is not None}, evidence, rng)
    found = []
    for policy, runs in evidence.items():
        own = (effect_step(effect), envelope_step(runs, (p05_pp or {}).get(policy)))
        effect_found, envelope_found = own if measured is None else measured[policy]
        steps = (
            effect_found,
            load_step(loads.get(policy)),
            independence_step(phases),
            runs_step(len(runs)),
            sign_flip_step("sign-flip", "matched random", random[policy]),
            envelope_found,
            least_gain_step(runs, least_gain),
            sign_flip_step("fixed period", "the fixed period", fixed.get(policy)),
        )
        found.append(_verdict(policy, runs, random[policy], steps, len(evidence), rng))
    return found


def claim_first(
    judged: Callable[[Mapping[str, Evidence]], list[Verdict]],
    evidence: Mapping[str, Evidence],
    claim: str | None,
) -> list[Verdict]:
    """The policy named beforehand judged by itself; after it the others, corrected for all."""
    found = judged(evidence)
    if claim is None or len(evidence) == 1:
        return found
    alone = judged({claim: evidence[claim]})
    return alone + [verdict for verdict in found if verdict.policy != claim]


def _verdict(
    policy: str,
    runs: Sequence[RunFigures],
    test: Tested,
    steps: tuple[Step, ...],
    policies: int,
    rng: np.random.Generator | None,
) -> Verdict:
    gains = _gains(runs)
    spared = [gain / 100 * run.requests for gain, run in zip(gains, runs, strict=True)]
    name, reason = _decide(steps)
    return Verdict(
        policy=policy,
        verdict=name,
        tier=_tier(name, steps[0]),
        n=len(runs),
        gain_pp=test.gain_pp,
        gain=_ratio(gains.sum(), sum(run.random_mean_pp for run in runs)),
        interval_pp=interval(gains, rng=rng),
        p_value=test.p_value,
        p_raw=test.p_raw,
        capture=_capture(runs),
        spared_requests=float(np.mean(spared)),
        policies=policies,
        steps=steps,
        reason=reason,
    )


def _decide(steps: tuple[Step, ...]) -> tuple[Name, str]:
    effect, load, independent, enough, test, envelope, worth, fixed = steps
    if effect.passed is False:
        return "no effect", effect.reason
    if not load.passed:
        return "load not matched", load.reason
    for needed in (independent, enough):
        if not needed.passed:
            return "no claim", needed.reason
    failed = next((s.reason for s in (test, envelope, worth) if not s.passed), None)
    if failed is None:
        return "placement gain", f"{test.reason}; {envelope.reason}"
    if fixed.passed:
        return "budget only", f"{fixed.reason}; against matched random: {failed}"
    return "no claim", failed


def _tier(name: Name, effect: Step) -> Tier:
    if name != "placement gain":
        return "none"
    return "measured sidecar" if effect.passed else "serving model"


def _check(evidence: Mapping[str, Sequence[RunFigures]]) -> None:
    if not evidence:
        msg = "no policy was named; a verdict needs one"
        raise InputError(msg)
    for policy, runs in evidence.items():
        names = [run.run for run in runs]
        if not runs or len(set(names)) < len(names):
            msg = f"policy {policy!r} has {len(runs)} runs; one or more are needed, each named once"
            raise InputError(msg)


def _check_least(least_gain: float) -> None:
    if not 0 <= least_gain < 1:
        msg = f"a least gain of {least_gain} is no share; it must be 0 or more and below 1"
        raise InputError(msg)


def _gains(runs: Sequence[RunFigures]) -> Floats:
    return np.array([run.random_mean_pp - run.policy_pp for run in runs])


def _over_fixed(runs: Sequence[RunFigures]) -> Floats | None:
    known = [run.fixed_pp - run.policy_pp for run in runs if run.fixed_pp is not None]
    return np.array(known) if len(known) == len(runs) else None


def _tests(
    gains: Mapping[str, Floats],
    evidence: Mapping[str, Sequence[RunFigures]],
    rng: np.random.Generator | None,
) -> dict[str, Tested]:
    """Two-sided tests by policy, corrected by max-T where all share their runs, else by Holm."""
    raw = [sign_flip(g, "two-sided", rng).p_value for g in gains.values()]
    adjusted = raw
    if len(gains) > 1:
        shared = len({tuple(run.run for run in evidence[policy]) for policy in gains}) == 1
        table = np.column_stack(list(gains.values())) if shared else None
        adjusted = (holm(raw) if table is None else max_t(table, rng)).tolist()
    return {
        policy: Tested(float(g.mean()), p_raw, p_value)
        for (policy, g), p_raw, p_value in zip(gains.items(), raw, adjusted, strict=True)
    }


def _capture(runs: Sequence[RunFigures]) -> float | None:
    ceiling = [run.random_mean_pp - run.oracle_pp for run in runs if run.oracle_pp is not None]
    return _ratio(_gains(runs).sum(), sum(ceiling)) if len(ceiling) == len(runs) else None


def _ratio(part: float, whole: float) -> float | None:
    return float(part / whole) if whole > 0 else None
