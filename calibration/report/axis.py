"""A horizontal axis: values to places in % of the width, so that text keeps its size."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

STEPS = (1, 2, 5, 10)
MARGIN = 0.04


@dataclass(frozen=True, slots=True)
class Tick:
    """A value on the axis: its place and how it is written."""

    at: str
    text: str


@dataclass(frozen=True, slots=True)
class Axis:
    """From `low` to `high`."""

    low: float
    high: float

    def at(self, value: float) -> str:
        """The place of a value, such as `12.5%`; what lies beyond an end is drawn at it."""
        share = (value - self.low) / (self.high - self.low)
        return f"{100 * min(max(share, 0.0), 1.0):.6g}%"

    def width(self, low: float, high: float) -> str:
        """The width of a stretch, such as `3%`."""
        low, high = max(low, self.low), min(high, self.high)
        return f"{100 * max(high - low, 0.0) / (self.high - self.low):.6g}%"

    def ticks(self, most: int = 6, scale: float = 1.0) -> list[Tick]:
        """At most about so many ticks at round values; `scale` divides what is written."""
        step = _round_step((self.high - self.low) / scale / most)
        first = math.ceil(self.low / scale / step - 1e-9)
        last = math.floor(self.high / scale / step + 1e-9)
        digits = max(0, -math.floor(math.log10(step) + 1e-9))
        return [
            Tick(self.at(i * step * scale), f"{i * step:.{digits}f}")
            for i in range(first, last + 1)
        ]


def around(values: Iterable[float | None]) -> Axis:
    """An axis that holds all known values with a little room on both sides."""
    known = [value for value in values if value is not None]
    low, high = min(known), max(known)
    room = MARGIN * (high - low) or max(abs(high), 1.0) * MARGIN
    return Axis(low - room, high + room)


def _round_step(least: float) -> float:
    unit = 10.0 ** math.floor(math.log10(least))
    return next(unit * step for step in STEPS if unit * step >= least * (1 - 1e-9))
