"""The paper's regimes as experiments: runs of arms to the figures that it published."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from calibration.correction import max_t
from calibration.gate import ALPHA, MIN_RUNS
from calibration.published import RUN_S, SIDECAR_RATE_PER_S, Regime
from calibration.signflip import interval, sign_flip
from calibration.trials import Arm

Floats = npt.NDArray[np.float64]
FIXED, PRESSURE, WA, ONLINE = "fixed_h", "pressure_gate", "wa_diloco", "wa_forecast"
POLICIES = (FIXED, PRESSURE, WA, ONLINE)
ORACLE = "oracle"


@dataclass(frozen=True, slots=True)
class Measured:
    """One of our figures.

    Attributes:
        value: in the published figure's unit; None where too few runs were made to tell.
        sd: standard deviation over runs, or over all drawn schedules of matched random.
        budget: mean number of merges of the arm it is of; None where of several or none.
        interval_pp: 95% interval of a gain; None for other figures and under 6 runs.
    """

    value: float | None
    sd: float | None = None
    budget: float | None = None
    interval_pp: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class ArmSummary:
    """An arm over all runs; means, excess and gain in percentage points of requests."""

    policy: str
    runs: int
    budget: float
    unmerged_pp: float
    excess_pp: float
    excess_sd_pp: float | None
    random_pp: float
    random_sd_pp: float
    oracle_pp: float
    gain_pp: float
    interval_pp: tuple[float, float] | None
    p_value: float
    sent_share: float
    p95_ratio: float


def summary(arms: Sequence[Arm], rng: np.random.Generator) -> ArmSummary:
    """One arm's runs, one or more, put together; p is two-sided and for this arm alone."""
    excess, gains = np.array([arm.excess_pp for arm in arms]), _gains(arms)
    drawn = np.concatenate([arm.random_pp for arm in arms])
    return ArmSummary(
        policy=arms[0].policy,
        runs=len(arms),
        budget=float(np.mean([arm.budget for arm in arms])),
        unmerged_pp=float(np.mean([arm.unmerged_pp for arm in arms])),
        excess_pp=float(excess.mean()),
        excess_sd_pp=float(excess.std(ddof=1)) if len(arms) > 1 else None,
        random_pp=float(drawn.mean()),
        random_sd_pp=float(drawn.std()),
        oracle_pp=float(np.mean([arm.oracle_pp for arm in arms])),
        gain_pp=float(gains.mean()),
        interval_pp=interval(gains, rng=rng),
        p_value=sign_flip(gains, "two-sided", rng).p_value,
        sent_share=sum(arm.sent for arm in arms) / sum(arm.requests for arm in arms),
        p95_ratio=float(np.mean([arm.p95_ratio for arm in arms])),
    )


def measured(
    regime: Regime, runs: Sequence[Sequence[Arm]], rng: np.random.Generator
) -> tuple[dict[str, Measured], list[ArmSummary]]:
    """Our figures by the published ones' keys, and every arm's summary.

    Args:
        regime: which of the five.
        runs: each run's arms; the same arms in each, `POLICIES` among them, `ORACLE` in bursty.
        rng: for sign-flip tests of many runs.
    """
    by_arm = {arm.policy: [one[i] for one in runs] for i, arm in enumerate(runs[0])}
    told = {policy: summary(arms, rng) for policy, arms in by_arm.items()}
    if regime == "ordinary":
        figures = {"p95_ratio": Measured(told[WA].p95_ratio, budget=told[WA].budget)}
    elif regime == "high_pressure":
        figures = {
            "violating": Measured(told[WA].unmerged_pp),
            "gaining": Measured(_gaining(by_arm, rng)),
        }
    elif regime == "constant":
        figures = _constant(told)
    elif regime == "bursty":
        figures = _bursty(told)
    else:
        figures = _aperiodic(told[ONLINE])
    return figures, list(told.values())


def _constant(told: dict[str, ArmSummary]) -> dict[str, Measured]:
    wa = told[WA]
    return {
        "wa_p": Measured(wa.p_value, budget=wa.budget),
        "wa_under_fixed": Measured(told[FIXED].excess_pp - wa.excess_pp, budget=wa.budget),
        "wa_under_pressure": Measured(told[PRESSURE].excess_pp - wa.excess_pp, budget=wa.budget),
    }


def _bursty(told: dict[str, ArmSummary]) -> dict[str, Measured]:
    oracle, wa = told[ORACLE], told[WA]
    return {
        "oracle": Measured(oracle.excess_pp, oracle.excess_sd_pp, oracle.budget),
        "random": Measured(oracle.random_pp, oracle.random_sd_pp, oracle.budget),
        "wa": Measured(wa.excess_pp, wa.excess_sd_pp, wa.budget),
        "wa_over_random": Measured(-wa.gain_pp, budget=wa.budget),
    }


def _aperiodic(online: ArmSummary) -> dict[str, Measured]:
    budget = online.budget
    share = 100 * online.gain_pp / online.random_pp
    spared = online.gain_pp / 100 * SIDECAR_RATE_PER_S * RUN_S
    return {
        "random": Measured(online.random_pp, online.random_sd_pp, budget),
        "online": Measured(online.excess_pp, online.excess_sd_pp, budget),
        "gain": Measured(online.gain_pp, None, budget, online.interval_pp),
        "gain_share": Measured(share, budget=budget),
        "gain_p": Measured(online.p_value, budget=budget),
        "spared": Measured(spared, budget=budget),
    }


def _gaining(by_arm: dict[str, list[Arm]], rng: np.random.Generator) -> float | None:
    """How many policies are better than matched random, p corrected for all of them."""
    gains = np.column_stack([_gains(arms) for arms in by_arm.values()])
    if len(gains) < MIN_RUNS:
        return None
    shown = (max_t(gains, rng) <= ALPHA) & (gains.mean(axis=0) > 0)
    return float(np.count_nonzero(shown))


def _gains(arms: Sequence[Arm]) -> Floats:
    """Matched random mean minus the arm's excess in each run; rounding is no gain."""
    gains = np.array([arm.random_pp.mean() - arm.excess_pp for arm in arms])
    return np.where(np.abs(gains) < 1e-9, 0.0, gains)
