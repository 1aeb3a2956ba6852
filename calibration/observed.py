"""What a controller would have seen of served requests: the same bins that live counting makes.

A request shows by its end, and until then only in the load samples (running + waiting): the
controller learns of an arrival when a sample has it, never from the arrival's own time.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from calibration.serving.contract import Requests
from slackwater.clock import US_PER_S
from slackwater.events import BinRow

BIN_S = 0.25
# Live sidecars send a load sample so often (event time).
SAMPLE_PERIOD_US = 100_000

Times = NDArray[np.int64]


def observed_bins(requests: Requests, bin_s: float = BIN_S) -> Iterator[BinRow]:
    """Each sidecar's closed bins from 0 to the end of the run, in order of time.

    Args:
        requests: served without merges, with every `e2e_s` known.
        bin_s: width of a bin; a row is known from its end on.

    Raises `ValueError` when an end-to-end time is unknown.
    """
    if requests.e2e_s is None or np.isnan(requests.e2e_s).any():
        msg = "what a controller sees needs the end of every request; serve the trace first"
        raise ValueError(msg)
    width_us = round(bin_s * US_PER_S)
    arrival_us = to_us(requests.arrival_s)
    finish_us = arrival_us + to_us(requests.e2e_s)
    starts_us = np.arange(0, round(requests.duration_s * US_PER_S), width_us, dtype=np.int64)
    lanes = [
        _lane(f"sidecar-{number}", starts_us, width_us, arrival_us[own], finish_us[own])
        for number, own in enumerate(requests.by_sidecar())
    ]
    for rows in zip(*lanes, strict=True):
        yield from rows


def to_us(seconds: NDArray[np.float64]) -> Times:
    """Seconds as whole microseconds."""
    return np.rint(seconds * US_PER_S).astype(np.int64)


def _lane(
    name: str, starts_us: Times, width_us: int, arrival_us: Times, finish_us: Times
) -> Iterator[BinRow]:
    """The bins of one sidecar, with what it had in the system at the last sample of each."""
    order = np.argsort(finish_us, kind="stable")
    ended_us, e2e_us = finish_us[order], (finish_us - arrival_us)[order]
    edges = np.searchsorted(ended_us, np.append(starts_us, starts_us[-1] + width_us))
    sample_us = (starts_us + width_us - 1) // SAMPLE_PERIOD_US * SAMPLE_PERIOD_US
    gone = np.searchsorted(ended_us, sample_us, side="right")
    in_system = np.searchsorted(arrival_us, sample_us, side="right") - gone
    e2e_s = np.concatenate([[0], np.cumsum(e2e_us)]) / US_PER_S
    sampled = sample_us >= starts_us
    columns = zip(
        starts_us.tolist(),
        np.diff(edges).tolist(),
        (e2e_s[edges[1:]] - e2e_s[edges[:-1]]).tolist(),
        sampled.tolist(),
        in_system.tolist(),
        sample_us.tolist(),
        (edges[1:] - gone).tolist(),
        strict=True,
    )
    for start_us, finished, e2e_sum_s, has_sample, inside, at_us, after in columns:
        yield BinRow(
            sidecar=name,
            start_us=start_us,
            finished=finished,
            e2e_sum_s=e2e_sum_s,
            samples=int(has_sample),
            in_system=inside if has_sample else None,
            sample_us=at_us if has_sample else None,
            finished_after_sample=after if has_sample else None,
        )
