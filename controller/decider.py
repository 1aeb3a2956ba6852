"""One policy's decisions: the safeguards no policy may override, then the policy's choice."""

from dataclasses import dataclass, field, replace

from controller.learners import settled
from controller.policies import Choice, Policy, policy_named
from controller.settings import ControllerSettings
from controller.switchback import Assignment, Switchback, switchback_key
from controller.view import Timing, View
from slackwater.clock import US_PER_S
from slackwater.events import H_MAX, H_MAX_OVERDUE, PAUSED, Finished, MergeReport

# A command stays valid for twice the time it should need, plus some leads: a slow step or a slow
# broker must not lose the merge, and a learner that stalls must not merge at a stale moment.
DEADLINE_LEADS = 10.0


@dataclass(slots=True)
class Pending:
    """A merge that was commanded and that some participant has not settled yet."""

    merge_id: str
    deadline_us: int
    waiting_for: set[str]


@dataclass(frozen=True, slots=True)
class Order:
    """What a command must carry, besides the group's names.

    `step` is the one to merge at, of the leader where the command names `moment_us` instead.
    """

    merge_id: str
    step: int
    deadline_us: int
    participants: tuple[str, ...]
    epoch: int | None = None
    moment_us: int | None = None

    @property
    def at_step(self) -> int | None:
        """The step that the command names; None where it names a moment."""
        return self.step if self.moment_us is None else None


@dataclass(slots=True)
class Outcome:
    """One tick's result: the choice, the order when it is to merge, and whose interval it was.

    `assigned` is None without a switchback, and before its first interval.
    """

    choice: Choice
    order: Order | None = None
    assigned: Assignment | None = None


@dataclass(slots=True)
class Decider:
    """Decides one tick after another for one policy of one merge group.

    With a `switchback` it decides only in the intervals that the coin gives to the policy.
    """

    policy: Policy
    switchback: Switchback | None = None
    paused: bool = False
    merge_now: bool = False
    pending: Pending | None = field(default=None)

    def decide(self, view: View) -> Outcome:
        """Apply the safeguards in their order, then ask the policy."""
        if self.pending and view.tick_us > self.pending.deadline_us:
            self.pending = None
        assigned = self._assigned(view)
        choice = self._choose(view, assigned)
        if not choice.merge or view.timing is None:
            return Outcome(choice, None, assigned)
        return Outcome(choice, self._order(view, view.timing, choice), assigned)

    def observe_report(self, report: MergeReport) -> None:
        """Note that a participant has finished or skipped the pending merge."""
        if isinstance(report, Finished):
            # Whoever asked for a merge now has had one, even if H_max brought it.
            self.merge_now = False
        if self.pending and report.merge_id == self.pending.merge_id and settled(report):
            self.pending.waiting_for.discard(report.learner)
            if not self.pending.waiting_for:
                self.pending = None

    def _assigned(self, view: View) -> Assignment | None:
        """Whose interval it is; a new one begins when nobody is in the merge before it any more."""
        if self.switchback is None:
            return None
        if self.pending or view.merging or view.timing is None:
            return self.switchback.assigned
        last_merges = {name: state.last_merge_step for name, state in view.learners.items()}
        return self.switchback.follow(last_merges, view.corridor)

    def _choose(self, view: View, assigned: Assignment | None) -> Choice:
        if self.pending or view.merging:
            return Choice(merge=False, reason="merge_pending")
        if not view.enough:
            return Choice(merge=False, reason="learners_missing")
        if view.timing is None:
            return Choice(merge=False, reason="step_time_unknown")
        return self._choose_within(view, view.timing, assigned)

    def _choose_within(self, view: View, timing: Timing, assigned: Assignment | None) -> Choice:
        corridor, last = view.corridor, timing.last_merge_step
        too_soon = timing.least_gap_steps < corridor.min_gap_steps
        if corridor.last(last) < timing.step:
            # The learners' own merge at H_max came to nothing: the next chance is now, but that
            # the leader would only stand and wait again for one that has not reached its H_min.
            return Choice(merge=not too_soon, reason="h_min" if too_soon else H_MAX_OVERDUE)
        if corridor.last(last) < timing.first_reachable_step:
            return Choice(merge=False, reason="h_max_left_to_learners")
        if corridor.last(last) <= timing.first_reachable_step + timing.steps_per_tick:
            return Choice(merge=True, reason=H_MAX, at_step=corridor.last(last))
        if self.paused:
            return Choice(merge=False, reason=PAUSED)
        if too_soon:
            return Choice(merge=False, reason="h_min")
        if self.merge_now:
            return Choice(merge=True, reason="merge_now")
        if assigned is not None and assigned.drawn_gap_steps is not None:
            return _bounded(_choose_drawn(assigned.drawn_gap_steps, timing), view)
        if self.policy.needs_load and view.cost is None:
            return _choose_blind(view, timing)
        return _bounded(self.policy.choose(view, timing), view)

    def _order(self, view: View, timing: Timing, choice: Choice) -> Order:
        step = max(timing.first_reachable_step, choice.at_step or 0)
        if choice.reason != H_MAX_OVERDUE:
            step = min(step, view.corridor.last(timing.last_merge_step))
        # The slowest learner may be in the first part of a step when a moment comes.
        ahead_s = (step - timing.step) * timing.step_time_s + timing.slowest_step_s
        valid_s = 2 * ahead_s + DEADLINE_LEADS * view.lead_s + view.window_s
        order = Order(
            merge_id=f"m{view.tick_us}",
            step=step,
            deadline_us=view.tick_us + round(valid_s * US_PER_S),
            participants=tuple(view.learners),
            epoch=view.epoch,
            moment_us=timing.moment_us(step),
        )
        self.pending = Pending(order.merge_id, order.deadline_us, set(order.participants))
        self.merge_now = False
        return order


def switchback_of(settings: ControllerSettings, run_id: str) -> Switchback | None:
    """The switchback that these settings ask for."""
    if settings.switchback is None:
        return None
    key = switchback_key(settings.seed, run_id, settings.group)
    return Switchback(key, settings.switchback_share, settings.switchback)


def _choose_drawn(gap_steps: int, timing: Timing) -> Choice:
    """In the random arm: merge at the step drawn as the interval began, whatever the load is."""
    drawn = timing.last_merge_step + gap_steps
    due = drawn <= timing.first_reachable_step + timing.steps_per_tick
    reason = "drawn_step" if due else "drawn_later"
    return Choice(due, reason, drawn, float(timing.gap_steps), float(gap_steps))


def _choose_blind(view: View, timing: Timing) -> Choice:
    """An unknown load is neither idle nor busy: what decides then is the fallback that is set."""
    cause = "signal_stale" if view.load.stale else "load_unknown"
    fallback = view.settings.fallback
    if fallback == H_MAX:
        return Choice(merge=False, reason=cause)
    choice = policy_named(fallback).choose(view, timing)
    return replace(choice, reason=f"{cause}:{fallback}:{choice.reason}")


def _bounded(choice: Choice, view: View) -> Choice:
    """The policy's choice, unless its window would harm a sidecar beyond the bound."""
    bound = view.settings.max_burden
    if bound is None or not choice.merge:
        return choice
    burden = view.harm.burden(view.tick_us, view.load, view.window_s)
    if burden is None or burden.within(bound):
        return choice
    terms = {
        f"burden_then:{burden.sidecar}": burden.then,
        f"burden_window:{burden.sidecar}": burden.window,
    }
    if burden.now is not None:
        terms[f"burden_now:{burden.sidecar}"] = burden.now
    return Choice(False, "harm_bound", None, burden.then, bound, terms)
