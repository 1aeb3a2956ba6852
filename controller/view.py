"""What every policy sees at one tick: the group's state as plain figures, computed once."""

from dataclasses import dataclass, field, replace

from controller.harm import HarmLedger
from controller.history import CostHistory
from controller.learners import LearnerState
from controller.overlap import expected_overlap
from controller.season import Season
from controller.settings import ControllerSettings
from controller.signals import Load
from controller.steps import steps_in
from slackwater.clock import US_PER_S
from slackwater.corridor import Corridor


@dataclass(frozen=True, slots=True)
class Timing:
    """Where the learners stand, in steps.

    Where they are to merge at one step, all count the same ones. Where they are to merge at one
    moment (`leader_us` is known), the steps are those of the leader: the learner that comes to its
    H_max first, so that whatever the leader can still wait for, all can.

    Attributes:
        step: largest step reported; the leader's.
        last_merge_step: start of the latest merge.
        first_reachable_step: the first step that a command sent now reaches every learner before.
        step_time_s: seconds an inner step takes (the slowest learner's; the leader's), event time.
        steps_per_tick: inner steps until the next decision.
        least_gap_steps: the smallest of the learners' gaps if they merged at that step or moment,
            each in its own steps.
        slowest_step_s: seconds an inner step of the slowest learner takes, event time.
        leader_us: when the leader took `step`, or stood still in a merge last; None where one step
            is for all.
    """

    step: int
    last_merge_step: int
    first_reachable_step: int
    step_time_s: float
    steps_per_tick: int
    least_gap_steps: int
    slowest_step_s: float
    leader_us: int | None = None

    def moment_us(self, step: int) -> int | None:
        """Event time at which the leader is in the middle of `step`, its first one to end after.

        None where one step is for all.
        """
        if self.leader_us is None:
            return None
        ahead_s = (step - 0.5 - self.step) * self.step_time_s
        return self.leader_us + round(ahead_s * US_PER_S)

    @property
    def reported_gap_steps(self) -> int:
        """Inner steps since the last merge, by the learners' reports."""
        return max(0, self.step - self.last_merge_step)

    @property
    def gap_steps(self) -> int:
        """Gap that the first reachable merge would have, in steps."""
        return self.first_reachable_step - self.last_merge_step

    @property
    def gap_s(self) -> float:
        """The same gap in seconds."""
        return self.gap_steps * self.step_time_s


@dataclass(frozen=True, slots=True)
class View:
    """One tick of one merge group.

    `enough` is True when the learners may merge: all that are expected have been there once, and a
    quorum is there now. `lead_s` is the event time that a command is given to reach the learners.
    `timing` is None until every learner has reported a step time; `merging` is True while a learner
    is in a merge, commanded or not. `cost` is the expected overlap cost of a window at the first
    reachable step, in requests, None where the load is unknown; `costs` and `flights` are the past
    distributions of that cost and of the requests in flight; `harm` is who bore the merges so far;
    `season` is the seasonal forecast of arrivals, None unless it has skill.
    """

    tick_us: int
    tick_index: int
    settings: ControllerSettings
    learners: dict[str, LearnerState]
    enough: bool
    lead_s: float
    timing: Timing | None
    merging: bool
    load: Load
    window_s: float
    cost: float | None
    costs: CostHistory = field(repr=False)
    flights: CostHistory = field(repr=False)
    harm: HarmLedger = field(repr=False)
    season: Season | None = field(default=None, repr=False)

    @property
    def epoch(self) -> int | None:
        """Merges that the learners' shared weights have been through; None where they differ.

        One that has missed a merge takes the others' weights by itself, and then they agree.
        """
        told = {state.epoch for state in self.learners.values()}
        return told.pop() if len(told) == 1 else None

    @property
    def corridor(self) -> Corridor:
        """The allowed gaps."""
        return Corridor(self.settings.min_gap_steps, self.settings.max_gap_steps)


Known = list[tuple[LearnerState, float]]


def timing_of(
    learners: dict[str, LearnerState], now_us: int, lead_s: float, settings: ControllerSettings
) -> Timing | None:
    """Extrapolate each learner from its last report, and add the lead of a command.

    A merge that a learner stood still in brought it no step.

    None until each has a step time.
    """
    known = [
        (s, s.step_time.mean)
        for s in learners.values()
        if s.step_time.mean and s.step_time.mean > 0
    ]
    if not known or len(known) < len(learners):
        return None
    if _apart(known, now_us, settings):
        return _timing_of_leader(known, now_us, lead_s, settings)
    slowest = max(step_time for _, step_time in known)
    reachable = max(_reach(s, step_time, now_us, lead_s) for s, step_time in known)
    last = max(s.last_merge_step for s, _ in known)
    return Timing(
        step=max(s.step for s, _ in known),
        last_merge_step=last,
        first_reachable_step=reachable,
        step_time_s=slowest,
        steps_per_tick=steps_in(settings.tick_s, min(step_time for _, step_time in known)),
        least_gap_steps=reachable - last,
        slowest_step_s=slowest,
    )


def _apart(known: Known, now_us: int, settings: ControllerSettings) -> bool:
    """True where one step cannot be for all.

    Learners of other speeds would wait for the slowest at it, the longer the larger the gap; those
    that began later are as far behind as slower ones would be. And once they have merged at steps
    of their own, or one has joined late, their counts differ.
    """
    spread = settings.step_time_spread
    times = [step_time for _, step_time in known]
    lasts = {s.last_merge_step for s, _ in known}
    if max(times) > (1 + spread) * min(times) or len(lasts) > 1:
        return True
    stand = [_step_at(s, step_time, now_us) for s, step_time in known]
    gap_steps = max(max(stand) - min(lasts), settings.min_gap_steps)
    # One step more, for reports come at whole steps alone.
    return max(stand) - min(stand) > spread * gap_steps + 1


def _timing_of_leader(
    known: Known, now_us: int, lead_s: float, settings: ControllerSettings
) -> Timing:
    def left_s(one: tuple[LearnerState, float]) -> float:
        """Seconds until it comes to its H_max."""
        state, step_time = one
        forced = state.last_merge_step + settings.max_gap_steps
        return (forced - state.step) * step_time - (now_us - state.since_us) / US_PER_S

    leader, step_time = min(known, key=left_s)
    reachable = _reach(leader, step_time, now_us, lead_s)
    made = Timing(
        step=leader.step,
        last_merge_step=leader.last_merge_step,
        first_reachable_step=reachable,
        step_time_s=step_time,
        steps_per_tick=steps_in(settings.tick_s, step_time),
        least_gap_steps=reachable - leader.last_merge_step,
        slowest_step_s=max(its_time for _, its_time in known),
        leader_us=leader.since_us,
    )
    moment_us = made.moment_us(reachable) or now_us
    gaps = [_step_at(s, its_time, moment_us) - s.last_merge_step for s, its_time in known]
    return replace(made, least_gap_steps=min(gaps))


def _step_at(state: LearnerState, step_time_s: float, us: int) -> int:
    """The learner's first step that ends at or after an event time."""
    return state.step + steps_in((us - state.since_us) / US_PER_S, step_time_s)


def _reach(state: LearnerState, step_time_s: float, now_us: int, ahead_s: float) -> int:
    """The first step of this learner that surely begins later than `ahead_s` seconds from now."""
    return state.step + steps_in((now_us - state.since_us) / US_PER_S + ahead_s, step_time_s) + 1


def cost_of(load: Load, window_s: float) -> float | None:
    """Expected overlap cost of a window now; None while any sidecar's load is unknown."""
    if load.stale or load.rate_per_s is None or load.in_flight is None:
        return None
    return expected_overlap(load.in_flight, load.rate_per_s, window_s)
