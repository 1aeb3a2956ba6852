"""Two samples beside each other: ratios of percentiles, odds of a violation, the excess."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calibration.effect.intervals import Interval, interval
from calibration.effect.sample import DRAWS, QUANTILES, Drawn, Sample, drawn
from calibration.profile import MIN_MERGES
from slackwater.errors import InputError

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Contrast:
    """One sample against a baseline. What cannot be known is None.

    Attributes:
        clusters: of the sample; merges, where it is that of merges.
        requests: in the sample.
        base_clusters, base_requests: of the baseline.
        quantiles_s, base_quantiles_s: latency at p50, p95 and p99; None where no answer came.
        p50_ratio, p95_ratio, p99_ratio: sample / baseline.
        violating, base_violating: share over the objective.
        odds_ratio: odds of a violation over the baseline's, half a request added to each of the
            four counts (Haldane 1956); None when none or all violate on both sides.
        excess_pp: difference of the shares, percentage points.
    """

    clusters: int
    requests: int
    base_clusters: int
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


def contrast(
    sample: Sample,
    base: Sample,
    slo_s: float,
    rng: np.random.Generator,
    *,
    draws: int = DRAWS,
    least: int = MIN_MERGES,
) -> Contrast:
    """Compare the two; each side's clusters are drawn anew by themselves.

    With fewer than `least` clusters on a side no figure has an interval. Raises `InputError` when
    a side has no request.
    """
    return against(drawn(sample, slo_s, rng, draws), drawn(base, slo_s, rng, draws), least)


def against(ours: Drawn, theirs: Drawn, least: int = MIN_MERGES) -> Contrast:
    """`contrast` of samples that are drawn already, as often as each other."""
    for name, one in (("compared", ours), ("compared with", theirs)):
        if not one.requests:
            msg = f"there is no request to be {name}: nothing can be said of merges and latency"
            raise InputError(msg)
    fewer = min(ours.clusters, theirs.clusters)

    def told(values: Floats) -> Interval | None:
        return interval(float(values[0]), values[1:], fewer, least)

    with np.errstate(invalid="ignore", divide="ignore"):
        ratios = ours.quantiles / theirs.quantiles
        odds = _odds(ours.violating, ours.requests) / _odds(theirs.violating, theirs.requests)
    p50, p95, p99 = (told(ratios[:, column]) for column in range(len(QUANTILES)))
    both = {float(ours.violating[0]), float(theirs.violating[0])}
    return Contrast(
        clusters=ours.clusters,
        requests=ours.requests,
        base_clusters=theirs.clusters,
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
