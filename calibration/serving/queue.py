"""The queue model: a FIFO server that slows down during windows and works off what they leave.

Time is stretched, not stepped: outside windows a second does a second of work, inside one it does
1 / slowdown. In work time every slot runs at rate 1, so the queue there is a plain FIFO one, and
its finishes map back to the clock exactly.
"""

import heapq
from dataclasses import dataclass

import numpy as np

from calibration.serving.contract import Floats, Requests, Served, Windows
from slackwater.errors import InputError

# Latencies come through sums of floats; a longer one is harm only above this.
HARM_S = 1e-6
# More is a mistake: slots are walked one by one, and a time of 11 days outlasts every run.
MOST_SLOTS = 1_000_000
MOST_S = MOST_SLOWDOWN = 1e6


@dataclass(frozen=True, slots=True)
class Queue:
    """One server a sidecar with `slots` requests in service at a time, first come first served.

    Attributes:
        slots: requests in service at a time.
        service_s: work of a request whose own `service_s` is unknown, seconds on one idle slot.
        slowdown: how many times as long work takes inside a window, 1 or more.

    Harmed means: finished later than without merges, whether inside a window or in the backlog
    that it left.
    """

    slots: int = 1
    service_s: float = 0.1
    slowdown: float = 1.24 / 0.73

    def __post_init__(self) -> None:
        within = (
            1 <= self.slots <= MOST_SLOTS,
            0 < self.service_s <= MOST_S,
            1 <= self.slowdown <= MOST_SLOWDOWN,
        )
        if not all(within):
            msg = (
                f"slots {self.slots}, service_s {self.service_s:g}, slowdown {self.slowdown:g}: a "
                f"queue needs 1 to {MOST_SLOTS:,} slots, a service time above 0 and up to "
                f"{MOST_S:,.0f} s, and a slowdown of 1 to {MOST_SLOWDOWN:,.0f}"
            )
            raise InputError(msg)

    @property
    def name(self) -> str:
        """The name in the registry."""
        return "queue"

    def serve(self, requests: Requests, windows: Windows) -> Served:
        """Latency from arrival to finish, queueing included, and who was made later by a merge."""
        work_s = requests.service_s
        if work_s is None:
            work_s = np.full(len(requests), self.service_s)
        latency_s, alone_s = np.empty(len(requests)), np.empty(len(requests))
        for own in requests.by_sidecar():
            arrival_s = requests.arrival_s[own]
            alone_s[own] = fifo_finish(arrival_s, work_s[own], self.slots) - arrival_s
            latency_s[own] = self._finish(arrival_s, work_s[own], windows) - arrival_s
        return Served(
            request=np.arange(len(requests), dtype=np.int64),
            arrival_s=requests.arrival_s,
            latency_s=latency_s,
            harmed=latency_s > alone_s + HARM_S,
        )

    def _finish(self, arrival_s: Floats, work_s: Floats, windows: Windows) -> Floats:
        if not len(windows.starts_s):
            return fifo_finish(arrival_s, work_s, self.slots)
        clock_s, done_s = work_clock(windows, self.slowdown)
        finished = fifo_finish(piecewise(arrival_s, clock_s, done_s), work_s, self.slots)
        return piecewise(finished, done_s, clock_s)


def work_clock(windows: Windows, slowdown: float) -> tuple[Floats, Floats]:
    """The corners of work done against the clock, both in seconds, from (0, 0) on.

    The last stretch runs at rate 1 for ever; `piecewise` continues it.
    """
    ends_s = windows.starts_s + windows.window_s
    corners = np.stack([windows.starts_s, ends_s], axis=1).reshape(-1)
    clock_s = np.concatenate(([min(0.0, corners[0])], corners, [corners[-1] + 1.0]))
    rate = np.ones(len(clock_s) - 1)
    rate[1::2] = 1.0 / slowdown
    return clock_s, np.concatenate(([clock_s[0]], clock_s[0] + np.cumsum(np.diff(clock_s) * rate)))


def piecewise(x: Floats, corners_x: Floats, corners_y: Floats) -> Floats:
    """The line through the corners at x; beyond the last corner, at a slope of 1."""
    beyond = np.maximum(x - corners_x[-1], 0.0)
    return np.asarray(np.interp(x, corners_x, corners_y) + beyond)


def fifo_finish(arrival_s: Floats, work_s: Floats, slots: int) -> Floats:
    """[n] when each request finishes: it takes the slot that is free first, in order of arrival.

    One slot is Lindley's recursion in closed form; more take a heap of the slots' free times
    (Kiefer and Wolfowitz, 1955).
    """
    if slots == 1:
        done = np.cumsum(work_s)
        return np.asarray(done + np.maximum.accumulate(arrival_s - (done - work_s)))
    free = [0.0] * slots
    finish = np.empty(len(arrival_s))
    for i, (arrived, work) in enumerate(zip(arrival_s.tolist(), work_s.tolist(), strict=True)):
        finish[i] = max(arrived, free[0]) + work
        heapq.heapreplace(free, finish[i])
    return finish
