"""A closed-loop client's batches, one after another, for many schedules of merges at once."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calibration.serving.concurrency import Concurrency
from calibration.serving.contract import Floats


@dataclass(frozen=True, slots=True, eq=False)
class Batches:
    """The batches of each run: [runs, batches], with size 0 where a run had fewer.

    Attributes:
        start_s: when the batch started.
        size: requests in it.
        slowed: whether it started inside a window.
    """

    start_s: Floats
    size: NDArray[np.int64]
    slowed: NDArray[np.bool_]


def run_batches(
    concurrency: Concurrency,
    duration_s: float,
    starts_s: Floats,
    window_s: float,
    batch_s: float,
    slowed_batch_s: float,
) -> Batches:
    """Run the client through each row of `starts_s` [runs, merges], rising along a row.

    A batch takes `batch_s`, or `slowed_batch_s` when it starts inside a window; the next starts
    as it ends. Batches that start within [0, duration_s) count. All runs advance together, a
    batch at a time: the number of numpy calls does not grow with the number of runs.
    """
    runs, merges = starts_s.shape
    padded = np.concatenate([starts_s, np.full((runs, 1), np.inf)], axis=1)
    row, upcoming = np.arange(runs), np.zeros(runs, dtype=np.int64)
    now = concurrency.wakes(np.zeros(runs))
    steps: list[tuple[Floats, NDArray[np.int64], NDArray[np.bool_]]] = []
    while (now < duration_s).any():
        live = now < duration_s
        while (over := padded[row, upcoming] + window_s <= now).any():
            upcoming = np.minimum(upcoming + over, merges)
            if (upcoming[over] == merges).all():
                break
        slowed = live & (padded[row, upcoming] <= now)
        safe = np.where(live, now, 0.0)
        steps.append((now, np.where(live, concurrency.at(safe), 0), slowed))
        ended = safe + np.where(slowed, slowed_batch_s, batch_s)
        now = np.where(live, concurrency.wakes(ended), np.inf)
    return _stacked(steps, runs)


def _stacked(
    steps: list[tuple[Floats, NDArray[np.int64], NDArray[np.bool_]]], runs: int
) -> Batches:
    if not steps:
        return Batches(
            np.empty((runs, 0)), np.empty((runs, 0), np.int64), np.empty((runs, 0), np.bool_)
        )
    start, size, slowed = (np.stack(part, axis=1) for part in zip(*steps, strict=True))
    return Batches(start, size, slowed)
