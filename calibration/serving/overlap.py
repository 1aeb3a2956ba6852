"""The overlap model: a window harms the requests that arrive in it, or are in service in it."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from calibration.serving.contract import Floats, Requests, Served, Windows
from slackwater.errors import InputError

Counting = Literal["arriving", "in_service"]


@dataclass(frozen=True, slots=True)
class Overlap:
    """Counts what a window touches; a harmed request takes `slowdown` times as long.

    Attributes:
        counting: `arriving` counts arrivals in [start, start + W); `in_service` adds those that
            had arrived before and finish after the start.
        slowdown: latency of a harmed request over its latency without merges, 1 or more.

    A request whose end-to-end time is unknown counts by its arrival alone. One that spans two
    windows is one harmed request here, and counts in the cost of each window on a grid.
    """

    counting: Counting = "in_service"
    slowdown: float = 1.24 / 0.73

    @property
    def name(self) -> str:
        """The name in the registry."""
        return "overlap"

    def serve(self, requests: Requests, windows: Windows) -> Served:
        """Latency and harm of each request; latencies are unknown where `e2e_s` is."""
        harmed = touched(requests, windows, self.counting)
        e2e_s = requests.e2e_s if requests.e2e_s is not None else np.full(len(requests), np.nan)
        return Served(
            request=np.arange(len(requests), dtype=np.int64),
            arrival_s=requests.arrival_s,
            latency_s=np.where(harmed, e2e_s * self.slowdown, e2e_s),
            harmed=harmed,
        )


def finish_s(requests: Requests, counting: Counting) -> Floats:
    """[n] when each request stops being exposed; its arrival, where nothing more is known.

    Raises `InputError` when `in_service` is asked for and no end-to-end time is known.
    """
    if counting == "arriving" or not len(requests):
        return requests.arrival_s
    if requests.e2e_s is None or np.isnan(requests.e2e_s).all():
        msg = (
            "counting requests in service needs their end-to-end times, and none is known; "
            "use the arriving count, or a trace with durations"
        )
        raise InputError(msg)
    return requests.arrival_s + np.nan_to_num(requests.e2e_s, nan=0.0)


def touched(requests: Requests, windows: Windows, counting: Counting) -> NDArray[np.bool_]:
    """[n] whether any window touches the request.

    The first window that ends after the arrival decides: no other can start before the finish
    when that one does not.
    """
    finish = finish_s(requests, counting)
    if not len(windows.starts_s):
        return np.zeros(len(requests), dtype=np.bool_)
    ends = windows.starts_s + windows.window_s
    first = np.searchsorted(ends, requests.arrival_s, side="right")
    start = np.append(windows.starts_s, np.inf)[first]
    return np.asarray((start <= requests.arrival_s) | (start < finish))
