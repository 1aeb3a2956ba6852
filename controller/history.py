"""The distribution of forecast costs over the recent past: what counts as cheap here."""

from bisect import bisect_left, insort
from collections import deque

MIN_SAMPLES = 16


class CostHistory:
    """Costs of the last `history_s` seconds, for ranks and scales.

    `rank` and `mean` are None until 16 costs are known: a handful says nothing about the usual.
    """

    def __init__(self, history_s: float) -> None:
        self._history_us = round(history_s * 1e6)
        self._timed: deque[tuple[int, float]] = deque()
        self._sorted: list[float] = []
        self._total = 0.0

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

    @property
    def mean(self) -> float | None:
        """Mean remembered cost."""
        if len(self._sorted) < MIN_SAMPLES:
            return None
        return max(0.0, self._total / len(self._sorted))
