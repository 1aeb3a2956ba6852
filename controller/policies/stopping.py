"""`slack`: optimal stopping, in its rank form."""

from typing import ClassVar

from controller.policies.base import Choice
from controller.view import Timing, View


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
        rank = None if view.cost is None else view.costs.rank(view.cost)
        if rank is None:
            return Choice(merge=False, reason="load_not_learned")
        left_steps = max(0, view.settings.max_gap_steps - timing.gap_steps)
        left_s = left_steps * timing.step_time_s
        threshold = 1.0 / (1.0 + left_s / view.settings.stopping_tau_s)
        merge = rank <= threshold
        reason = "calm_enough" if merge else "calmer_expected"
        return Choice(merge, reason, None, rank, threshold, {"left_s": left_s})
