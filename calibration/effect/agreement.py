"""Whether two measurements of the same thing still say the same."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal

from calibration.effect.intervals import CONFIDENCE, Interval

Word = Literal["same", "changed", "unknown"]

MARGIN = 0.25
"""Figures within 25% of each other count as the same; a merge's effect is several times that."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """One figure then and now.

    Attributes:
        name: of the figure.
        before, now: each with its interval; None where it was not measured.
        ratio: now / before, with its interval; None where either has none.
        word: `same` when the ratio's 90% interval lies within the margin (two one-sided tests at
            5%), `changed` when it is not the same and 1 is left out by an interval widened for how
            many figures are looked at, else `unknown`: too little was measured to tell.
    """

    name: str
    before: Interval | None
    now: Interval | None
    ratio: Interval | None
    word: Word


def agreement(
    before: Mapping[str, Interval | None],
    now: Mapping[str, Interval | None],
    margin: float = MARGIN,
) -> tuple[Agreement, ...]:
    """The figures that both have, by name; each above 0.

    Intervals are taken as normal on the logarithm, which is where their widths come from. That one
    of several has changed is said by chance in 5% of comparisons at the most (Bonferroni).
    """
    both = [name for name in before if name in now]
    surely = 1 - (1 - CONFIDENCE) / max(1, len(both))
    return tuple(_agree(name, before[name], now[name], margin, surely) for name in both)


def overall(found: Sequence[Agreement], deciding: Collection[str]) -> Word:
    """`changed` when a figure has, `same` when those that decide are, else `unknown`.

    The others can show a change and no more: a tail takes hours to be known within the margin.
    """
    if any(one.word == "changed" for one in found):
        return "changed"
    words = {one.word for one in found if one.name in deciding}
    return "same" if words == {"same"} else "unknown"


def _agree(
    name: str, before: Interval | None, now: Interval | None, margin: float, surely: float
) -> Agreement:
    errors = (_log_error(before), _log_error(now))
    if before is None or now is None or None in errors or before.value <= 0:
        return Agreement(name, before, now, None, "unknown")
    middle = math.log(now.value / before.value)
    error = math.hypot(*(e for e in errors if e is not None))
    wide, narrow = _z(CONFIDENCE) * error, _z(0.9) * error
    bound = math.log1p(margin)
    word: Word = "unknown"
    if -bound < middle - narrow and middle + narrow < bound:
        word = "same"
    elif abs(middle) > _z(surely) * error:
        word = "changed"
    ratio = Interval(math.exp(middle), math.exp(middle - wide), math.exp(middle + wide))
    return Agreement(name, before, now, ratio, word)


def _log_error(found: Interval | None) -> float | None:
    """Standard error of the logarithm, from the width of the interval."""
    if found is None or found.low is None or found.high is None or found.low <= 0:
        return None
    return math.log(found.high / found.low) / 2 / _z(CONFIDENCE)


def _z(confidence: float) -> float:
    return NormalDist().inv_cdf((1 + confidence) / 2)
