"""Optimal stopping: `slack` by the rank of the cost now, `slack_markov` by how costs move."""

from typing import ClassVar

import numpy as np

from controller.horizon import horizon_of, seasonal_costs
from controller.policies.base import Choice
from controller.steps import whole_ticks_s
from controller.view import Timing, View


def left_s(view: View, timing: Timing) -> float:
    """Seconds from the first reachable window to the one at H_max."""
    return max(0, view.settings.max_gap_steps - timing.gap_steps) * timing.step_time_s


def worth_rank(view: View, wait_s: float) -> float:
    """The rank that is worth stopping at with `wait_s` seconds left: the least of as many looks."""
    return 1.0 / (1.0 + wait_s / view.settings.stopping_tau_s)


def by_rank(view: View, wait_s: float, reasons: tuple[str, str]) -> Choice:
    """Stop if the cost's rank in the past is worth it with `wait_s` seconds left to look."""
    rank = None if view.cost is None else view.costs.rank(view.cost)
    if rank is None:
        return Choice(merge=False, reason="load_not_learned")
    threshold = worth_rank(view, wait_s)
    merge = rank <= threshold
    return Choice(merge, reasons[not merge], None, rank, threshold, {"left_s": wait_s})


class Slack:
    """Merge when now is as cheap as waiting can be expected to find before H_max.

    With costs in random order, the cheapest of n further looks has expected rank 1 / (n + 1):
    stop when the rank of the cost now is at or below that, n = (H_max - gap) / tau being the
    independent looks that are left. Near H_max anything will do; right after H_min only a rare
    calm will.
    """

    name: ClassVar[str] = "slack"
    needs_load: ClassVar[bool] = True

    def choose(self, view: View, timing: Timing) -> Choice:
        """Compare the cost's rank in the recent past with the rank worth stopping at."""
        return by_rank(view, left_s(view, timing), ("calm_enough", "calmer_expected"))


class SlackMarkov:
    """`slack_markov`: merge when the cost now is no more than waiting is expected to find.

    The past tells how costs `stopping_tau_s` apart follow one another, in whole ticks, for costs
    are known at ticks alone; backward induction from H_max tells what the looks that are left are
    worth from the state now.
    """

    name: ClassVar[str] = "slack_markov"
    needs_load: ClassVar[bool] = True

    def choose(self, view: View, timing: Timing) -> Choice:
        """Compare the cost now with the value of waiting, both in requests."""
        lag_s = whole_ticks_s(view.settings.stopping_tau_s, view.settings.tick_s)
        chain = view.costs.chain(view.tick_us, lag_s)
        if chain is None or view.cost is None:
            return Choice(merge=False, reason="load_not_learned")
        wait_s = left_s(view, timing)
        waiting = chain.waiting(view.cost, wait_s / lag_s)
        merge = view.cost <= waiting
        reason = "calm_enough" if merge else "calmer_expected"
        return Choice(merge, reason, None, view.cost, waiting, {"left_s": wait_s})


class SlackSeasonal:
    """`slack_seasonal`: as `slack`, until a seasonal forecast has shown that it foretells better.

    While it does, candidate windows differ. One that is dearer than the least of those to come, by
    more than the profile's error, is left out; of the others, equally cheap by the season, the
    rank rule takes one: what is left to look is the time to the last of them, not to H_max.
    """

    name: ClassVar[str] = "slack_seasonal"
    needs_load: ClassVar[bool] = True

    def choose(self, view: View, timing: Timing) -> Choice:
        """Compare the first window with those to come, then its rank with what is worth it."""
        horizon = horizon_of(view, timing)
        expected = None if view.season is None else seasonal_costs(view, view.season, horizon)
        if expected is None:
            return by_rank(view, left_s(view, timing), ("calm_enough", "calmer_expected"))
        best = int(np.argmin(expected.overlap))
        error = np.hypot(expected.error_sd, expected.error_sd[best])
        cheap = np.flatnonzero(expected.overlap <= expected.overlap[best] + error)
        if cheap[0] > 0:
            now, bar = float(expected.overlap[0]), float(expected.overlap[best] + error[0])
            wait_s = float(cheap[0] * horizon.step_s)
            return Choice(False, "season_calmer_ahead", None, now, bar, {"ahead_s": wait_s})
        wait_s = float(cheap[-1] * horizon.step_s)
        return by_rank(view, wait_s, ("season_calm_enough", "season_calmer_expected"))
