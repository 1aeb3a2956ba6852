"""What every serving model takes and gives: requests and merge windows in, latencies and harm out.

Times are seconds from the start of the run. A window is [start, start + window_s): an arrival at
its start is inside, one at its end is not.
"""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from slackwater.errors import InputError

Floats = NDArray[np.float64]
Labels = NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class Requests:
    """The requests of one run, in order of arrival; build it with `requests_of`.

    Attributes:
        arrival_s: [n] seconds from the run's start, not decreasing, duplicates allowed.
        duration_s: length of the run.
        e2e_s: [n] seconds from arrival to finish without merges; NaN where unknown.
        service_s: [n] seconds of work on one idle slot; None when unknown.
        tokens: [n] prompt and output tokens; None when unknown.
        sidecar: [n] which server; None when there is one only.
        tenant: [n] who asked; None when unknown.
    """

    arrival_s: Floats
    duration_s: float
    e2e_s: Floats | None = None
    service_s: Floats | None = None
    tokens: NDArray[np.int64] | None = None
    sidecar: Labels | None = None
    tenant: Labels | None = None

    def __len__(self) -> int:
        return len(self.arrival_s)

    def by_sidecar(self) -> list[NDArray[np.int64]]:
        """Indices of the requests of each sidecar, in order of arrival; sidecars sorted by name."""
        if self.sidecar is None or not len(self):
            return [np.arange(len(self), dtype=np.int64)]
        _, code = np.unique(self.sidecar, return_inverse=True)
        return [np.flatnonzero(code == k) for k in range(int(code.max()) + 1)]


def requests_of(
    arrival_s: ArrayLike,
    duration_s: float,
    *,
    e2e_s: ArrayLike | None = None,
    service_s: ArrayLike | None = None,
    tokens: ArrayLike | None = None,
    sidecar: ArrayLike | None = None,
    tenant: ArrayLike | None = None,
) -> Requests:
    """Check and pack the requests of one run; the fields are those of `Requests`.

    Raises `InputError` for lengths that differ, times out of order or outside the run, and
    durations below zero.
    """
    arrivals = np.asarray(arrival_s, dtype=np.float64)
    _check_arrivals(arrivals, duration_s)
    return Requests(
        arrivals,
        float(duration_s),
        e2e_s=_seconds("e2e_s", e2e_s, len(arrivals), unknown=True),
        service_s=_seconds("service_s", service_s, len(arrivals), unknown=False),
        tokens=_column("tokens", tokens, len(arrivals), np.int64),
        sidecar=_column("sidecar", sidecar, len(arrivals), None),
        tenant=_column("tenant", tenant, len(arrivals), None),
    )


def _check_arrivals(arrival_s: Floats, duration_s: float) -> None:
    if not (np.isfinite(duration_s) and duration_s > 0):
        msg = f"a run of {duration_s} s; its length must be above 0 s"
        raise InputError(msg)
    if arrival_s.ndim != 1 or not np.isfinite(arrival_s).all():
        msg = "arrivals must be a plain list of finite seconds; drop or repair the others first"
        raise InputError(msg)
    back = np.flatnonzero(np.diff(arrival_s) < 0)
    if len(back):
        i = int(back[0]) + 1
        msg = (
            f"arrival {i} at {arrival_s[i]:.6f} s comes before the one ahead of it, at "
            f"{arrival_s[i - 1]:.6f} s; sort the requests by arrival"
        )
        raise InputError(msg)
    if len(arrival_s) and not (arrival_s[0] >= 0 and arrival_s[-1] < duration_s):
        msg = (
            f"arrivals from {arrival_s[0]:.6f} to {arrival_s[-1]:.6f} s do not lie in the run "
            f"[0, {duration_s:g}) s; cut the trace or give its length"
        )
        raise InputError(msg)


def _column(name: str, values: ArrayLike | None, n: int, dtype: Any) -> NDArray[Any] | None:
    if values is None:
        return None
    column = np.asarray(values, dtype=dtype)
    if column.shape != (n,):
        msg = f"{name} has shape {column.shape}, but there are {n} arrivals; give one for each"
        raise InputError(msg)
    return column


def _seconds(name: str, values: ArrayLike | None, n: int, *, unknown: bool) -> Floats | None:
    column = _column(name, values, n, np.float64)
    if column is not None:
        wrong = np.flatnonzero(~((column >= 0) & np.isfinite(column) | unknown & np.isnan(column)))
        if len(wrong):
            msg = f"{name} of request {wrong[0]} is {column[wrong[0]]}; it must be 0 s or more"
            raise InputError(msg)
    return column


@dataclass(frozen=True, slots=True, eq=False)
class Windows:
    """The merge windows of one run: `starts_s` [k] rising, each `window_s` long, none overlap."""

    starts_s: Floats
    window_s: float

    def __post_init__(self) -> None:
        if not (np.isfinite(self.window_s) and self.window_s > 0):
            msg = f"windows of {self.window_s} s; their length must be above 0 s"
            raise InputError(msg)
        if (np.diff(self.starts_s) < self.window_s).any():
            msg = f"merge windows must rise and lie at least {self.window_s:g} s apart"
            raise InputError(msg)


def windows_of(starts_s: ArrayLike, window_s: float) -> Windows:
    """Check and pack merge windows; raises `InputError` where they overlap or go back."""
    return Windows(np.asarray(starts_s, dtype=np.float64).reshape(-1), float(window_s))


@dataclass(frozen=True, slots=True, eq=False)
class Served:
    """What became of the requests that were sent, in order of arrival.

    Attributes:
        request: [m] index into the requests given. A closed-loop client that is held up sends
            fewer of them, so m may be below their number.
        arrival_s: [m] when each was sent.
        latency_s: [m] arrival to finish; NaN where unknown.
        harmed: [m] whether a window touched it, in the model's own sense.
    """

    request: NDArray[np.int64]
    arrival_s: Floats
    latency_s: Floats
    harmed: NDArray[np.bool_]

    def harmed_share(self) -> float | None:
        """Harmed requests over requests sent; None when none was sent."""
        return float(self.harmed.mean()) if len(self.harmed) else None

    def violation_rate(self, slo_s: float, since_s: float = 0.0) -> float | None:
        """Share of the requests of known latency that took longer than `slo_s`; None if none.

        Those that were sent before `since_s` are left out.
        """
        known = self.latency_s[~np.isnan(self.latency_s) & (self.arrival_s >= since_s)]
        return float((known > slo_s).mean()) if len(known) else None


class ServingModel(Protocol):
    """How a server's latency answers to merge windows. Deterministic; no windows, no harm."""

    @property
    def name(self) -> str:
        """The name in the registry, on the command line and in results."""

    def serve(self, requests: Requests, windows: Windows) -> Served:
        """Latency and harm of each request under these windows."""


@dataclass(frozen=True, slots=True)
class Excess:
    """Violation rates with and without merges, as shares of requests, and their difference.

    Attributes:
        rate: with the merges; None when no latency is known.
        no_merge_rate: the same requests or client without merges.
        excess: rate - no_merge_rate.
    """

    rate: float | None
    no_merge_rate: float | None
    excess: float | None


def excess_violation(
    model: ServingModel, requests: Requests, windows: Windows, slo_s: float
) -> Excess:
    """The excess SLO violation: the rate with these windows minus that of the no-merge run.

    Each rate is over the requests that its own run sent. A client held up by merges sends fewer,
    so its violations are divided by fewer.
    """
    rate = model.serve(requests, windows).violation_rate(slo_s)
    none = windows_of([], windows.window_s)
    base = model.serve(requests, none).violation_rate(slo_s)
    return Excess(rate, base, None if rate is None or base is None else rate - base)
