"""Policies that look at pressure now: a gate on the largest one, a gap that stretches with load."""

from typing import ClassVar

from controller.history import CostHistory
from controller.policies.base import Choice
from controller.view import Timing, View

USUAL_MULTIPLE = 2.0
MIN_SCALE_REQUESTS = 1.0


def relative_cost(cost: float | None, history: CostHistory) -> float | None:
    """A cost in requests on a scale of its own past, capped to [0, 1]; None where unknown.

    Twice the usual cost counts fully. The scale is learned from the past alone, so the same rule
    fits a sidecar of 2 requests a second and one of 2,000.
    """
    usual = history.mean
    if cost is None or usual is None:
        return None
    return min(1.0, cost / max(MIN_SCALE_REQUESTS, USUAL_MULTIPLE * usual))


def mean_known(values: list[float | None]) -> float | None:
    """Mean over the learners for which it is known; None if for none."""
    known = [v for v in values if v is not None]
    return sum(known) / len(known) if known else None


def _highest(values: list[float | None]) -> float | None:
    return max((v for v in values if v is not None), default=None)


class PressureGate:
    """`pressure_gate`: merge when the largest pressure of any kind, at any learner, is low."""

    name: ClassVar[str] = "pressure_gate"
    needs_load: ClassVar[bool] = True

    def choose(self, view: View, timing: Timing) -> Choice:  # noqa: ARG002
        """Compare the largest known pressure with the threshold."""
        serving = relative_cost(view.load.in_flight, view.flights)
        if serving is None:
            return Choice(merge=False, reason="load_not_learned")
        pressures = {
            "network": _highest([s.network_pressure for s in view.learners.values()]),
            "checkpoint": _highest([s.checkpoint_pressure for s in view.learners.values()]),
            "serving": serving,
        }
        terms = {name: p for name, p in pressures.items() if p is not None}
        threshold = view.settings.pressure_threshold
        merge = max(terms.values()) <= threshold
        reason = "pressure_low" if merge else "pressure_high"
        return Choice(merge, reason, None, max(terms.values()), threshold, terms)


class AdaptiveLoad:
    """`adaptive_load`: the wanted gap stretches from H_min to H_max with the load's rank."""

    name: ClassVar[str] = "adaptive_load"
    needs_load: ClassVar[bool] = True

    def choose(self, view: View, timing: Timing) -> Choice:
        """Merge when the gap has reached what the present load asks for."""
        rank = None if view.cost is None else view.costs.rank(view.cost)
        if rank is None:
            return Choice(merge=False, reason="load_not_learned")
        low, high = view.settings.min_gap_steps, view.settings.max_gap_steps
        wanted = low + rank * (high - low)
        merge = timing.gap_steps >= wanted
        reason = "gap_fits_load" if merge else "load_asks_longer_gap"
        return Choice(merge, reason, None, float(timing.gap_steps), wanted, {"load_rank": rank})
