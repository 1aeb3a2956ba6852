"""What is known of each learner at a moment: where it is, how fast, and how the merges went."""

from dataclasses import dataclass, field

from controller.estimators import EwMean
from slackwater.clock import US_PER_S
from slackwater.events import Finished, Heartbeat, MergeReport, Skipped, Started, Step

STEP_HALF_LIFE_S = 5.0
LOSS_HALF_LIFE_S = 2.0
TOKENS_HALF_LIFE_S = 60.0
WINDOW_HALF_LIFE_MERGES = 2.0
HELD_STEPS = 2.0


@dataclass(slots=True)
class LearnerState:
    """One learner by its reports. Losses are smoothed: a single step's is mostly noise.

    `at_us` is the end of its last step, `held_us` the end of the last merge that it stood still in.
    """

    step: int
    last_merge_step: int
    at_us: int
    seen_us: int
    merged_us: int
    held_us: int = 0
    tokens_since_merge: int = 0
    loss_at_merge: float | None = None
    network_pressure: float | None = None
    checkpoint_pressure: float | None = None
    epoch: int | None = None
    step_time: EwMean = field(default_factory=lambda: EwMean(STEP_HALF_LIFE_S))
    loss: EwMean = field(default_factory=lambda: EwMean(LOSS_HALF_LIFE_S))
    tokens_per_step: EwMean = field(default_factory=lambda: EwMean(TOKENS_HALF_LIFE_S))

    @property
    def since_us(self) -> int:
        """When the inner step that it is in began, as far as it has told."""
        return max(self.at_us, self.held_us)

    @property
    def loss_reduction(self) -> float | None:
        """Loss gained since the last merge; None before it is known."""
        if self.loss_at_merge is None or self.loss.mean is None:
            return None
        return self.loss_at_merge - self.loss.mean

    def observe(self, step: Step) -> None:
        """Take one finished inner step."""
        dt_s = max(0, step.at_us - self.at_us) / US_PER_S
        merged_step = step.step - step.steps_since_merge
        if merged_step != self.last_merge_step:
            self.merge(merged_step, self.at_us)
        step_time_s = step.step_time_s or self._between(step, dt_s)
        if step_time_s:
            self.step_time.update(step_time_s, dt_s)
        if step.loss is not None:
            self.loss.update(step.loss, dt_s)
        self.tokens_per_step.update(step.tokens, dt_s)
        if self.loss_at_merge is None:
            self.loss_at_merge = step.loss
        self.step = step.step
        self.tokens_since_merge = step.tokens_since_merge
        self.network_pressure = step.network_pressure
        self.checkpoint_pressure = step.checkpoint_pressure
        self.epoch = step.epoch
        self.at_us = self.seen_us = step.at_us

    def _between(self, step: Step, dt_s: float) -> float | None:
        """Step time of a learner that reports none: the time between two steps without a merge."""
        steps = step.step - self.step
        merged_between = max(self.merged_us, self.held_us) >= self.at_us
        return None if steps <= 0 or merged_between else dt_s / steps

    def end_merge(self, at_us: int) -> None:
        """Note that its part in a merge has ended: it stood still if it told of no step meanwhile.

        One that goes on behind its merge tells of each step; a slow one may take twice as long.
        """
        usual_s = self.step_time.mean
        if usual_s is not None and at_us - self.at_us > HELD_STEPS * usual_s * US_PER_S:
            self.held_us = at_us

    def merge(self, step: int, at_us: int) -> None:
        """Note that it merged at `step`, when that is known by its report or by its next step."""
        self.last_merge_step, self.merged_us = step, at_us
        self.loss_at_merge, self.tokens_since_merge = self.loss.mean, 0


@dataclass(slots=True)
class Begun:
    """A merge that a learner has started, and may go on with behind its inner steps."""

    merge_id: str
    step: int
    reports_sent: int = 1

    def over_by(self, step: Step, min_gap_steps: int) -> bool:
        """True when a step shows that it has ended, though nobody told: its report may be lost.

        The next merge is due H_min later at the earliest, so no merge goes on for longer. One
        that stands before it, or has sent fewer reports, was started anew; and one that counts
        from it has done it.
        """
        anew = step.reports_sent is not None and step.reports_sent < self.reports_sent
        self.reports_sent = max(self.reports_sent, step.reports_sent or 0)
        within = 0 <= step.step - self.step < min_gap_steps
        return anew or not within or step.step - step.steps_since_merge >= self.step


class Learners:
    """The learners of one group, and the measured length of a merge window.

    Args:
        min_gap_steps: H_min.

    Attributes:
        states: those who have reported and not left, by name.
        most_present: how many have been there at one time, at the most.
    """

    def __init__(self, min_gap_steps: int) -> None:
        self._min_gap_steps = min_gap_steps
        self.states: dict[str, LearnerState] = {}
        self.most_present = 0
        self._window = EwMean(WINDOW_HALF_LIFE_MERGES)
        self._measured_id: str | None = None
        self._begun: dict[str, Begun] = {}

    def observe_step(self, step: Step) -> None:
        """Take a step report; the first one makes the learner known."""
        begun = self._begun.get(step.learner)
        if begun is not None and begun.over_by(step, self._min_gap_steps):
            del self._begun[step.learner]
        state = self.states.get(step.learner)
        if state is None:
            state = self.states[step.learner] = LearnerState(
                step.step,
                step.step - step.steps_since_merge,
                step.at_us,
                step.at_us,
                step.at_us,
            )
        state.observe(step)

    def observe_heartbeat(self, beat: Heartbeat) -> None:
        """Note that a learner lives, or that it left."""
        if beat.final:
            self.states.pop(beat.learner, None)
            self._begun.pop(beat.learner, None)
        elif beat.learner in self.states:
            self.states[beat.learner].seen_us = beat.at_us

    def observe_report(self, report: MergeReport) -> None:
        """Take what a learner did about a merge; finished ones measure the window."""
        state = self.states.get(report.learner)
        if state is not None:
            state.seen_us = report.at_us
            if isinstance(report, Finished):
                state.merge(report.step, report.at_us)
        begun = self._begun.get(report.learner)
        if isinstance(report, Started):
            self._begun[report.learner] = Begun(report.merge_id, report.step)
        elif settled(report) and begun is not None and begun.merge_id == report.merge_id:
            # Another merge that it skips meanwhile does not end this one.
            if state is not None:
                state.end_merge(report.at_us)
            del self._begun[report.learner]
        if isinstance(report, Finished) and report.merge_id != self._measured_id:
            self._measured_id = report.merge_id
            self._window.update(report.seconds, dt_s=1.0)

    @property
    def window_s(self) -> float | None:
        """Smoothed duration of the merges reported, in seconds of event time; None before one."""
        return self._window.mean

    def merging(self, present: dict[str, LearnerState]) -> bool:
        """True while one of those present has started a merge and not ended it."""
        return any(name in self._begun for name in present)

    def present(self, now_us: int, stale_s: float) -> dict[str, LearnerState]:
        """Those heard of within `stale_s`, by name."""
        since = now_us - round(stale_s * US_PER_S)
        found = {n: s for n, s in sorted(self.states.items()) if s.seen_us >= since}
        self.most_present = max(self.most_present, len(found))
        return found


def settled(report: MergeReport) -> bool:
    """True when this report ends the learner's part in a merge."""
    return isinstance(report, Finished | Skipped)
