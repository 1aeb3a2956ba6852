"""Costs on a grid: what a window costs for each cell it may start at, by prefix sums."""

import math

import numpy as np
from numpy.typing import NDArray

from calibration.serving.contract import Floats, Requests, ServingModel, windows_of
from calibration.serving.overlap import Counting, finish_s
from slackwater.errors import InputError

Counts = NDArray[np.int64]

# A trace's times are whole microseconds; half of one forgives what binary fractions lose.
TOLERANCE_S = 5e-7
# 11 days; a run, a window or a gap of more is a mistake, and its grid would fill the memory.
LONGEST_S = 1e6


def cell_count(duration_s: float, cell_s: float) -> int:
    """Whole cells in the run; a last part of a cell is not on the grid."""
    return math.floor(duration_s / cell_s + TOLERANCE_S)


def whole_cells(seconds: float, cell_s: float, what: str) -> int:
    """`seconds` in cells; raises `InputError` when it is not a whole number of them, 1 or more."""
    if not seconds > 0:
        msg = f"{what} of {seconds:g} s: it must be above 0 s"
        raise InputError(msg)
    if seconds > LONGEST_S:
        msg = f"{what} of {seconds:g} s: it must be at most {LONGEST_S:,.0f} s"
        raise InputError(msg)
    cells = round(seconds / cell_s)
    if cells < 1 or abs(cells * cell_s - seconds) > TOLERANCE_S:
        msg = f"{what} of {seconds:g} s is not a whole number of cells of {cell_s:g} s"
        raise InputError(msg)
    return cells


def requests_per_cell(requests: Requests, cell_s: float) -> Counts:
    """[cells] arrivals in each cell of the grid; those in a last part of a cell are left out."""
    return np.diff(_before(requests.arrival_s, cell_count(requests.duration_s, cell_s), cell_s))


def start_costs(requests: Requests, window_s: float, cell_s: float, counting: Counting) -> Counts:
    """[cells - window_cells + 1] requests that a window starting at each cell would touch.

    Arrivals before the window's end, less those that had finished by its start: two prefix sums,
    whatever the number of windows. The total over a schedule is its overlap cost; a request that
    outlasts the gap between two windows counts in both.
    """
    cells = cell_count(requests.duration_s, cell_s)
    window = whole_cells(window_s, cell_s, "a window")
    arrived = _before(requests.arrival_s, cells, cell_s)
    if counting == "arriving":
        return arrived[window:] - arrived[: cells - window + 1]
    finish = finish_s(requests, counting)
    # One of unknown length finishes as it arrives: at the very start of a window it is inside.
    length_known = finish > requests.arrival_s
    gone = _before(finish[length_known], cells, cell_s, including=True)
    gone += _before(finish[~length_known], cells, cell_s)
    return arrived[window:] - gone[: cells - window + 1]


def _before(times_s: Floats, cells: int, cell_s: float, *, including: bool = False) -> Counts:
    """[cells + 1] how many of the times lie before each cell's start (or on it: `including`)."""
    ordered = np.sort(times_s)
    edges = np.arange(cells + 1) * cell_s
    found = np.searchsorted(ordered, edges, side="right" if including else "left")
    return found.astype(np.int64)


def isolated_costs(
    model: ServingModel, requests: Requests, window_s: float, cell_s: float
) -> Counts:
    """[cells - window_cells + 1] requests that `model` harms with one window alone at each cell.

    For models whose harm outlasts the window. Sums over a schedule are exact only while the
    backlog of one window is gone by the next; one run of the model a cell.
    """
    starts = cell_count(requests.duration_s, cell_s) - whole_cells(window_s, cell_s, "a window") + 1
    harmed = [
        int(model.serve(requests, windows_of([i * cell_s], window_s)).harmed.sum())
        for i in range(starts)
    ]
    return np.asarray(harmed, dtype=np.int64)
