"""Exponentially weighted estimators in continuous time: samples may come at any distance.

Both halve the weight of what they saw every `half_life_s`. Neither treats 0 as unset, and time
without data changes nothing but its age: that a sidecar is silent does not make it idle.
"""

import math


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
    """Events per second from counts over intervals, with the spread of that rate.

    The weights are normalised by the time really seen, so that a burst in the first seconds is
    not thinned by a memory that has not filled yet. `per_s` and `sd` are None before any data;
    `sd` is the spread of the underlying rate, with the noise of counting (Poisson) taken off.

    Example:
        >>> r = EwRate(half_life_s=60.0)
        >>> for _ in range(8):
        ...     r.update(count=5, dt_s=0.25)
        >>> round(r.per_s, 6)
        20.0
    """

    def __init__(self, half_life_s: float) -> None:
        self.half_life_s = half_life_s
        self._weight = 0.0
        self._sum = 0.0
        self._sum_sq = 0.0
        self._sum_noise = 0.0

    def update(self, count: int, dt_s: float) -> None:
        """Add `count` events seen in the last `dt_s` seconds, above 0."""
        decay = 2.0 ** (-dt_s / self.half_life_s)
        gain, rate = 1.0 - decay, count / dt_s
        self._weight = self._weight * decay + gain
        self._sum = self._sum * decay + gain * rate
        self._sum_sq = self._sum_sq * decay + gain * rate * rate
        self._sum_noise = self._sum_noise * decay + gain * rate / dt_s

    @property
    def per_s(self) -> float | None:
        """The rate in events per second."""
        return self._sum / self._weight if self._weight else None

    @property
    def sd(self) -> float | None:
        """Standard deviation of the rate over the memory, in events per second."""
        if not self._weight:
            return None
        mean = self._sum / self._weight
        spread = self._sum_sq / self._weight - mean * mean - self._sum_noise / self._weight
        return math.sqrt(max(0.0, spread))
