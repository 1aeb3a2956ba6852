"""How long a merge is felt after its window has closed."""

import itertools
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from calibration.effect.contrast import against
from calibration.effect.intervals import Interval
from calibration.effect.observed import Observed
from calibration.effect.sample import Drawn, Floats, Ints, Sample, drawn

EDGES_S = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
MIN_REQUESTS = 20


@dataclass(frozen=True, slots=True)
class AfterBin:
    """Requests that arrived from `from_s` to `to_s` after a window's end.

    Attributes:
        from_s, to_s: since the end of the last window.
        requests: how many.
        merges: after how many windows.
        p50_ratio: median latency over that of learners without merges; None with too few.
        harmed: the ratio's interval lies above 1; None when unknown.
    """

    from_s: float
    to_s: float
    requests: int
    merges: int
    p50_ratio: Interval | None
    harmed: bool | None


@dataclass(frozen=True, slots=True)
class SpillOver:
    """Harm after the window.

    Attributes:
        bins: in order of time since the window's end.
        lasts_s: harm was shown without a break up to here: 0 when the first bin shows none, None
            when it could not be judged.
        bounded: whether a bin that shows no harm comes after it: the figure is no lower bound.
    """

    bins: tuple[AfterBin, ...]
    lasts_s: float | None
    bounded: bool


def spill_over(observed: Observed, base: Drawn, counts: Floats) -> SpillOver:
    """Bins of time since the window's end, each against the learners without merges.

    The bins are looked at in order, and the first one that shows no harm ends the harm: hypotheses
    tested in a fixed order need no further correction (Maurer, Hothorn and Lehmacher 1995).

    Args:
        observed: the calibration.
        base: the learners without merges, drawn by `counts`.
        counts: how often each round is drawn.
    """
    since_s, sample, merge = _following(observed, clear_s=float(base.quantiles[0, 1]))
    bins = []
    for from_s, to_s in itertools.pairwise(EDGES_S):
        inside = (since_s >= from_s) & (since_s < to_s)
        ours = drawn(_inside(sample, inside, merge), np.inf, counts)
        bins.append(_bin(from_s, to_s, ours, base))
    lasts_s, bounded = _lasts(bins)
    return SpillOver(tuple(bins), lasts_s, bounded)


def _lasts(bins: list[AfterBin]) -> tuple[float | None, bool]:
    if bins[0].harmed is None:
        return None, False
    lasts_s = 0.0
    for one in bins:
        if not one.harmed:
            return lasts_s, one.harmed is False
        lasts_s = one.to_s
    return lasts_s, False


def _bin(from_s: float, to_s: float, ours: Drawn, base: Drawn) -> AfterBin:
    enough = ours.requests >= MIN_REQUESTS and base.requests
    ratio = against(ours, base).p50_ratio if enough else None
    harmed = None if ratio is None or ratio.low is None else ratio.low > 1
    return AfterBin(from_s, to_s, ours.requests, ours.merges, ratio, harmed)


def _following(observed: Observed, clear_s: float) -> tuple[Floats, Sample, Ints]:
    """Requests between windows: seconds since the last one's end, and after which that was.

    Those that arrive less than `clear_s` (nearly all last no longer) before the next window are
    left out, whatever became of them: to leave out the ones that met it would leave the short ones.
    """
    counted = np.flatnonzero(observed.counted("merges"))
    arrival_s = observed.arrival_s[counted]
    since_s = np.full(len(counted), np.inf)
    merge = np.full(len(counted), -1, np.int64)
    next_s = np.full(len(counted), np.inf)
    for number, window in enumerate(observed.windows):
        own = observed.block[counted] == window.block
        before = own & (arrival_s < window.end_s)
        next_s[before] = np.minimum(next_s[before], window.start_s)
        after = own & (arrival_s >= window.end_s)
        since_s[after] = arrival_s[after] - window.end_s
        merge[after] = number
    kept = (merge >= 0) & (arrival_s + clear_s <= next_s)
    rows = counted[kept]
    place = observed.round_of(observed.block[rows])
    sample = Sample(observed.latency_s[rows], np.ones(len(rows)), place)
    return since_s[kept], sample, merge[kept]


def _inside(sample: Sample, inside: NDArray[np.bool_], merge: Ints) -> Sample:
    """The requests inside, and how many merges they come after."""
    return replace(
        sample,
        latency_s=sample.latency_s[inside],
        weight=sample.weight[inside],
        round=sample.round[inside],
        merges=len(np.unique(merge[inside])),
    )
