"""A closed-loop client's batches, one after another, under one schedule of merges or many."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calibration.placement.compiled import compiled
from calibration.serving.concurrency import Concurrency, Counts
from calibration.serving.contract import Floats

Times = tuple[float, float, float, float]
Late = NDArray[np.bool_]

# A batch due as a piece begins may come a rounding early. Traces are whole microseconds.
EARLY_S = 5e-7
GOLDEN = (5**0.5 - 1) / 2


@dataclass(frozen=True, slots=True)
class Client:
    """One client: how many requests at a time, for how long, and what a batch takes.

    Attributes:
        concurrency: size of its batches over time.
        duration_s: batches that start within [0, duration_s) count.
        batch_s: a batch's time.
        slowed_batch_s: its time when it starts inside a window.
    """

    concurrency: Concurrency
    duration_s: float
    batch_s: float
    slowed_batch_s: float

    def batches(self, starts_s: Floats, window_s: float) -> tuple[Floats, Counts, Counts]:
        """Start, piece of the concurrency and slowed (0 or 1) of each batch, in order."""
        start, piece, slowed = _room(self.duration_s, self.batch_s)
        pieces = self.concurrency
        made = _run(
            pieces.from_s, pieces.size, self._times(window_s), starts_s, start, piece, slowed
        )
        return start[:made], piece[:made], slowed[:made]

    def totals(self, starts_s: Floats, window_s: float, late: Late) -> tuple[Counts, Counts]:
        """Requests sent, and those in late batches, under each row of [runs, merges].

        `late` [2, parts] is whether a batch is late that takes such a time: row 1 of batches that
        are slowed, row 0 of others. Which part the n-th batch takes is `part_of`.
        """
        pieces, rows = self.concurrency, np.ascontiguousarray(starts_s)
        most = np.arange(_most(self.duration_s, self.batch_s))
        part = part_of(most, late.shape[1])
        return _totals(pieces.from_s, pieces.size, self._times(window_s), rows, late, part)

    def _times(self, window_s: float) -> Times:
        return self.duration_s, self.batch_s, self.slowed_batch_s, window_s


def part_of(batch: Counts, parts: int) -> Counts:
    """The part of its times that a client's n-th batch takes, n from 0.

    Steps of the golden section: any few batches in a row, as those of one window, hold short and
    long ones as all do.
    """
    return (batch * GOLDEN % 1 * parts).astype(np.int64)


@compiled
def _most(duration_s: float, batch_s: float) -> int:
    """The most batches that a run can have."""
    return int(duration_s / batch_s) + 2


@compiled
def _room(duration_s: float, batch_s: float) -> tuple[Floats, Counts, Counts]:
    """Arrays that hold the most batches a run can have."""
    most = _most(duration_s, batch_s)
    return np.empty(most), np.empty(most, dtype=np.int64), np.empty(most, dtype=np.int64)


@compiled
def _run(
    from_s: Floats,
    size: Counts,
    times: Times,
    starts_s: Floats,
    start: Floats,
    piece: Counts,
    slowed: Counts,
) -> int:
    """Fill the last three with the run's batches; returns how many there were."""
    duration_s, batch_s, slowed_batch_s, window_s = times
    now, at, upcoming, made = 0.0, 0, 0, 0
    while now < duration_s:
        while at + 1 < len(from_s) and from_s[at + 1] <= now + EARLY_S:
            at += 1
        if size[at] == 0:
            now = from_s[at + 1] if at + 1 < len(from_s) else duration_s
            continue
        while upcoming < len(starts_s) and starts_s[upcoming] + window_s <= now:
            upcoming += 1
        slow = upcoming < len(starts_s) and starts_s[upcoming] <= now
        start[made], piece[made], slowed[made] = now, at, 1 if slow else 0
        made += 1
        now += slowed_batch_s if slow else batch_s
    return made


@compiled
def _totals(
    from_s: Floats, size: Counts, times: Times, starts_s: Floats, late: Late, part: Counts
) -> tuple[Counts, Counts]:
    runs = len(starts_s)
    sent, lost = np.zeros(runs, dtype=np.int64), np.zeros(runs, dtype=np.int64)
    start, piece, slowed = _room(times[0], times[1])
    for r in range(runs):
        made = _run(from_s, size, times, starts_s[r], start, piece, slowed)
        for k in range(made):
            sent[r] += size[piece[k]]
            if late[slowed[k], part[k]]:
                lost[r] += size[piece[k]]
    return sent, lost
