"""Whether the seasonal forecast may take over: only where it has beaten the EWMA of late.

Both foretell the arrivals of a window at every slot of a second, and so does the mean of the same
past. Once the window has passed, what arrived says which was nearest. The mean is asked too since
on steady traffic it alone beats an EWMA of a few seconds: that is no skill of a season.
"""

from collections import deque

import numpy as np

from controller.season import Season, find_season
from slackwater.clock import US_PER_S

SLOT_S = 1.0
REFIT_SLOTS = 10
# The seasonal forecast's squared errors must be below this share of each of the others', summed
# over the last 600 s, and not above them over the last 120 s: it is dropped soon when it fails.
TEST_SLOTS, TEST_SHARE = 600, 0.75
RECENT_SLOTS = 120
# Of the 600 s so many at least must have been forecast by all.
LEAST_TESTED = 300

# Expected arrivals of one window by the season, the EWMA and the mean.
Forecasts = tuple[float, float, float]
UNKNOWN: Forecasts = (np.nan, np.nan, np.nan)


class SeasonalSkill:
    """Counts of arrivals slot by slot, the season found in them, and how well it has foretold.

    Args:
        tick_s: of the ticks that it is told of; a slot is a whole number of them, a second or more.
        history_s: how much of the past the season is looked for in.
    """

    def __init__(self, tick_s: float, history_s: float) -> None:
        tick_us = round(tick_s * US_PER_S)
        self._slot_us = tick_us * max(1, round(SLOT_S * US_PER_S / tick_us))
        self._slot_s = self._slot_us / US_PER_S
        self._counts: deque[float] = deque(maxlen=max(2, round(history_s / self._slot_s)))
        self._season: Season | None = None
        self._begun: tuple[int, int] | None = None
        self._whole = False
        self._window_slots = 0
        self._waiting: deque[Forecasts] = deque()
        self._errors = np.full((TEST_SLOTS, 3), np.nan)
        self.season: Season | None = None

    def observe(self, now_us: int, arrived: int, rate_per_s: float | None, window_s: float) -> None:
        """Take a tick: all arrivals seen so far, and the EWMA of their rate, None where unknown."""
        self._whole = self._whole and rate_per_s is not None
        if now_us % self._slot_us:
            return
        if self._begun is not None:
            self._close(now_us, arrived, self._begun)
            self._compare(max(1, round(window_s / self._slot_s)))
            if now_us // self._slot_us % REFIT_SLOTS == 0:
                ends_s = now_us / US_PER_S
                self._season = find_season(np.array(self._counts), self._slot_s, ends_s)
            self._foretell(now_us, rate_per_s)
            self.season = self._season if self._has_skill() else None
        self._begun, self._whole = (now_us, arrived), rate_per_s is not None

    def _close(self, now_us: int, arrived: int, begun: tuple[int, int]) -> None:
        """Add the slot that ends now; what lies in a gap of the ticks is unknown."""
        slots = (now_us - begun[0]) // self._slot_us
        if slots > 1:
            # Forecasts made before the gap are never settled.
            self._waiting.clear()
            self._counts.extend([np.nan] * min(slots, self._counts.maxlen or slots))
        else:
            self._counts.append(float(arrived - begun[1]) if self._whole else np.nan)

    def _compare(self, window_slots: int) -> None:
        """Settle the forecasts whose window has just passed; those of another length never are."""
        if window_slots != self._window_slots:
            self._window_slots = window_slots
            self._waiting.clear()
        if len(self._waiting) < window_slots:
            return
        # Of a window longer than the memory nobody can say what came in it.
        known = window_slots <= len(self._counts)
        came = sum(self._counts[-1 - i] for i in range(window_slots)) if known else np.nan
        self._errors[:-1] = self._errors[1:]
        self._errors[-1] = (np.array(self._waiting.popleft()) - came) ** 2

    def _foretell(self, now_us: int, rate_per_s: float | None) -> None:
        """Note what each expects of the window that opens now; NaN where one of them does not."""
        forecasts = UNKNOWN
        if self._season is not None and rate_per_s is not None:
            length_s = self._window_slots * self._slot_s
            seasonal = self._season.arrivals(np.array([now_us / US_PER_S]), length_s)
            mean = self._season.rate_per_s * length_s
            forecasts = (float(seasonal[0]), rate_per_s * length_s, mean)
        self._waiting.append(forecasts)

    def _has_skill(self) -> bool:
        known = ~np.isnan(self._errors[:, 0])
        if self._season is None or known.sum() < LEAST_TESTED:
            return False
        errors = np.where(known[:, None], self._errors, 0.0)
        seasonal, *others = errors.sum(axis=0)
        lately, *others_lately = errors[-RECENT_SLOTS:].sum(axis=0)
        return bool(seasonal < TEST_SHARE * min(others) and lately <= min(others_lately))
