"""The schedule of a control: steps drawn beforehand, commanded by the path of any policy."""

from typing import ClassVar

from controller.policies.base import Choice
from controller.view import Timing, View


class Scheduled:
    """`scheduled`: the n-th merge at the n-th of `scheduled_steps`, whatever the load is.

    Merges count by the learners' epoch: one that came to nothing is commanded again at the next
    step that can be reached, and those after it keep their own steps.
    """

    name: ClassVar[str] = "scheduled"
    needs_load: ClassVar[bool] = False

    def choose(self, view: View, timing: Timing) -> Choice:
        """Merge when the next step of the schedule would be passed before the next tick."""
        steps, done = view.settings.scheduled_steps, view.epoch
        if timing.step <= timing.last_merge_step:
            # Who has merged counts it from its next step on.
            return Choice(merge=False, reason="merge_just_ended")
        if done is None:
            return Choice(merge=False, reason="epoch_unknown")
        if done >= len(steps):
            return Choice(merge=False, reason="schedule_done")
        target = steps[done]
        due = target <= timing.first_reachable_step + timing.steps_per_tick
        return Choice(
            due,
            "scheduled_step" if due else "scheduled_later",
            at_step=target if due else None,
            score=float(timing.first_reachable_step),
            threshold=float(target),
        )
