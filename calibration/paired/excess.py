"""What a run's windows added to its violations, by the other runs of its block.

All runs of a block serve the same requests. What one of them would have been without a window is
told by the runs in which it met none; that the machine was faster or slower in this run than in
those is told by the requests that met none in this run either. A machine that changes its speed
from run to run changes all violations by more than any schedule does, and hardly these.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

AFTER_S = 1.0
"""What windows add is looked for among requests that arrive up to so long after them, too."""
LOAD_S = 0.5
"""A request's load is how many arrived so long before it: arrivals, which no merge changes."""
STRATA = 5
LEAST_ALIKE = 10
LEAST_OUTSIDE = 30

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class ServedRun:
    """One run of a block; its requests are in the block's order.

    Attributes:
        arrival_s: [n] when each was due, in order, by the run's clock.
        violates: [n] whether it violated, as one does that was never sent.
        windows_s: [m, 2] from when to when merges went on.
    """

    arrival_s: Floats
    violates: Bools
    windows_s: Floats


def excess_violations(runs: Sequence[ServedRun], slo_s: float) -> list[float | None]:
    """Violations that the windows of each run of a block added.

    Looked at are the requests that arrived from `slo_s` before a window (those before that violate
    without it, if they are still there) to a second after it. Of each is taken off how often it
    violated in the other runs where it arrived at no such time, and how much more often this run's
    other requests of like load violated than they did there.

    Returns: how many, above or below 0; 0 without windows. None where under 30 requests of a run
    arrived outside, or none of them was outside in another run.
    """
    touched = np.array([_touched(run, slo_s) for run in runs])
    outside = ~touched
    violates = np.array([run.violates for run in runs], np.float64)
    return [
        _excess(run, violates[i], touched[i], outside[i], _usual(violates, outside, i))
        for i, run in enumerate(runs)
    ]


def _touched(run: ServedRun, slo_s: float) -> Bools:
    """[n] whether a request arrived when a window could make it violate."""
    found = np.zeros(len(run.arrival_s), np.bool_)
    for opens_s, closes_s in run.windows_s:
        found |= (run.arrival_s > opens_s - slo_s) & (run.arrival_s < closes_s + AFTER_S)
    return found


def _usual(violates: Floats, outside: Bools, run: int) -> Floats:
    """[n] how often each request violated in the other runs, where it was outside; or NaN."""
    others = outside.copy()
    others[run] = False
    counted = others.sum(axis=0)
    total = np.where(others, violates, 0.0).sum(axis=0)
    usual: Floats = np.divide(total, counted, out=np.full(len(total), np.nan), where=counted > 0)
    return usual


def _excess(
    run: ServedRun, violates: Floats, touched: Bools, outside: Bools, usual: Floats
) -> float | None:
    if not touched.any():
        return 0.0
    known = ~np.isnan(usual)
    told = outside & known
    if np.count_nonzero(told) < LEAST_OUTSIDE:
        return None
    stratum = _strata(run)
    added = 0.0
    for one in np.unique(stratum[touched]):
        inside, alike = touched & (stratum == one), told & (stratum == one)
        if np.count_nonzero(alike) < LEAST_ALIKE:
            alike = told
        slower = float((violates - usual)[alike].mean())
        # One that met a window in every run: as often as others of its load.
        expected = np.where(known, usual, usual[alike].mean()) + slower
        added += float((violates - expected)[inside].sum())
    return added


def _strata(run: ServedRun) -> NDArray[np.int64]:
    """[n] fifths of the requests by their load, equal loads kept together."""
    load = np.arange(len(run.arrival_s)) - np.searchsorted(run.arrival_s, run.arrival_s - LOAD_S)
    edges = np.quantile(load, np.arange(1, STRATA) / STRATA)
    return np.searchsorted(edges, load, side="left")
