"""How much longer to measure for a given precision."""

import math

from calibration.effect.intervals import Interval
from slackwater.errors import InputError


def half_width(ratio: Interval | None) -> float | None:
    """How far a ratio may be off, as a share: 0.07 is 7% either side; None without an interval."""
    if ratio is None or not ratio.low or ratio.high is None:
        return None
    return math.exp(math.log(ratio.high / ratio.low) / 2) - 1


def more_s(ratio: Interval | None, wanted: float, measured_s: float) -> float | None:
    """Seconds to measure besides, for an interval `wanted` either side; None when unknown.

    The width of an interval of logarithms falls as one over the square root of the rounds.

    >>> more_s(Interval(2.0, 2.0 / 1.21, 2.0 * 1.21), 0.1, 600.0)
    1800.0

    Raises `InputError` for a precision that is no share.
    """
    if not 0 < wanted < math.inf:
        msg = f"a precision of {wanted:g} cannot be had; give a share such as 0.1"
        raise InputError(msg)
    now = half_width(ratio)
    if now is None:
        return None
    needed = measured_s * (math.log1p(now) / math.log1p(wanted)) ** 2
    return round(max(0.0, needed - measured_s), 6)
