"""How many requests a closed-loop client keeps going, over time: by schedule or as recorded."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from calibration.serving.contract import Floats
from slackwater.errors import InputError

Counts = NDArray[np.int64]


class Concurrency(Protocol):
    """The size of the batch that a client starts at a time, and when it starts again if idle."""

    def at(self, time_s: Floats) -> Counts:
        """Requests in a batch that starts at each of these times; 0 where the client is idle."""

    def wakes(self, time_s: Floats) -> Floats:
        """The first time from each of these on at which the client is not idle; inf if never."""


@dataclass(frozen=True, slots=True)
class BurstSchedule:
    """Bursts of `busy` requests at a time, `burst_s` of every `period_s`; `quiet` between them.

    Attributes:
        quiet: requests at a time between bursts, 1 or more.
        busy: requests at a time within a burst.
        period_s: from one burst's start to the next one's.
        burst_s: length of a burst.
        phase_s: start of the first burst.
    """

    quiet: int
    busy: int
    period_s: float
    burst_s: float
    phase_s: float = 0.0

    def __post_init__(self) -> None:
        if min(self.quiet, self.busy) < 1 or not 0 <= self.burst_s <= self.period_s > 0:
            msg = (
                f"{self}: a burst schedule needs 1 or more requests at a time and bursts no "
                "longer than their period"
            )
            raise InputError(msg)

    def at(self, time_s: Floats) -> Counts:
        """Requests in a batch that starts at each of these times."""
        within = np.mod(time_s - self.phase_s, self.period_s) < self.burst_s
        return np.where(within, self.busy, self.quiet).astype(np.int64)

    def wakes(self, time_s: Floats) -> Floats:
        """A scheduled client is never idle."""
        return time_s


class Recorded:
    """The batches that would have sent a recorded load: one each `batch_s`, of what arrived in it.

    Without merges the client sends every recorded request. Held up by a slow batch it passes over
    those of the time it lost, as a closed loop does.

    Args:
        arrival_s: [n] arrivals in order.
        duration_s: length of the run.
        batch_s: time of a batch without merges.
    """

    def __init__(self, arrival_s: Floats, duration_s: float, batch_s: float) -> None:
        self._batch_s = batch_s
        cells = int(np.ceil(duration_s / batch_s)) + 1
        self._size = np.bincount((arrival_s // batch_s).astype(np.int64), minlength=cells)
        self._first = np.concatenate(([0], np.cumsum(self._size)))
        busy = np.where(self._size > 0, np.arange(len(self._size)), len(self._size))
        self._next = np.minimum.accumulate(busy[::-1])[::-1]

    def _cell(self, time_s: Floats) -> Counts:
        # Batch n starts at n * batch_s less what rounding took: that is still cell n.
        cell = np.floor(time_s / self._batch_s + 1e-9)
        return np.minimum(cell, len(self._size) - 1).astype(np.int64)

    def at(self, time_s: Floats) -> Counts:
        """Requests recorded in the batch that each of these times lies in."""
        return np.asarray(self._size[self._cell(time_s)], dtype=np.int64)

    def wakes(self, time_s: Floats) -> Floats:
        """The start of the next recorded batch, or the time itself when one is due."""
        cell = self._cell(time_s)
        found = self._next[cell]
        later = np.where(found < len(self._size), found * self._batch_s, np.inf)
        return np.where(found == cell, time_s, later)

    def first_request(self, time_s: Floats) -> Counts:
        """Index of the first recorded request of the batch that each of these times lies in."""
        return np.asarray(self._first[self._cell(time_s)], dtype=np.int64)
