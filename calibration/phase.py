"""Are runs independent? Runs that start at one phase of a periodic load repeat one experiment.

A fixed period that happens to miss the bursts misses them in each such run: n runs then carry the
evidence of one. Looked for in the counts themselves, wherever the runs came from: the frequencies
that stand out of their neighbourhood in the mean spectrum, and the phase each run has there. And
a run given twice, or shifted, is one run.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import ArrayLike, NDArray

from calibration.placement.compiled import compiled
from slackwater.errors import InputError

MIN_PHASES = 6
"""Fewer distinct phases than this cannot carry a two-sided claim at 5%."""
LOCKED = 0.9
"""Phases whose mean vector is longer than this are one phase (a spread of 0.07 turns)."""
MIN_CELLS = 32
"""In shorter runs no period can be found."""
PEAK_P = 0.001
NEIGHBOURS = 12
LOOKED_AT = 64
MOST_PERIODS = 5
"""Periods whose phases are looked at; each further one would refuse more runs by chance."""
SHIFTED = 10
SAME = 0.9


@dataclass(frozen=True, slots=True)
class PhaseLock:
    """What the phases of the runs at the dominant period say.

    Attributes:
        period_s: the period that is locked, else the dominant one; None when none stands out.
        phases: distinct phases that the runs take, if under 6; None when they are spread.
        locking: length of the mean phase vector at that number of phases, 0 to 1.
        independent: no lock was found.
        reason: in words.
    """

    period_s: float | None
    phases: int | None
    locking: float | None
    independent: bool
    reason: str


def phase_lock(counts: ArrayLike, cell_s: float) -> PhaseLock:
    """Check runs [runs, cells] of arrivals per cell for a locked phase.

    Simulated: constant load shows a period in under 1% of sets of runs, and is then not refused;
    runs of a periodic load at random phases are refused in 1% of sets of 6, 0.1% of 8. Raises
    `InputError` for runs of under 32 cells.
    """
    table = np.asarray(counts, dtype=np.float64)
    if table.ndim != 2 or table.shape[1] < MIN_CELLS:
        msg = (
            f"counts of shape {table.shape}; runs of {MIN_CELLS} cells or more are needed to find "
            "a period"
        )
        raise InputError(msg)
    copies = repeated(table)
    if copies is not None:
        first, second = copies
        reason = (
            f"runs {first} and {second} are the same traffic; a run that repeats is no evidence"
        )
        return PhaseLock(None, None, None, False, reason)
    spectrum = np.fft.rfft(table - table.mean(axis=1, keepdims=True), axis=1)[:, 1:]
    length_s = table.shape[1] * cell_s
    found = [
        _judged(np.angle(spectrum[:, peak]), length_s / (peak + 1))
        for peak in periods(np.mean(np.abs(spectrum) ** 2, axis=0), len(table))
    ]
    if not found:
        return PhaseLock(None, None, None, True, "no period stands out of the load")
    return next((lock for lock in found if not lock.independent), found[0])


def repeated(table: NDArray[np.float64]) -> tuple[int, int] | None:
    """Two runs of [runs, cells] that are one, shifted by up to a tenth or not; None if none are.

    Nearly all cells that are not idle in both hold the same count in both: independent traffic
    agrees in a small part of them.
    """
    first, second = _same(table, table.shape[1] // SHIFTED, MIN_CELLS, SAME)
    return None if first < 0 else (min(first, second), max(first, second))


@compiled
def _same(table: NDArray[np.float64], shifts: int, least: int, share: float) -> tuple[int, int]:
    """The first pair of rows of which one, shifted, is the other; (-1, -1) where there is none."""
    runs, cells = table.shape
    for i in range(runs):
        for j in range(runs):
            for shift in range(shifts + 1 if i != j else 0):
                busy, apart = 0, 0
                allowed = (1 - share) * (cells - shift)
                for cell in range(cells - shift):
                    one, other = table[i, cell + shift], table[j, cell]
                    if one > 0 or other > 0:
                        busy += 1
                        if one != other:
                            apart += 1
                            if apart > allowed:
                                break
                if busy >= least and apart < (1 - share) * busy:
                    return i, j
    return -1, -1


def periods(power: NDArray[np.float64], runs: int) -> list[int]:
    """Indices of the bins that stand out from the median of their neighbours, the strongest first.

    Harmonics of one that is listed already are left out: their phases follow from its own. The
    mean of `runs` periodograms of noise is a gamma variable of that shape, whose tail is a sum of
    Poisson terms.
    """
    padded = np.pad(power, NEIGHBOURS, mode="reflect")
    background = np.median(sliding_window_view(padded, 2 * NEIGHBOURS + 1), axis=1)
    # A gamma variable's median lies below its mean, by about a third of its scale.
    background /= 1 - 1 / (3 * runs)
    if not background.any() and power.any():
        return [int(np.argmax(power))]
    ratio = np.divide(power, background, out=np.zeros_like(power), where=background > 0)
    listed: list[int] = []
    for peak in np.argsort(-ratio)[:LOOKED_AT].tolist():
        if len(power) * _gamma_tail(runs, runs * float(ratio[peak])) >= PEAK_P:
            break
        if not any(_follows(peak + 1, fundamental + 1) for fundamental in listed):
            listed.append(peak)
    return listed[:MOST_PERIODS]


def _follows(cycles: int, fundamental: int) -> bool:
    """Whether that many cycles a run are a multiple of another number, or next to one."""
    multiple = max(1, round(cycles / fundamental))
    return abs(cycles - multiple * fundamental) <= max(1, multiple // 2)


def _gamma_tail(shape: int, x: float) -> float:
    """P(gamma of whole shape and scale 1 > x)."""
    logs = [k * math.log(x) - x - math.lgamma(k + 1) for k in range(shape)] if x > 0 else [0.0]
    return min(1.0, math.fsum(math.exp(value) for value in logs))


def _judged(phase: NDArray[np.float64], period_s: float) -> PhaseLock:
    """Q distinct phases, evenly spaced, are one phase of the q-th harmonic."""
    few = range(1, min(MIN_PHASES, len(phase)))
    locking = {q: float(np.abs(np.mean(np.exp(1j * q * phase)))) for q in few}
    locked = next((q for q, strength in locking.items() if strength > LOCKED), None)
    if locked is None:
        best = max(locking.values(), default=None)
        reason = f"the load has a period of {period_s:.4g} s, and the runs start all over it"
        return PhaseLock(period_s, None, best, True, reason)
    reason = (
        f"the runs start at {locked} phase{'s' if locked > 1 else ''} of the load's period of "
        f"{period_s:.4g} s, so they are not independent; start them at random phases"
    )
    return PhaseLock(period_s, locked, locking[locked], False, reason)
