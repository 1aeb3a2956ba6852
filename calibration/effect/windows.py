"""Samples of a calibration: requests that met a merge, and what they are to be compared with."""

import numpy as np
from numpy.typing import NDArray

from calibration.effect.observed import Arm, Observed
from calibration.effect.sample import Sample

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def in_windows(observed: Observed) -> Sample:
    """Requests that met a merge: arrived in its window, or were in service during it.

    A request that met two merges stands in it twice. One that was sent while its block was
    settling counts when it lasts into a window: it is the long ones that do.
    """
    counted = np.flatnonzero(np.isin(observed.block, observed.of_arm("merges")))
    arrival_s, end_s = observed.arrival_s[counted], observed.end_s[counted]
    found = []
    for window in observed.windows:
        met = (
            (observed.block[counted] == window.block)
            & (arrival_s < window.end_s)
            & (end_s > window.start_s)
        )
        found.append(counted[met])
    rows = np.concatenate(found) if found else np.zeros(0, np.int64)
    return Sample(
        observed.latency_s[rows],
        np.ones(len(rows)),
        observed.round_of(observed.block[rows]),
        len(observed.windows),
    )


def arriving_in_windows(observed: Observed) -> Sample:
    """Requests that arrived in a window, each once: long ones come no more often than others."""
    rows = np.flatnonzero(observed.counted("merges"))
    inside = np.zeros(len(rows), np.bool_)
    for window in observed.windows:
        arrival_s = observed.arrival_s[rows]
        own = observed.block[rows] == window.block
        inside |= own & (arrival_s >= window.start_s) & (arrival_s < window.end_s)
    return _sample(observed, rows[inside], np.ones(int(inside.sum())))


def as_if_merged(observed: Observed) -> Sample:
    """Requests of the learners that do not merge, each weighed by its chance to meet a window.

    A window meets long requests more often than short ones, merge or not: one of latency L meets a
    window of length W laid at random in proportion to W + L. Without the weights a merge that
    changes nothing would seem to make requests longer.
    """
    rows = np.flatnonzero(observed.counted("learners"))
    taken_s = observed.end_s[rows] - observed.arrival_s[rows]
    return _sample(observed, rows, mean_window_s(observed) + taken_s)


def of_arm(observed: Observed, arm: Arm) -> Sample:
    """All requests of an arm, merges or not."""
    rows = np.flatnonzero(observed.counted(arm))
    return _sample(observed, rows, np.ones(len(rows)))


def mean_window_s(observed: Observed) -> float:
    """Mean length of the windows; 0 without one."""
    lengths = [window.end_s - window.start_s for window in observed.windows]
    return float(np.mean(lengths)) if lengths else 0.0


def _sample(observed: Observed, rows: Ints, weight: Floats) -> Sample:
    return Sample(observed.latency_s[rows], weight, observed.round_of(observed.block[rows]))
