"""What a run's windows added to its violations, by the run's own requests outside of them.

A machine that is slow in one run and fast in the next changes the violations of both by more than
any schedule does. Within a run the requests that met no window tell what the others would have been
without it: those that arrived under the same load.
"""

import numpy as np
from numpy.typing import NDArray

LOAD_S = 0.5
"""A request's load is how many arrived so long before it: arrivals, which no merge changes."""
AFTER_S = 1.0
"""Requests that arrive so soon after a window are not taken for untouched ones."""
STRATA = 10
LEAST_OUTSIDE = 10
LEAST_FREE = 0.05

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


def excess_violations(
    arrival_s: Floats, end_s: Floats, violates: Bools, windows_s: Floats
) -> float | None:
    """Violations in the windows less those that as many requests outside had under the same load.

    Args:
        arrival_s: [n] when requests were due, in order.
        end_s: [n] when they ended.
        violates: [n] whether they violated.
        windows_s: [m, 2] from when to when merges went on.

    Returns: how many, above or below 0; 0 without windows, None where no request was outside.
    """
    inside, touched = (_meets(arrival_s, end_s, windows_s, more_s) for more_s in (0.0, AFTER_S))
    outside = ~touched
    if not inside.any():
        return 0.0
    if not outside.any():
        return None
    stratum = _strata(arrival_s)
    weight = _chance_to_meet(arrival_s, end_s, windows_s)
    expected = 0.0
    for one in np.unique(stratum[inside]):
        alike = outside & (stratum == one)
        base = alike if np.count_nonzero(alike) >= LEAST_OUTSIDE else outside
        usual = float(np.average(violates[base], weights=weight[base]))
        expected += np.count_nonzero(inside & (stratum == one)) * usual
    return float(np.count_nonzero(violates & inside)) - expected


def _meets(arrival_s: Floats, end_s: Floats, windows_s: Floats, more_s: float) -> Bools:
    """[n] whether a request was there in a window, or arrived within `more_s` after it."""
    found = np.zeros(len(arrival_s), np.bool_)
    for opens_s, closes_s in windows_s:
        found |= (arrival_s < closes_s + more_s) & (end_s > opens_s)
    return found


def _chance_to_meet(arrival_s: Floats, end_s: Floats, windows_s: Floats) -> Floats:
    """[n] how often a request of this length meets a window, for each time that it meets none.

    A window meets long requests more often than short ones, merge or not, and leaves fewer of them
    outside.
    """
    span_s = end_s.max() - arrival_s[0]
    length_s = float(np.mean(windows_s[:, 1] - windows_s[:, 0])) + end_s - arrival_s
    meets = len(windows_s) * length_s / span_s
    free = 1 - meets - len(windows_s) * AFTER_S / span_s
    found: Floats = meets / np.maximum(free, LEAST_FREE)
    return found


def _strata(arrival_s: Floats) -> NDArray[np.int64]:
    """[n] tenths of the requests by their load, equal loads kept together."""
    before = np.searchsorted(arrival_s, arrival_s - LOAD_S, side="left")
    load = np.arange(len(arrival_s)) - before
    edges = np.quantile(load, np.arange(1, STRATA) / STRATA)
    return np.searchsorted(edges, load, side="left")
