"""The audited form of a decision: everything it saw, so that anyone can see why it waited."""

import math

from controller.decider import Outcome, candidate_count
from controller.overlap import overlap_sd
from controller.view import Timing, View
from slackwater.clock import US_PER_S
from slackwater.events import Candidates, Decision

# A corridor of many ticks is shown in strides: the record of a decision stays small.
MAX_CANDIDATES = 128


def candidates_of(view: View, timing: Timing) -> Candidates | None:
    """Every window from the first reachable one to H_max under the one-step forecast.

    The EWMA foresees no change, so the expected overlap is the same for all; what grows with
    the distance is how little that says: to the error of the estimate comes the rate's own
    spread, which is back within a few half-lives.
    """
    rate, spread, error = view.load.rate_per_s, view.load.rate_sd, view.load.rate_error_sd
    if view.cost is None or rate is None or spread is None or error is None:
        return None
    tick_s = view.settings.tick_s
    ahead_s = (timing.first_reachable_step - timing.step) * timing.step_time_s
    ticks = candidate_count(view, timing)
    stride = -(-ticks // MAX_CANDIDATES)
    number = -(-ticks // stride)
    forgotten = [
        math.sqrt(1.0 - 4.0 ** (-(ahead_s + i * stride * tick_s) / view.settings.half_life_s))
        for i in range(number)
    ]
    return Candidates(
        first_us=view.tick_us + round(ahead_s * US_PER_S),
        step_s=stride * tick_s,
        overlap=[round(view.cost, 4)] * number,
        overlap_sd=[
            round(overlap_sd(rate, math.hypot(error, spread * f), view.window_s), 4)
            for f in forgotten
        ],
    )


def decision_of(
    view: View, policy: str, outcome: Outcome, run_id: str, *, active: bool
) -> Decision:
    """The event that records one tick of one policy."""
    choice, order, timing, load = outcome.choice, outcome.order, view.timing, view.load
    return Decision(
        run_id=run_id,
        at_us=view.tick_us,
        group=view.settings.group,
        policy=policy,
        active=active,
        action="merge" if order else "wait",
        reason=choice.reason,
        merge_id=order.merge_id if order else None,
        at_step=order.at_step if order else None,
        step=timing.step if timing else None,
        first_reachable_step=timing.first_reachable_step if timing else None,
        gap_steps=timing.reported_gap_steps if timing else None,
        gap_s=timing.reported_gap_steps * timing.step_time_s if timing else None,
        step_time_s=timing.step_time_s if timing else None,
        window_s=view.window_s,
        learners=len(view.learners),
        rate_per_s=load.rate_per_s,
        rate_sd=load.rate_sd,
        in_flight=load.in_flight,
        signal_age_s=max(0.0, load.age_s) if load.age_s is not None else None,
        stale=list(load.stale),
        score=choice.score,
        threshold=choice.threshold,
        terms=choice.terms,
        candidates=candidates_of(view, timing) if timing else None,
    )
