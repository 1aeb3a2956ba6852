"""All figures of one calibration, from what was observed."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from calibration.effect.after import SpillOver, spill_over
from calibration.effect.by_load import LoadGroup, by_load
from calibration.effect.contrast import Contrast, against, contrast
from calibration.effect.intervals import Interval, interval
from calibration.effect.observed import ARMS, Account, Arm, Observed
from calibration.effect.precision import half_width, more_s
from calibration.effect.sample import DRAWS, Drawn, Floats, draw_rounds, drawn
from calibration.effect.spread import Spread, spread
from calibration.effect.windows import (
    arriving_in_windows,
    as_if_merged,
    in_windows,
    mean_window_s,
    of_arm,
)
from calibration.equivalence import ArmLoad, LoadMatch, load_match
from calibration.profile import MIN_MERGES
from slackwater.errors import InputError

MS = 1000


@dataclass(frozen=True, slots=True)
class MeasuredEffect:
    """What merges do to requests.

    Attributes:
        merges: requests that met a merge, against the learners without merges.
        learners: learners without merges against the server alone; None without that arm.
        after: harm after a window's end.
        by_load: the effect by the load that a window opened on.
    """

    merges: Contrast
    learners: Contrast | None
    after: SpillOver
    by_load: tuple[LoadGroup, ...]


@dataclass(frozen=True, slots=True)
class Measured:
    """The figures of one calibration.

    Attributes:
        slo_s: the objective.
        slo_given: somebody gave it; else it is the 95th percentile without merges.
        window_s: mean length of a window, over merges.
        longest_window_s: of all.
        base_s: p50, p95 and p99 of the learners without merges, all requests alike.
        base_spread, window_spread: times of the learners without merges, and of the requests that
            arrived in a window; None where there are none, or some were never answered.
        effect: what merges did.
        load: whether the arms served the same load.
        accounts: by arm, where its requests went.
        measured_s: blocks of all arms, settling left out.
        half_width: how far the p95 ratio may be off either side, as a share; None when unknown.
        more_s: to measure besides for the precision asked for; None when unknown.
    """

    slo_s: float
    slo_given: bool
    window_s: Interval
    longest_window_s: float
    base_s: tuple[Interval | None, ...]
    base_spread: Spread | None
    window_spread: Spread | None
    effect: MeasuredEffect
    load: LoadMatch
    accounts: Mapping[Arm, Account]
    measured_s: float
    half_width: float | None
    more_s: float | None


def measure(
    observed: Observed,
    *,
    slo_s: float | None,
    precision: float,
    rng: np.random.Generator,
    draws: int = DRAWS,
) -> Measured:
    """Everything that can be said of the observed.

    Raises `InputError` when there is no merge, no request that met one or none without merges.
    """
    sample, base = in_windows(observed), as_if_merged(observed)
    _check(observed, len(sample), len(base))
    objective_s = default_slo_s(observed) if slo_s is None else slo_s
    counts = draw_rounds(observed.rounds, rng, draws)
    merges = contrast(sample, base, objective_s, counts)
    learners = drawn(of_arm(observed, "learners"), objective_s, counts)
    measured_s = sum(block.end_s - block.start_s for block in observed.blocks)
    return Measured(
        slo_s=objective_s,
        slo_given=slo_s is not None,
        window_s=_windows(observed, counts),
        longest_window_s=max(window.end_s - window.start_s for window in observed.windows),
        base_s=_latencies(learners),
        base_spread=spread(of_arm(observed, "learners").latency_s),
        window_spread=spread(arriving_in_windows(observed).latency_s),
        effect=MeasuredEffect(
            merges=merges,
            learners=_learners(observed, learners, objective_s, counts),
            after=spill_over(observed, learners, counts),
            by_load=by_load(observed, objective_s, counts),
        ),
        load=matched(observed, rng),
        accounts={arm: observed.account(arm) for arm in ARMS if observed.of_arm(arm)},
        measured_s=measured_s,
        half_width=half_width(merges.p95_ratio),
        more_s=more_s(merges.p95_ratio, precision, measured_s),
    )


def default_slo_s(observed: Observed) -> float:
    """The 95th percentile of the learners without merges, whole milliseconds upwards.

    One request in twenty is over it without merges: enough of them to compare odds with. Raises
    `InputError` when more than one in twenty never got an answer.
    """
    seen = drawn(of_arm(observed, "learners"), np.inf, np.ones((1, observed.rounds)))
    p95_s = seen.quantiles[0, 1]
    if not np.isfinite(p95_s):
        msg = (
            "over 5% of the requests without merges were never answered: the server does not carry "
            "this load; lower --rate, or give --slo"
        )
        raise InputError(msg)
    return math.ceil(float(p95_s) * MS) / MS


def matched(observed: Observed, rng: np.random.Generator) -> LoadMatch:
    """Arrivals and tokens a second, block by block of the rounds that all arms have."""
    arms: list[Arm] = [arm for arm in ARMS if observed.of_arm(arm)]
    numbers = {arm: {observed.blocks[n].round: n for n in observed.of_arm(arm)} for arm in arms}
    rounds = sorted(set.intersection(*(set(of_arm) for of_arm in numbers.values())))
    loads: dict[str, ArmLoad] = {}
    for arm in arms:
        counted = observed.counted(arm)
        arrivals, tokens = [], []
        for one in rounds:
            number = numbers[arm][one]
            block, own = observed.blocks[number], counted & (observed.block == number)
            # Equal loads are equal to the last digit: no rounding of a time may make them differ.
            length_s = round(block.end_s - block.start_s, 6)
            arrivals.append(float(own.sum()) / length_s)
            tokens.append(float(observed.tokens[own].sum()) / length_s)
        loads[arm] = ArmLoad(arrivals, tokens)
    return load_match(loads, "learners", rng=rng)


def _check(observed: Observed, met: int, base: int) -> None:
    if not observed.windows:
        msg = "no merge was measured, so nothing can be said of what merges do: measure longer"
        raise InputError(msg)
    if not met:
        msg = (
            f"no request met any of {len(observed.windows)} merges: send more (--rate), or make "
            "larger merges (--parameters)"
        )
        raise InputError(msg)
    if not base:
        msg = "no request was served beside learners without merges: measure longer (--minutes)"
        raise InputError(msg)


def _windows(observed: Observed, counts: Floats) -> Interval:
    lengths = np.array([window.end_s - window.start_s for window in observed.windows])
    place = observed.round_of(np.array([window.block for window in observed.windows], np.int64))
    drawn_so_often = counts[:, place]
    with np.errstate(invalid="ignore"):
        means = drawn_so_often @ lengths / drawn_so_often.sum(axis=1)
    rounds = len(np.unique(place)) if len(lengths) >= MIN_MERGES else 0
    found = interval(mean_window_s(observed), means[1:], rounds)
    return found or Interval(mean_window_s(observed))


def _latencies(learners: Drawn) -> tuple[Interval | None, ...]:
    return tuple(
        interval(float(column[0]), column[1:], learners.rounds) for column in learners.quantiles.T
    )


def _learners(observed: Observed, learners: Drawn, slo_s: float, counts: Floats) -> Contrast | None:
    alone = of_arm(observed, "nothing")
    return against(learners, drawn(alone, slo_s, counts)) if len(alone) else None
