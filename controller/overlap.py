"""The overlap cost: requests that a merge window harms, counted or expected. The only such rule."""

import math
from collections.abc import Iterable


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


def overlap_sd(rate_per_s: float, rate_sd: float, window_s: float) -> float:
    """Standard deviation of the overlap cost: Poisson counts under an uncertain rate."""
    return math.sqrt(rate_per_s * window_s + (rate_sd * window_s) ** 2)
