"""The overlap cost: requests that a merge window harms, counted or expected. The only such rule."""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def overlap_cost(spans_us: Iterable[tuple[int, int]], start_us: int, end_us: int) -> int:
    """Requests that arrive in the window [start_us, end_us), or are in service during it.

    Args:
        spans_us: (arrival, finish) of each request, microseconds.
        start_us: when the window opens.
        end_us: when it has closed.
    """
    return sum(arrival < end_us and finish > start_us for arrival, finish in spans_us)


def expected_overlap(in_flight: float, rate_per_s: float, window_s: float) -> float:
    """Expected overlap cost of a window that starts now: those in service and those to arrive.

    In requests; DESIGN section 6: in flight + W * rate.
    """
    return in_flight + rate_per_s * window_s


def overlap_sd(expected: Floats, expectation_sd: Floats) -> Floats:
    """Standard deviation of an overlap cost: Poisson counts about an uncertain expectation.

    Args:
        expected: requests still to come that the cost counts; those in flight now are known.
        expectation_sd: how far that figure may be off, in requests.
    """
    sd: Floats = np.sqrt(expected + expectation_sd**2)
    return sd
