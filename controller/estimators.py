"""Exponentially weighted estimators in continuous time: samples may come at any distance.

Both halve the weight of what they saw every `half_life_s`. Neither treats 0 as unset, and time
without data changes nothing but its age: that a sidecar is silent does not make it idle.
"""

import math

from slackwater.clock import US_PER_S

SPREAD_HALF_LIVES = 15.0


class EwMean:
    """Time-weighted mean of a value that each sample holds for the time since the one before.

    The first sample is the mean. `mean` is None before it.

    Example:
        >>> m = EwMean(half_life_s=1.0)
        >>> for value in (0.0, 0.0, 10.0):
        ...     m.update(value, dt_s=1.0)
        >>> m.mean
        5.0
    """

    def __init__(self, half_life_s: float) -> None:
        self.half_life_s = half_life_s
        self.mean: float | None = None

    def update(self, value: float, dt_s: float) -> None:
        """Add a sample that covers the `dt_s` seconds up to now."""
        if self.mean is None:
            self.mean = value
            return
        self.mean += (1.0 - 2.0 ** (-dt_s / self.half_life_s)) * (value - self.mean)


class EwRate:
    """Events per second from counts over intervals, and how far that rate may be off.

    The weights are normalised by the time really seen, so that a burst in the first seconds is
    not thinned by a memory that has not filled yet. `per_s` and the spreads are None before any
    data.

    Example:
        >>> r = EwRate(half_life_s=60.0)
        >>> for _ in range(8):
        ...     r.update(count=5, dt_s=0.25)
        >>> round(r.per_s, 6)
        20.0
    """

    def __init__(self, half_life_s: float) -> None:
        self.half_life_s = half_life_s
        self._mean = _Normalised(half_life_s)
        slow_s = SPREAD_HALF_LIVES * half_life_s
        self._slow, self._square = _Normalised(slow_s), _Normalised(slow_s)
        self._noise = _Normalised(slow_s)

    def update(self, count: int, dt_s: float) -> None:
        """Add `count` events seen in the last `dt_s` seconds, above 0."""
        rate = count / dt_s
        self._mean.update(rate, dt_s)
        self._slow.update(rate, dt_s)
        self._square.update(rate * rate, dt_s)
        self._noise.update(rate / dt_s, dt_s)

    @property
    def per_s(self) -> float | None:
        """The rate in events per second."""
        return self._mean.value

    @property
    def sd(self) -> float | None:
        """Standard deviation of the underlying rate over 15 half-lives, in events per second.

        The noise of counting (Poisson) is taken off: steady traffic has a spread near 0.
        """
        mean, square, noise = self._slow.value, self._square.value, self._noise.value
        if mean is None or square is None or noise is None:
            return None
        return math.sqrt(max(0.0, square - mean * mean - noise))

    @property
    def error_sd(self) -> float | None:
        """Standard deviation of `per_s` as an estimate of a steady rate, in events per second.

        A rate weighed with half-life h rests on the counts of 2 h / ln 2 seconds.
        """
        if self._mean.value is None:
            return None
        return math.sqrt(self._mean.value * math.log(2.0) / (2.0 * self.half_life_s))


class Fading:
    """A sum whose parts count half after each `half_life_s`; what comes late is taken as new.

    Example:
        >>> f = Fading(half_life_s=1.0)
        >>> f.add(0, 4.0)
        >>> f.add(1_000_000, 1.0)
        >>> f.at(2_000_000)
        1.5
    """

    def __init__(self, half_life_s: float) -> None:
        self._half_life_us = half_life_s * US_PER_S
        self._sum, self._at_us = 0.0, 0

    def add(self, at_us: int, amount: float) -> None:
        """Add an amount at `at_us`."""
        self._sum, self._at_us = self.at(at_us) + amount, max(at_us, self._at_us)

    def at(self, now_us: int) -> float:
        """What is left of it at `now_us`."""
        halvings = max(0, now_us - self._at_us) / self._half_life_us
        return self._sum * math.pow(2.0, -halvings)


class _Normalised:
    """Exponentially weighted mean over the time really seen."""

    def __init__(self, half_life_s: float) -> None:
        self._half_life_s = half_life_s
        self._weight = self._sum = 0.0

    def update(self, value: float, dt_s: float) -> None:
        decay = 2.0 ** (-dt_s / self._half_life_s)
        self._weight = self._weight * decay + 1.0 - decay
        self._sum = self._sum * decay + (1.0 - decay) * value

    @property
    def value(self) -> float | None:
        return self._sum / self._weight if self._weight else None
