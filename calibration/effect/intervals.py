"""Intervals from resampled rounds, widened for how few rounds there are."""

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

CONFIDENCE = 0.95
MIN_ROUNDS = 5
"""With fewer there is no interval: what differs from round to round cannot be told from so few."""
MIN_KNOWN = 0.99
"""Of the draws so many must have a figure, or there is no interval."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A figure and its 95% interval; the ends are None when there are too few rounds or merges."""

    value: float
    low: float | None = None
    high: float | None = None


def interval(value: float, draws: Floats, rounds: int) -> Interval | None:
    """The figure with the interval of its draws; None when the figure itself is not finite.

    The percentile interval of a bootstrap of n rounds is too short by sqrt((n - 1) / n), and
    normal where it should be Student's: the percentiles are moved outwards for both (Hesterberg,
    "What Teachers Should Know About the Bootstrap", 2015, expanded percentile interval).

    Args:
        value: as observed.
        draws: [m] the same figure in each draw; NaN where a draw had nothing to count.
        rounds: how many were resampled, on the side that has fewer; under `MIN_ROUNDS` there are no
            ends.
    """
    if not np.isfinite(value):
        return None
    known = draws[~np.isnan(draws)]
    if rounds < MIN_ROUNDS or len(known) < MIN_KNOWN * len(draws):
        return Interval(float(value))
    tail = expanded_tail(rounds)
    low, high = (float(np.quantile(known, q, method="nearest")) for q in (tail, 1 - tail))
    if not (np.isfinite(low) and np.isfinite(high)):
        return Interval(float(value))
    return Interval(float(value), min(low, float(value)), max(high, float(value)))


def expanded_tail(rounds: int) -> float:
    """The lower percentile (a share) to read instead of 2.5%.

    >>> round(expanded_tail(10), 4)
    0.0086
    """
    widened = (rounds / (rounds - 1)) ** 0.5 * student_t(rounds - 1)
    return NormalDist().cdf(-widened)


def student_t(freedom: int) -> float:
    """Student's t that is exceeded 2.5% of the time; good to 0.01 from 4 degrees of freedom on.

    By its expansion about the normal quantile (Abramowitz and Stegun, 26.7.5).

    >>> [round(student_t(n), 2) for n in (9, 30)]
    [2.26, 2.04]
    """
    z = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92_160,
    )
    return float(z + sum(term / freedom**power for power, term in enumerate(terms, start=1)))
