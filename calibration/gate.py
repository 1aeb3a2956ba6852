"""The gate: the steps that the evidence for one policy must pass, each with its figures.

Costs are in percentage points of requests: harmed or violating requests, less those of the
no-merge run, per 100 requests of the run.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibration.equivalence import LoadMatch
from calibration.phase import MIN_PHASES, PhaseLock
from calibration.profile import MIN_MERGES, Effect
from slackwater.errors import InputError

ALPHA = 0.05
LOW_SHARE = 0.05
"""The share of random schedules that a claimed policy must be better than all but."""
MIN_RUNS = MIN_PHASES
"""A two-sided sign-flip test of n runs has p >= 2^(1 - n): 5 runs cannot reach 5%."""

Figure = float | int | str | None


@dataclass(frozen=True, slots=True)
class RunFigures:
    """One independent run of one policy, beside matched random schedules of the same budget.

    Attributes:
        run: its name, unique for the policy and the same for every policy on the same load.
        requests: how many it served.
        policy_pp: cost of the policy.
        random_mean_pp: mean cost of matched random schedules.
        random_p05_pp: 5th percentile of their cost.
        fixed_pp: cost of the fixed-period baseline; None when it was not run.
        oracle_pp: cost of the exact optimum of the same budget; None when unknown.
    """

    run: str
    requests: int
    policy_pp: float
    random_mean_pp: float
    random_p05_pp: float
    fixed_pp: float | None = None
    oracle_pp: float | None = None

    def __post_init__(self) -> None:
        given = [self.policy_pp, self.random_mean_pp, self.random_p05_pp]
        given += [x for x in (self.fixed_pp, self.oracle_pp) if x is not None]
        if self.requests < 1 or not all(math.isfinite(x) for x in given):
            msg = f"{self}: a run needs 1 request or more, and finite costs"
            raise InputError(msg)


@dataclass(frozen=True, slots=True)
class Step:
    """One step of the gate: passed, failed, or None when it could not be taken."""

    name: str
    passed: bool | None
    figures: dict[str, Figure]
    reason: str


@dataclass(frozen=True, slots=True)
class Tested:
    """Two-sided sign-flip test of a mean gain: p alone, and corrected for the policies named."""

    gain_pp: float
    p_raw: float
    p_value: float


def effect_step(effect: Effect | None) -> Step:
    """Do merges change latency on a real sidecar? The whole interval must lie above 1."""
    name = "effect transfer"
    if effect is None:
        return Step(name, None, {}, "no real sidecar was measured; the serving model is assumed")
    figures: dict[str, Figure] = {
        "merges": effect.merges,
        "p95_ratio": effect.p95_ratio,
        "p95_ratio_low": effect.p95_ratio_low,
        "p95_ratio_high": effect.p95_ratio_high,
        "odds_ratio": effect.odds_ratio,
        "odds_ratio_low": effect.odds_ratio_low,
    }
    if effect.merges < MIN_MERGES:
        reason = f"{effect.merges} merges were measured; {MIN_MERGES} are needed"
        return Step(name, None, figures, reason)
    odds = effect.odds_ratio_low
    passed = effect.p95_ratio_low > 1 and (odds is None or odds > 1)
    shown = f"p95 ratio {effect.p95_ratio:.2f} from {effect.p95_ratio_low:.2f} up"
    said = "merges raise latency" if passed else "merges were not shown to raise latency"
    if odds is not None:
        shown += f", odds of a violation {effect.odds_ratio:.2f} from {odds:.2f} up"
    return Step(name, passed, figures, f"{said} on the measured sidecar: {shown}")


def load_step(load: LoadMatch | None) -> Step:
    """Did the arms serve the same load? Unknown is not matched."""
    if load is None:
        return Step("load match", None, {}, "the arms' loads were not compared")
    figures: dict[str, Figure] = {f"{f.arm} {f.figure} ratio": f.ratio for f in load.figures}
    return Step("load match", load.matched, figures, load.reason)


def independence_step(lock: PhaseLock | None) -> Step:
    """Are the runs independent of each other?"""
    if lock is None:
        return Step("independent runs", None, {}, "the runs' phases were not checked")
    figures: dict[str, Figure] = {"period_s": lock.period_s, "locking": lock.locking}
    return Step("independent runs", lock.independent, figures, lock.reason)


def runs_step(n: int) -> Step:
    """Are there enough runs for a two-sided claim at 5%?"""
    least = 2.0 ** (1 - n)
    reason = f"{n} runs; p can go down to {least:.2g}"
    if n < MIN_RUNS:
        reason = f"{n} runs cannot reach p = {ALPHA} two-sided; {MIN_RUNS} are needed"
    return Step("enough runs", n >= MIN_RUNS, {"n": n, "least_p": least}, reason)


def sign_flip_step(name: str, than: str, test: Tested | None) -> Step:
    """Is the mean gain positive, and the corrected p at most 5%? None: not run."""
    if test is None:
        return Step(name, None, {}, f"{than} was not run")
    figures: dict[str, Figure] = {
        "gain_pp": test.gain_pp,
        "p_raw": test.p_raw,
        "p_value": test.p_value,
    }
    direction = "more" if test.gain_pp < 0 else "less"
    reason = f"costs {abs(test.gain_pp):.3f} pp {direction} than {than}, p = {test.p_value:.4f}"
    return Step(name, test.gain_pp > 0 and test.p_value <= ALPHA, figures, reason)


def least_gain_step(runs: Sequence[RunFigures], least: float) -> Step:
    """Is the gain as seen at least the one that is worth a claim?

    `least` is a share of the matched random mean. A real gain may be too small to matter; whether
    it is real is for the other steps.
    """
    random = float(np.mean([run.random_mean_pp for run in runs]))
    gain = float(np.mean([run.random_mean_pp - run.policy_pp for run in runs]))
    share = gain / random if random > 0 else None
    figures: dict[str, Figure] = {"least": least, "gain": share}
    # A least gain of 0 asks nothing.
    passed = least == 0 or (share is not None and share >= least)
    shown = "nothing" if share is None else f"{share:.1%}"
    reason = f"spares {shown} of what matched random harms; {least:.1%} or more are worth a claim"
    return Step("least gain", passed, figures, reason)


def envelope_step(runs: Sequence[RunFigures], p05_pp: float | None) -> Step:
    """Is the mean cost over the runs below the 5th percentile of that of random schedules?

    `p05_pp` is that percentile of the mean over all runs, from `mean_envelope`; None takes
    `pooled_p05`.
    """
    policy = float(np.mean([run.policy_pp for run in runs]))
    bound = pooled_p05(runs) if p05_pp is None else p05_pp
    below = sum(run.policy_pp < run.random_p05_pp for run in runs)
    figures: dict[str, Figure] = {
        "policy_pp": policy,
        "random_p05_pp": bound,
        "runs_below_their_own": below,
    }
    where = "below" if policy < bound else "not below"
    reason = f"mean cost {policy:.3f} pp is {where} the envelope's 5th percentile, {bound:.3f} pp"
    return Step("envelope", policy < bound, figures, reason)


def pooled_p05(runs: Sequence[RunFigures]) -> float:
    """5th percentile of the mean cost of random schedules over the runs, from each run's own.

    The distances from mean to 5th percentile add as standard deviations do: exact where costs are
    normal, close for a sum of many windows.
    """
    mean = float(np.mean([run.random_mean_pp for run in runs]))
    below = math.hypot(*(run.random_mean_pp - run.random_p05_pp for run in runs))
    return mean - below / len(runs)


def mean_p05(draws_pp: Sequence[ArrayLike]) -> float:
    """5th percentile of the mean over the runs of random schedules' costs [draws] in each."""
    return float(np.quantile(mean_envelope(draws_pp), LOW_SHARE))


def rank_of(policy_pp: Sequence[float], draws_pp: Sequence[NDArray[np.float64]]) -> float:
    """Where the policy's mean over the runs [runs] lies among those of random schedules.

    Share of `mean_envelope` that costs less, ties by half, 0 to 100; in no order of the runs' own
    ranks, whose mean is far larger over many runs.
    """
    costs, own = mean_envelope(draws_pp), float(np.mean(policy_pp))
    same = np.isclose(costs, own, rtol=1e-12, atol=0.0)
    return float(100 * np.mean(np.where(same, 0.5, costs < own)))


def mean_envelope(draws_pp: Sequence[ArrayLike]) -> NDArray[np.float64]:
    """[draws] mean over the runs of the costs [draws] of each run's independent random schedules.

    Raises `InputError` when the runs have different numbers of draws.
    """
    rows = [np.asarray(row, dtype=np.float64) for row in draws_pp]
    if not rows or len({row.shape for row in rows}) > 1:
        msg = "an envelope over runs needs the same number of draws in each of one run or more"
        raise InputError(msg)
    return np.asarray(np.mean(rows, axis=0), dtype=np.float64)
