"""A learner's course through its group: steps counted, orders carried out, newer weights taken."""

import logging
import time

from slackwater.attach import Attachment, MergeOrder
from trainer.merge import Merger
from trainer.shared import Shared

log = logging.getLogger("trainer")


class Course:
    """Where one learner stands among the others, and what follows from it after each inner step.

    Args:
        attachment: told of each step; gives the orders.
        merger: carries them out, in its `group`.
        shared: what this learner has in common with the group; the merger's own.
        delay_steps: inner steps behind which an exchange runs.

    Attributes:
        steps: inner steps done; counted from where the group was when this learner came late.
        caught_up: how often it took the group's shared weights, because it came late or back.
    """

    def __init__(
        self, attachment: Attachment, merger: Merger, shared: Shared, delay_steps: int
    ) -> None:
        self._attachment = attachment
        self._merger = merger
        self._shared = shared
        self._delay_steps = delay_steps
        self._since_s = time.monotonic()
        self._step_s = 0.0
        self.steps = 0
        self.caught_up = 0

    def join(self) -> None:
        """Count steps from where the group is, as commands name them, and take what it has."""
        other = self._merger.group.standing()
        if other is not None:
            self._stand(other.step, other.step - other.last_merge_step)
        self._catch_up()
        self._since_s = time.monotonic()

    def resume(
        self, step: int, last_merge_step: int, epoch: int, retry_step: int | None = None
    ) -> None:
        """Go on from a checkpoint, whose weights and tokens are there already."""
        self.steps = step
        self._shared.stand(step, last_merge_step, epoch)
        self._attachment.joined(
            step, last_merge_step, epoch, retry_step=retry_step, tokens=self._tokens()
        )
        what = "%s goes on from step %d, after %d merges"
        log.info(what, self._attachment.learner, step, epoch)

    def stepped(self, loss: float | None, tokens: int | None, **other: float | None) -> None:
        """An inner step is done: report it, merge if it is time, and take what the group has.

        Never waits for the network but in a merge and while it takes the group's weights.
        """
        self.steps += 1
        self._shared.step = self.steps
        self._step_s = time.monotonic() - self._since_s
        merger = self._merger
        merger.trained(tokens)
        order = self._attachment.on_step(self.steps, loss, tokens or 0, **other)
        order = order or self._answer_call()
        if order is not None:
            self._begin(order)
        if merger.under_way and self.steps - merger.under_way.step >= self._delay_steps:
            merger.end()
        self._tell()
        self._catch_up()
        self._since_s = time.monotonic()

    def end(self) -> None:
        """The last step is done: the others wait for a word on an exchange that is under way."""
        if self._merger.under_way is not None:
            self._merger.end()

    def _begin(self, order: MergeOrder) -> None:
        if self._delay_steps:
            self._merger.begin(order, behind=True)
        else:
            self._merger.run(order)

    def _answer_call(self) -> MergeOrder | None:
        """Come to a merge that another learner has opened for whoever is there.

        Not when this learner's own H_max is so near that the other one can wait for it.
        """
        h_max = self._shared.last_merge_step + self._attachment.corridor.max_gap_steps
        if not self._merger.group.called((h_max - self.steps) * self._step_s):
            return None
        return self._attachment.called(self.steps)

    def _catch_up(self) -> None:
        """Take the group's shared state where it has gone on without this learner.

        What this learner has learned since, from other shared weights, is given up.
        """
        state = None if self._merger.under_way else self._merger.group.newer()
        if state is None:
            return
        gap = state.step - state.last_merge_step
        self._shared.take(state)
        self._merger.forget()
        # Who is far behind counts on from there, as commands name steps.
        self._stand(max(self.steps, state.step), gap)
        self.caught_up += 1
        what = "%s takes the group's weights after %d merges and goes on from step %d"
        log.info(what, self._attachment.learner, state.epoch, self.steps)

    def _stand(self, step: int, gap_steps: int) -> None:
        last_merge_step = max(0, step - gap_steps)
        self.steps = step
        self._shared.stand(step, last_merge_step, self._shared.epoch)
        self._attachment.joined(step, last_merge_step, self._shared.epoch, tokens=self._tokens())
        self._tell()

    def _tokens(self) -> int:
        """What this learner has trained on since the last merge of any fragment."""
        return min((one for one in self._merger.tokens if one is not None), default=0)

    def _tell(self) -> None:
        shared = self._shared
        self._merger.group.tell(shared.step, shared.last_merge_step, shared.epoch, shared.digest)
