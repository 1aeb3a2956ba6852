"""The distribution of forecast costs over the recent past: what counts as cheap here."""

from bisect import bisect_left, insort
from collections import deque
from itertools import chain

import numpy as np

from controller.chain import CostChain, fit_chain
from controller.overlap import expected_overlap
from slackwater.clock import US_PER_S

MIN_SAMPLES = 16
# How often the chain of costs is fitted anew, at whole multiples of it in event time.
REFIT_US = 15 * US_PER_S


class CostHistory:
    """Costs of the last `history_s` seconds, for ranks and scales.

    `rank` and `mean` are None until 16 costs are known: a handful says nothing about the usual.
    """

    def __init__(self, history_s: float) -> None:
        self._history_us = round(history_s * US_PER_S)
        self._timed: deque[tuple[int, float]] = deque()
        self._sorted: list[float] = []
        self._total = 0.0
        self._fitted_us = 0
        self._chains: dict[int, CostChain | None] = {}

    def add(self, at_us: int, cost: float) -> None:
        """Add the cost forecast at `at_us` and forget those older than the memory."""
        self._timed.append((at_us, cost))
        insort(self._sorted, cost)
        self._total += cost
        while self._timed[0][0] <= at_us - self._history_us:
            _, old = self._timed.popleft()
            del self._sorted[bisect_left(self._sorted, old)]
            self._total -= old

    def rank(self, cost: float) -> float | None:
        """Share of remembered costs strictly below `cost`, in [0, 1]."""
        if len(self._sorted) < MIN_SAMPLES:
            return None
        return bisect_left(self._sorted, cost) / len(self._sorted)

    def quantile(self, share: float) -> float | None:
        """The largest cost whose rank is at most `share`, in [0, 1], among those remembered."""
        if len(self._sorted) < MIN_SAMPLES:
            return None
        return self._sorted[min(int(share * len(self._sorted)), len(self._sorted) - 1)]

    def chain(self, now_us: int, lag_s: float) -> CostChain | None:
        """How costs `lag_s` seconds apart follow one another; None where too few are known.

        Fitted to what was known at the last multiple of 15 s: who asks, and how often, changes
        nothing.
        """
        fitted_us = now_us - now_us % REFIT_US
        if fitted_us != self._fitted_us:
            self._fitted_us, self._chains = fitted_us, {}
        lag_us = round(lag_s * US_PER_S)
        if lag_us not in self._chains:
            self._chains[lag_us] = self._fit(fitted_us, lag_us)
        return self._chains[lag_us]

    def _fit(self, until_us: int, lag_us: int) -> CostChain | None:
        flat = np.fromiter(chain.from_iterable(self._timed), np.float64, 2 * len(self._timed))
        at_us, costs = flat[::2].astype(np.int64), flat[1::2]
        # What is forgotten before the next fitting is left out from the start.
        first_us = until_us - self._history_us + REFIT_US
        kept = slice(*np.searchsorted(at_us, [first_us, until_us]))
        if kept.stop - kept.start < MIN_SAMPLES:
            return None
        return fit_chain(at_us[kept], costs[kept], lag_us)

    @property
    def mean(self) -> float | None:
        """Mean remembered cost."""
        if len(self._sorted) < MIN_SAMPLES:
            return None
        return max(0.0, self._total / len(self._sorted))


class OverlapHistory:
    """Expected overlap costs of the past, all for windows of one length.

    Costs of windows of different lengths cannot be ranked together, so the loads are remembered
    and the costs made anew when the window's length changes.
    """

    def __init__(self, history_s: float, window_s: float) -> None:
        self._history_s = history_s
        self._history_us = round(history_s * US_PER_S)
        self._window_s = window_s
        self._loads: deque[tuple[int, float, float]] = deque()
        self.costs = CostHistory(history_s)

    def add(self, at_us: int, in_flight: float, rate_per_s: float) -> None:
        """Add the load at `at_us` and forget what is older than the memory."""
        self._loads.append((at_us, in_flight, rate_per_s))
        while self._loads[0][0] <= at_us - self._history_us:
            self._loads.popleft()
        self.costs.add(at_us, expected_overlap(in_flight, rate_per_s, self._window_s))

    def resize(self, window_s: float) -> None:
        """Make the costs anew for windows of `window_s` seconds."""
        self._window_s = window_s
        self.costs = CostHistory(self._history_s)
        for at_us, in_flight, rate_per_s in self._loads:
            self.costs.add(at_us, expected_overlap(in_flight, rate_per_s, window_s))
