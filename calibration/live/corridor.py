"""A live run on the grid: its measured windows, and the corridor that they were placed in.

A learner takes no step while it merges, so a gap of g steps lasts one window and g step times.
The run begins one window before the learners' first step, as if a merge had ended there: the
first gap is then one like the others. The view `stg_schedules` does the same in SQL, to the last
cell: hence whole microseconds.
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from calibration.live.run import LiveRun
from calibration.placement.corridor import Corridor
from slackwater.clock import US_PER_S
from slackwater.errors import InputError


@dataclass(frozen=True, slots=True, eq=False)
class Placed:
    """Cells of the measured windows' starts, their corridor, and where the run begins.

    Attributes:
        start_cells: [k] rising.
        corridor: in cells, wide enough for all gaps seen.
        begin_s: time of cell 0 on the run's clock, 0 or below.
        notes: what a reader must know of the translation.
    """

    start_cells: npt.NDArray[np.int64]
    corridor: Corridor
    begin_s: float
    notes: tuple[str, ...]


def place(run: LiveRun, cell_s: float) -> Placed:
    """The run's windows on a grid of `cell_s` seconds.

    Raises `InputError` for a run without merges or steps, and for windows in one cell.
    """
    step_us, window_us, cell_us = _check(run), _window_us(run), _us(cell_s)
    window = max(1, math.floor(window_us / cell_us + 0.5))
    begin_us = -window * cell_us
    starts = (np.array([_us(s) for s in run.starts_s]) - begin_us + cell_us // 2) // cell_us
    cells = max((_us(run.end_s) - begin_us) // cell_us, int(starts[-1]) + window)
    gaps = np.diff(starts, prepend=0)
    if gaps.min() < 1:
        msg = f"{run.name}: two merges began within {cell_s:g} s; they are no schedule of windows"
        raise InputError(msg)
    least, most = int(gaps.min()), max(int(gaps.max()), cells - int(starts[-1]))
    low_us, high_us = (window_us + g * step_us for g in (run.min_gap_steps, run.max_gap_steps))
    low, high = low_us // cell_us, -(-high_us // cell_us)
    corridor = Corridor(cells, min(window, least), max(1, min(low, least)), max(high, most))
    told = [_said(run, window_us, step_us, low_us, high_us)]
    if run.late_merges:
        told.append(_late(run))
    if least < low or most > high:
        told.append(_widened(run, cell_s, (least, most), (low, high)))
    return Placed(starts, corridor, begin_us / US_PER_S, tuple(told))


def _us(seconds: float) -> int:
    return round(seconds * US_PER_S)


def _check(run: LiveRun) -> int:
    if not run.merges:
        msg = f"{run.name}: no merge was made, so there is no placement to judge"
        raise InputError(msg)
    if run.step_s is None:
        msg = f"{run.name}: no inner step is logged, so its corridor of steps has no seconds"
        raise InputError(msg)
    if run.starts_s[0] < 0:
        msg = f"{run.name}: a merge began before the learners' first step; the log is not whole"
        raise InputError(msg)
    return _us(run.step_s)


def _window_us(run: LiveRun) -> int:
    known = run.lengths_s[~np.isnan(run.lengths_s)]
    if not len(known):
        msg = f"{run.name}: no merge has ended yet, so a window's length is unknown; ask later"
        raise InputError(msg)
    return math.floor(float(np.median([_us(length) for length in known])) + 0.5)


def _said(run: LiveRun, window_us: int, step_us: int, low_us: int, high_us: int) -> str:
    low_s, high_s, step_s, window_s = (
        us / US_PER_S for us in (low_us, high_us, step_us, window_us)
    )
    return (
        f"{run.name}: gaps of {run.min_gap_steps} to {run.max_gap_steps} inner steps are "
        f"{low_s:.1f} to {high_s:.1f} s, by {step_s:.3f} s a step and a window of {window_s:.2f} s "
        "(median of the measured ones, taken for all)"
    )


def _late(run: LiveRun) -> str:
    return (
        f"{run.name}: {run.late_merges} merges began after the traffic had ended or merges were "
        "paused; they harmed nobody by no merit and are left out"
    )


def _widened(run: LiveRun, cell_s: float, seen: tuple[int, int], allowed: tuple[int, int]) -> str:
    return (
        f"{run.name}: the gaps seen, {seen[0] * cell_s:g} to {seen[1] * cell_s:g} s with the rest "
        f"of the run, do not lie in the corridor of {allowed[0] * cell_s:g} to "
        f"{allowed[1] * cell_s:g} s; random schedules are drawn from one widened to hold them"
    )
