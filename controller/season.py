"""A seasonal forecast of arrivals: the period of the recent past, and the profile folded on it."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

# A period is looked for where the past holds so many of it.
LEAST_PERIODS = 3
LEAST_SLOTS = 60
# Of two lags that repeat nearly as well, the shorter one is the period, the other its multiple.
NEAR_BEST = 0.85
LEAST_CORRELATION = 0.1
FRACTIONS = np.linspace(-0.5, 0.5, 11)


@dataclass(frozen=True, eq=False)
class Season:
    """Arrivals expected by their phase in a period.

    Attributes:
        period_s: of the arrivals.
        slot_s: width of a phase of the profile; the last one ends with the period.
        origin_s: when a phase 0 was, on the clock that the forecasts are asked by.
        rates: [phases] arrivals per second.
        periods: how many periods of the past the profile rests on.
    """

    period_s: float
    slot_s: float
    origin_s: float
    rates: Floats
    periods: float

    @cached_property
    def _edges(self) -> Floats:
        return np.append(np.arange(len(self.rates)) * self.slot_s, self.period_s)

    @cached_property
    def _sums(self) -> Floats:
        return np.append(0.0, np.cumsum(self.rates * np.diff(self._edges)))

    @property
    def rate_per_s(self) -> float:
        """Mean arrivals per second over the period."""
        return float(self._sums[-1] / self.period_s)

    def arrivals(self, from_s: Floats, length_s: float) -> Floats:
        """Arrivals expected in `length_s` seconds from each of the times [n] on."""
        expected: Floats = self._until(from_s + length_s) - self._until(from_s)
        return expected

    def _until(self, at_s: Floats) -> Floats:
        """Expected arrivals from the origin to each time."""
        whole, phase = np.divmod(at_s - self.origin_s, self.period_s)
        inside: Floats = np.interp(phase, self._edges, self._sums)
        total: Floats = whole * self._sums[-1] + inside
        return total


def find_season(counts: Floats, slot_s: float, ends_s: float) -> Season | None:
    """The season of binned arrivals; None where no lag repeats, or too few are known.

    The period is the lag of the largest autocorrelation, or a shorter one nearly as large, then
    refined to a tenth of a slot: the one whose folded profile varies most.

    Args:
        counts: [n] arrivals in each slot up to now, NaN where unknown.
        slot_s: width of a slot.
        ends_s: when the last slot ends.
    """
    known = ~np.isnan(counts)
    if known.sum() < LEAST_SLOTS:
        return None
    lag = _best_lag(np.where(known, counts - counts[known].mean(), 0.0), known)
    if lag is None:
        return None
    numbers = np.flatnonzero(known)
    folds = [(_fold(numbers, counts[known], lag + f), lag + f) for f in FRACTIONS]
    (_, rates), period = max(folds, key=lambda fold: fold[0][0])
    return Season(
        period_s=period * slot_s,
        slot_s=slot_s,
        origin_s=ends_s - len(counts) * slot_s,
        rates=rates / slot_s,
        periods=len(numbers) / period,
    )


def _best_lag(deviations: Floats, known: npt.NDArray[np.bool_]) -> int | None:
    """The lag in slots at which the deviations repeat best; None where they hardly do."""
    number = len(deviations)
    size = 1 << (2 * number - 1).bit_length()
    spectrum, present = np.fft.rfft(deviations, size), np.fft.rfft(known.astype(float), size)
    products = np.fft.irfft(np.abs(spectrum) ** 2, size)[: number // LEAST_PERIODS + 1]
    pairs = np.fft.irfft(np.abs(present) ** 2, size)[: len(products)]
    variance = products[0] / pairs[0]
    if variance <= 0:
        return None
    correlation = products / np.maximum(pairs, 1.0) / variance
    inner = correlation[1:-1]
    peaks = 1 + np.flatnonzero((inner >= correlation[:-2]) & (inner > correlation[2:]))
    # What stays near itself for a while is no period: look beyond the first descent.
    fallen = np.flatnonzero(correlation <= 0)
    peaks = peaks[peaks > fallen[0]] if len(fallen) else peaks[:0]
    if not len(peaks) or correlation[peaks].max() < LEAST_CORRELATION:
        return None
    near = peaks[correlation[peaks] >= NEAR_BEST * correlation[peaks].max()]
    return int(near[0])


def _fold(numbers: npt.NDArray[np.int64], counts: Floats, period: float) -> tuple[float, Floats]:
    """How much a profile of that period varies, and the mean count in each phase of it."""
    phases = ((numbers + 0.5) % period).astype(np.int64)
    length = int(np.ceil(period))
    held = np.bincount(phases, minlength=length)
    sums = np.bincount(phases, counts, length)
    mean = counts.mean()
    rates = np.where(held > 0, sums / np.maximum(held, 1), mean)
    return float((held * (rates - mean) ** 2).sum()), rates
