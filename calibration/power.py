"""The power planner: how many independent runs, of what length, would show a gain of a given size.

The noise is the trace's own: runs are drawn with replacement from the pilot's differences, moved
to the gain asked for, and put through the gate's sign-flip test.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibration.gate import ALPHA, MIN_RUNS
from slackwater.errors import InputError

Floats = NDArray[np.float64]
EXACT_RUNS = 10
PATTERNS = 1023
BISECTIONS = 20
TINY_PP = 1e-9


@dataclass(frozen=True, slots=True)
class Plan:
    """What runs of one length need.

    Attributes:
        run_s: length of a run.
        runs: the fewest that reach the power asked for; None when `max_runs` do not.
        power: share of simulated experiments that show the gain, with `runs` or `max_runs`.
        power_se: its Monte Carlo standard error.
        total_s: runs * run_s; None without `runs`.
    """

    run_s: float
    runs: int | None
    power: float
    power_se: float
    total_s: float | None


def plan(  # noqa: PLR0913
    differences_pp: ArrayLike,
    run_s: float,
    gain_pp: float,
    rng: np.random.Generator,
    *,
    multiples: Sequence[int] = (1, 2, 4),
    power: float = 0.8,
    least_pp: float = 0.0,
    max_runs: int = 64,
    experiments: int = 2000,
) -> list[Plan]:
    """One plan for each length `multiple * run_s`.

    Args:
        differences_pp: [pilot runs] matched random mean minus policy in runs of `run_s`; or, to
            plan from a trace alone, minus the cost of random schedules there.
        run_s: length of a pilot run.
        gain_pp: the gain to be shown, percentage points of requests, above 0.
        rng: seeded generator.
        multiples: lengths to try. A longer run averages that many pilot runs, taken as
            independent; where the load drifts slowly, plan from a pilot of that length instead.
        power: share of experiments that should show it.
        least_pp: the least gain worth a claim: an experiment that sees less shows nothing.
        max_runs: where to stop.
        experiments: simulated for each number of runs.

    Raises `InputError` for under 6 pilot runs, or figures out of range.
    """
    pilot = np.asarray(differences_pp, dtype=np.float64)
    _check(pilot, gain_pp, power, max_runs)
    noise = _noise(pilot)

    def power_of(runs: int, multiple: int) -> float:
        drawn = rng.choice(noise, size=(experiments, runs, multiple)).mean(axis=2)
        return shown(drawn + gain_pp, rng, least_pp)

    return [
        _fewest(partial(power_of, multiple=m), run_s * m, power, max_runs, experiments)
        for m in multiples
    ]


def detectable(
    differences_pp: ArrayLike,
    runs: int,
    rng: np.random.Generator,
    *,
    multiple: int = 1,
    power: float = 0.8,
    least_pp: float = 0.0,
    experiments: int = 2000,
) -> float | None:
    """The least gain, percentage points, that so many runs show with that power.

    Args:
        differences_pp: as `plan` takes them.
        runs: how many there are; None is the answer below 6.
        rng: seeded generator.
        multiple: pilot runs that each of them is as long as.
        power: share of experiments that should show it.
        least_pp: the least gain worth a claim.
        experiments: simulated; the same noise for every gain tried.

    Raises `InputError` for under 6 pilot runs, or a power out of range.
    """
    pilot = np.asarray(differences_pp, dtype=np.float64)
    _check(pilot, 1.0, power, MIN_RUNS)
    if runs < MIN_RUNS:
        return None
    noise = _noise(pilot)
    drawn = rng.choice(noise, size=(experiments, runs, multiple)).mean(axis=2)
    seed = int(rng.integers(2**32))

    def reached(gain_pp: float) -> bool:
        return shown(drawn + gain_pp, np.random.default_rng(seed), least_pp) >= power

    # Beyond the largest noise every difference is positive, and all runs agree.
    low, high = 0.0, max(least_pp, 0.0) + 2 * float(np.abs(noise).max()) + TINY_PP
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        low, high = (low, middle) if reached(middle) else (middle, high)
    return high


def _noise(pilot: Floats) -> Floats:
    """Differences about their mean; their spread is short by (n - 1) / n, which is put right."""
    return np.asarray((pilot - pilot.mean()) * np.sqrt(len(pilot) / (len(pilot) - 1)))


def _fewest(
    at: Callable[[int], float], run_s: float, power: float, max_runs: int, experiments: int
) -> Plan:
    """Double until it is enough, then halve the interval: power grows with the runs."""
    low, high, reached = MIN_RUNS - 1, MIN_RUNS, at(MIN_RUNS)
    while reached < power and high < max_runs:
        low, high = high, min(2 * high, max_runs)
        reached = at(high)
    while reached >= power and high - low > 1:
        middle = (low + high) // 2
        found = at(middle)
        low, high, reached = (low, middle, found) if found >= power else (middle, high, reached)
    error = float(np.sqrt(reached * (1 - reached) / experiments))
    enough = reached >= power
    return Plan(run_s, high if enough else None, reached, error, high * run_s if enough else None)


def shown(differences: Floats, rng: np.random.Generator, least_pp: float = 0.0) -> float:
    """Share of experiments [experiments, runs] that the gate's sign-flip test and least gain pass.

    Two-sided p at most 5%, a positive mean, and one of at least `least_pp`.
    """
    signs = _signs(differences.shape[1], rng)
    observed = differences.sum(axis=1)
    slack = 1e-12 * np.abs(differences).sum(axis=1)
    extreme = np.abs(differences @ signs.T) >= (np.abs(observed) - slack)[:, None]
    worth = (observed > 0) & (differences.mean(axis=1) >= least_pp)
    return float(np.mean((extreme.mean(axis=1) <= ALPHA) & worth))


def _signs(n: int, rng: np.random.Generator) -> Floats:
    """[patterns, n], the one observed among them: all up to 10 runs, 1,024 beyond."""
    if n <= EXACT_RUNS:
        bits = np.arange(2**n)[:, None] >> np.arange(n) & 1
        return np.asarray(1.0 - 2.0 * bits)
    drawn = 1.0 - 2.0 * rng.integers(0, 2, size=(PATTERNS, n))
    return np.concatenate([np.ones((1, n)), drawn])


def _check(pilot: Floats, gain_pp: float, power: float, max_runs: int) -> None:
    if pilot.ndim != 1 or len(pilot) < MIN_RUNS or not np.isfinite(pilot).all():
        msg = f"{pilot.size} pilot runs; {MIN_RUNS} finite differences or more are needed"
        raise InputError(msg)
    if not gain_pp > 0 or not 0 < power < 1 or max_runs < MIN_RUNS:
        msg = (
            f"a gain of {gain_pp} pp with power {power} in at most {max_runs} runs; the gain must "
            f"be above 0, the power between 0 and 1, and {MIN_RUNS} runs or more allowed"
        )
        raise InputError(msg)
