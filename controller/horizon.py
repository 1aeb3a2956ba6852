"""The windows that can still be waited for, and what each is expected to cost by the season."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from controller.overlap import overlap_sd
from controller.season import Season
from controller.steps import steps_in
from controller.view import Timing, View
from slackwater.clock import US_PER_S

Floats = npt.NDArray[np.float64]
# A corridor of many ticks is looked at in strides: the record of a decision stays small.
MAX_CANDIDATES = 128


@dataclass(frozen=True, slots=True)
class Horizon:
    """Starts of candidate windows: `number` of them, every `step_s`, the first `ahead_s` away."""

    ahead_s: float
    step_s: float
    number: int

    @property
    def starts_s(self) -> Floats:
        """[number] seconds from the tick to each start."""
        return self.ahead_s + self.step_s * np.arange(self.number, dtype=np.float64)


def horizon_of(view: View, timing: Timing) -> Horizon:
    """Every tick, or every few, from the first reachable step to H_max."""
    last = view.corridor.last(timing.last_merge_step)
    left_s = max(0, last - timing.first_reachable_step) * timing.step_time_s
    ticks = 1 + steps_in(left_s, view.settings.tick_s)
    stride = -(-ticks // MAX_CANDIDATES)
    ahead_s = (timing.first_reachable_step - timing.step) * timing.step_time_s
    return Horizon(ahead_s, stride * view.settings.tick_s, -(-ticks // stride))


@dataclass(frozen=True, slots=True, eq=False)
class Expected:
    """Expected overlap of each candidate, [number] requests, and how far off each may be.

    `error_sd` is the standard deviation of the expectation itself, for the profile's phases rest
    on the counts of a few periods; `overlap_sd` adds that of the counts to come (Poisson).
    """

    overlap: Floats
    error_sd: Floats
    overlap_sd: Floats


def seasonal_costs(view: View, season: Season, horizon: Horizon) -> Expected | None:
    """What the season expects of each window: those in service as it opens, and those to arrive.

    Requests in flight now have left after about a mean residence (Little's law, from the past);
    from then on as many are in flight as arrive in that time. None while the load is unknown.
    """
    flights = view.flights.mean
    if view.cost is None or view.load.in_flight is None or flights is None:
        return None
    ahead_s = horizon.starts_s
    at_s = view.tick_us / US_PER_S + ahead_s
    arrivals = season.arrivals(at_s, view.window_s)
    residence_s = max(view.settings.tick_s, flights / max(season.rate_per_s, 1e-9))
    still_there = np.exp(-ahead_s / residence_s)
    followers = (1.0 - still_there) * season.arrivals(at_s - residence_s, residence_s)
    coming, error_sd = followers + arrivals, np.sqrt(arrivals / season.periods)
    return Expected(
        overlap=still_there * view.load.in_flight + coming,
        error_sd=error_sd,
        overlap_sd=overlap_sd(coming, error_sd),
    )


def steady_costs(view: View, horizon: Horizon) -> Expected | None:
    """What the one-step EWMA expects: of every window the same, the less surely the later it is."""
    rate, spread, error = view.load.rate_per_s, view.load.rate_sd, view.load.rate_error_sd
    if view.cost is None or rate is None or spread is None or error is None:
        return None
    forgotten = np.sqrt(1.0 - 4.0 ** (-horizon.starts_s / view.settings.half_life_s))
    error_sd = np.hypot(error, spread * forgotten) * view.window_s
    return Expected(
        overlap=np.full(horizon.number, view.cost),
        error_sd=error_sd,
        overlap_sd=overlap_sd(np.full(horizon.number, rate * view.window_s), error_sd),
    )
