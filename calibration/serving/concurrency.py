"""How many requests a closed-loop client keeps going, over time: by schedule or as recorded."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calibration.serving.contract import Floats
from slackwater.errors import InputError

Counts = NDArray[np.int64]
MOST_PIECES = 10_000_000
"""Batches or bursts that a run may have: their arrays then take some hundred megabytes."""
MOST_AT_A_TIME = 10_000


@dataclass(frozen=True, slots=True, eq=False)
class Concurrency:
    """The size of the batch that a client starts at a time, as a staircase.

    Attributes:
        from_s: [pieces] when each piece begins, rising, the first at 0.
        size: [pieces] requests in a batch that starts in it; 0 where the client is idle.
    """

    from_s: Floats
    size: Counts


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
        if not all(1 <= size <= MOST_AT_A_TIME for size in (self.quiet, self.busy)) or not (
            0 <= self.burst_s <= self.period_s < np.inf
            and self.period_s > 0
            and np.isfinite(self.phase_s)
        ):
            msg = (
                f"{self}: a burst schedule needs 1 to {MOST_AT_A_TIME:,} requests at a time, "
                "bursts no longer than their period, and finite times"
            )
            raise InputError(msg)

    def over(self, duration_s: float) -> Concurrency:
        """The schedule from 0 to `duration_s`."""
        check_pieces("schedule.period_s", self.period_s, duration_s)
        bursts = np.arange(-1.0, np.ceil(duration_s / self.period_s) + 1)
        begins = self.phase_s % self.period_s + bursts * self.period_s
        edges = np.unique(np.concatenate(([0.0, duration_s], begins, begins + self.burst_s)))
        edges = edges[(edges >= 0) & (edges <= duration_s)]
        middle = (edges[:-1] + edges[1:]) / 2
        within = np.mod(middle - self.phase_s, self.period_s) < self.burst_s
        return Concurrency(edges[:-1], np.where(within, self.busy, self.quiet).astype(np.int64))


def check_pieces(name: str, piece_s: float, duration_s: float) -> None:
    """Raise `InputError` when a run has more pieces of this length than memory is for."""
    if not duration_s / piece_s <= MOST_PIECES:
        msg = (
            f"{name} {piece_s:g}: {duration_s:g} s have {duration_s / piece_s:.2g} of them, and "
            f"{MOST_PIECES:,} are allowed; take a longer {name}, or shorter runs"
        )
        raise InputError(msg)


def recorded(arrival_s: Floats, duration_s: float, batch_s: float) -> Concurrency:
    """The batches that would have sent a recorded load: one each `batch_s`, of what arrived in it.

    Without merges the client sends every recorded request, one batch a piece. Held up by a slow
    batch it passes over those of the time it lost, as a closed loop does. Piece k holds the
    requests from sum(size[:k]) on, in order of arrival.
    """
    pieces = int(np.ceil(duration_s / batch_s)) + 1
    size = np.bincount((arrival_s // batch_s).astype(np.int64), minlength=pieces)
    from_s = np.arange(len(size), dtype=np.float64) * batch_s
    return Concurrency(np.asarray(from_s, dtype=np.float64), size.astype(np.int64))
