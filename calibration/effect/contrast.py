"""Two samples beside each other: ratios of percentiles, odds of a violation, the excess."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calibration.effect.intervals import Interval, interval
from calibration.effect.sample import QUANTILES, Drawn, Sample, drawn
from calibration.profile import MIN_MERGES
from slackwater.errors import InputError

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Contrast:
    """One sample against a baseline. What cannot be known is None.

    Attributes:
        merges: that the sample's requests have met.
        requests: in the sample.
        base_requests: in the baseline.
        quantiles_s, base_quantiles_s: latency at p50, p95 and p99; None where no answer came.
        p50_ratio, p95_ratio, p99_ratio: sample / baseline.
        violating, base_violating: share over the objective.
        odds_ratio: odds of a violation over the baseline's, half a request added to each of the
            four counts (Haldane 1956); None when none or all violate on both sides.
        excess_pp: difference of the shares, percentage points.
    """

    merges: int
    requests: int
    base_requests: int
    quantiles_s: tuple[float | None, ...]
    base_quantiles_s: tuple[float | None, ...]
    p50_ratio: Interval | None
    p95_ratio: Interval | None
    p99_ratio: Interval | None
    violating: float
    base_violating: float
    odds_ratio: Interval | None
    excess_pp: Interval | None


def contrast(sample: Sample, base: Sample, slo_s: float, counts: Floats) -> Contrast:
    """Compare the two, their rounds drawn together as `counts` says (`sample.draw_rounds`).

    With few rounds that both have, or fewer than ten merges in a sample of merges, no figure has an
    interval. Raises `InputError` when a side has no request.
    """
    return against(drawn(sample, slo_s, counts), drawn(base, slo_s, counts))


def against(ours: Drawn, theirs: Drawn) -> Contrast:
    """`contrast` of samples that are drawn already, by the same counts."""
    for name, one in (("compared", ours), ("compared with", theirs)):
        if not one.requests:
            msg = f"there is no request to be {name}: nothing can be said of merges and latency"
            raise InputError(msg)
    rounds = min(ours.rounds, theirs.rounds)
    if any(0 < one.merges < MIN_MERGES for one in (ours, theirs)):
        rounds = 0

    def told(values: Floats) -> Interval | None:
        return interval(float(values[0]), values[1:], rounds)

    with np.errstate(invalid="ignore", divide="ignore"):
        ratios = ours.quantiles / theirs.quantiles
        odds = _odds(ours.violating, ours.requests) / _odds(theirs.violating, theirs.requests)
    p50, p95, p99 = (told(ratios[:, column]) for column in range(len(QUANTILES)))
    both = {float(ours.violating[0]), float(theirs.violating[0])}
    return Contrast(
        merges=ours.merges,
        requests=ours.requests,
        base_requests=theirs.requests,
        quantiles_s=_known(ours.quantiles[0]),
        base_quantiles_s=_known(theirs.quantiles[0]),
        p50_ratio=p50,
        p95_ratio=p95,
        p99_ratio=p99,
        violating=float(ours.violating[0]),
        base_violating=float(theirs.violating[0]),
        odds_ratio=None if both in ({0.0}, {1.0}) else told(odds),
        excess_pp=told(100 * (ours.violating - theirs.violating)),
    )


def _odds(share: Floats, requests: int) -> Floats:
    return (share * requests + 0.5) / ((1 - share) * requests + 0.5)


def _known(values: Floats) -> tuple[float | None, ...]:
    return tuple(float(value) if np.isfinite(value) else None for value in values)
