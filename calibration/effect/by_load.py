"""Whether a merge that opens on a busy server harms more: merges by requests in flight."""

from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from calibration.effect.contrast import Contrast, contrast
from calibration.effect.observed import Observed
from calibration.effect.sample import Sample
from calibration.effect.windows import in_windows, mean_window_s, of_arm

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Level = Literal["low", "middle", "high"]

LEVELS: tuple[Level, ...] = get_args(Level)
PLACES_A_WINDOW = 4
"""Moments of the arm without merges that are looked at, for each length of a window."""


@dataclass(frozen=True, slots=True)
class LoadGroup:
    """Merges that found about the same load.

    Attributes:
        level: `low`, `middle` or `high`: thirds of the merges, equal loads kept together.
        least, most: requests in flight at their windows' starts.
        merges: how many.
        contrast: their requests against what windows laid over the learners without merges would
            have met at the same load; None where either side has no request.
    """

    level: Level
    least: int
    most: int
    merges: int
    contrast: Contrast | None


def by_load(observed: Observed, slo_s: float, counts: Floats) -> tuple[LoadGroup, ...]:
    """Groups that have a merge; with few distinct loads there are fewer than three.

    A busy moment is slow without a merge too, so each group has a baseline of its own: windows of
    the mean length laid over the arm without merges, those that open on as many requests.
    """
    if not observed.windows:
        return ()
    loads = _at_starts(observed)
    base, laid = _laid(observed)
    first, second = np.quantile(loads, (1 / 3, 2 / 3), method="inverted_cdf")
    groups = []
    for level, low, high in zip(
        LEVELS, (-np.inf, first, second), (first, second, np.inf), strict=True
    ):
        chosen = (loads > low) & (loads <= high)
        if not chosen.any():
            continue
        windows = [one for one, own in zip(observed.windows, chosen, strict=True) if own]
        ours = in_windows(replace(observed, windows=windows))
        theirs = replace(base, weight=laid.met((laid.load > low) & (laid.load <= high)))
        found = contrast(ours, theirs, slo_s, counts) if ours and theirs else None
        inside = loads[chosen]
        groups.append(
            LoadGroup(level, int(inside.min()), int(inside.max()), int(chosen.sum()), found)
        )
    return tuple(groups)


def in_flight(observed: Observed, block: Ints, at_s: Floats) -> Ints:
    """[m] requests of the block that were sent and had not ended at each moment."""
    found = np.zeros(len(at_s), np.int64)
    for number in np.unique(block):
        own, moments = observed.block == number, block == number
        sent = np.searchsorted(np.sort(observed.arrival_s[own]), at_s[moments], side="left")
        ended = np.searchsorted(np.sort(observed.end_s[own]), at_s[moments], side="right")
        # One that ended at once is counted in `ended` and not in `sent` at its very moment.
        found[moments] = np.maximum(0, sent - ended)
    return found


def _at_starts(observed: Observed) -> Ints:
    block = np.array([window.block for window in observed.windows], np.int64)
    start_s = np.array([window.start_s for window in observed.windows])
    return in_flight(observed, block, start_s)


@dataclass(frozen=True, eq=False)
class _Laid:
    """Windows of one length laid over the arm without merges.

    Attributes:
        observed: the calibration.
        length_s: of each window.
        rows: [n] requests of the arm.
        block, start_s, load: [m] where each window lies, and requests in flight at its start.
    """

    observed: Observed
    length_s: float
    rows: Ints
    block: Ints
    start_s: Floats
    load: Ints

    def met(self, chosen: NDArray[np.bool_]) -> Floats:
        """[n] how many of the chosen windows each request meets."""
        found = np.zeros(len(self.rows))
        of_request = self.observed.block[self.rows]
        for number in np.unique(self.block[chosen]):
            own = np.flatnonzero(of_request == number)
            rows = self.rows[own]
            # In order as they were laid: those that open before the request ends, less those that
            # were over by its arrival.
            opens_s = self.start_s[chosen & (self.block == number)]
            opened = np.searchsorted(opens_s, self.observed.end_s[rows], side="left")
            closes_s = opens_s + self.length_s
            over = np.searchsorted(closes_s, self.observed.arrival_s[rows], side="right")
            found[own] = np.maximum(0, opened - over)
        return found


def _laid(observed: Observed) -> tuple[Sample, _Laid]:
    """Requests of the arm without merges, and the windows laid over it."""
    length_s = mean_window_s(observed)
    blocks, starts = [], []
    for number in observed.of_arm("learners"):
        one = observed.blocks[number]
        moments = np.arange(one.start_s, one.end_s - length_s, length_s / PLACES_A_WINDOW)
        starts.append(moments)
        blocks.append(np.full(len(moments), number, np.int64))
    at_s = np.concatenate(starts) if starts else np.zeros(0)
    block = np.concatenate(blocks) if blocks else np.zeros(0, np.int64)
    rows = np.flatnonzero(observed.counted("learners"))
    laid = _Laid(observed, length_s, rows, block, at_s, in_flight(observed, block, at_s))
    return of_arm(observed, "learners"), laid
