"""What every policy sees at one tick: the group's state as plain figures, computed once."""

from dataclasses import dataclass, field

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

    Attributes:
        step: largest step reported.
        last_merge_step: start of the latest merge.
        first_reachable_step: the first step that a command sent now reaches every learner before.
        step_time_s: seconds an inner step takes (the slowest learner's), event time.
        steps_per_tick: inner steps until the next decision.
    """

    step: int
    last_merge_step: int
    first_reachable_step: int
    step_time_s: float
    steps_per_tick: int

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


def timing_of(
    learners: dict[str, LearnerState], now_us: int, lead_s: float, tick_s: float
) -> Timing | None:
    """Extrapolate each learner from its last report, and add the lead of a command."""
    known = [
        (s, s.step_time.mean)
        for s in learners.values()
        if s.step_time.mean and s.step_time.mean > 0
    ]
    if not known or len(known) < len(learners):
        return None
    slowest = max(step_time for _, step_time in known)
    reachable = max(
        s.step + steps_in((now_us - s.at_us) / US_PER_S + lead_s, step_time) + 1
        for s, step_time in known
    )
    return Timing(
        step=max(s.step for s, _ in known),
        last_merge_step=max(s.last_merge_step for s, _ in known),
        first_reachable_step=reachable,
        step_time_s=slowest,
        steps_per_tick=steps_in(tick_s, min(step_time for _, step_time in known)),
    )


def cost_of(load: Load, window_s: float) -> float | None:
    """Expected overlap cost of a window now; None while any sidecar's load is unknown."""
    if load.stale or load.rate_per_s is None or load.in_flight is None:
        return None
    return expected_overlap(load.in_flight, load.rate_per_s, window_s)
