"""The audited form of a decision: everything it saw, so that anyone can see why it waited."""

from controller.decider import Outcome
from controller.horizon import horizon_of, seasonal_costs, steady_costs
from controller.policies import SEASONAL
from controller.season import Season
from controller.view import Timing, View
from slackwater.clock import US_PER_S
from slackwater.events import Candidates, Decision


def candidates_of(view: View, timing: Timing, season: Season | None = None) -> Candidates | None:
    """Every window from the first reachable one to H_max, as the policy's forecast has it.

    The EWMA foresees no change, so the expected overlap is the same for all; what grows with
    the distance is how little that says: to the error of the estimate comes the rate's own
    spread, which is back within a few half-lives. The season expects of each window its own.
    """
    horizon = horizon_of(view, timing)
    expected = None if season is None else seasonal_costs(view, season, horizon)
    if expected is None:
        expected = steady_costs(view, horizon)
    if expected is None:
        return None
    return Candidates(
        first_us=view.tick_us + round(horizon.ahead_s * US_PER_S),
        step_s=horizon.step_s,
        overlap=[round(cost, 4) for cost in expected.overlap.tolist()],
        overlap_sd=[round(sd, 4) for sd in expected.overlap_sd.tolist()],
    )


def decision_of(
    view: View, policy: str, outcome: Outcome, run_id: str, *, active: bool
) -> Decision:
    """The event that records one tick of one policy."""
    choice, order, timing, load = outcome.choice, outcome.order, view.timing, view.load
    assigned = outcome.assigned
    season = view.season if policy in SEASONAL else None
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
        moment_us=order.moment_us if order else None,
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
        candidates=candidates_of(view, timing, season) if timing else None,
        interval_number=assigned.interval if assigned else None,
        arm=assigned.arm if assigned else None,
        policy_share=assigned.policy_share if assigned else None,
        drawn_gap_steps=assigned.drawn_gap_steps if assigned else None,
    )
