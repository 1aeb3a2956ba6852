"""The reference learner: inner steps at its own pace, merges when it is told to."""

import logging
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

import msgspec

from slackwater.attach import Attachment, MergeOrder
from slackwater.clock import RunClock
from trainer.cards import Group
from trainer.merge import MergeCounts, Merger
from trainer.pressure import StallShare
from trainer.settings import LearnerSettings
from trainer.shared import Shared
from trainer.training import Training

LOSSES_KEPT = 50
NAP_S = 0.1
# A share of the time that a merge may take, of which half is for the others to come.
CALL_PATIENCE = 0.4

log = logging.getLogger("trainer")


class LearnerSummary(msgspec.Struct, frozen=True, kw_only=True):
    """What a learner did; losses in nats a byte, None before the first step.

    Attributes:
        merges: those done, and what they moved.
        accepted: commands promised to.
        caught_up: how often it took the group's shared weights, because it came late or back.
        skipped: merges not done, by the first word of the reason.
        ignored: commands not answered, by why.
        loss: mean of the last 50 steps.
        held_out_loss: of the last weights, on text that no learner trains on.
        digest: of the global weights.
        acked: events that Kafka has.
        dropped_events: events that it never had.
        attach_errors: faults inside the attach client; 0 unless it has a bug.
    """

    schema_version: int = 1
    learner: str
    steps: int
    merges: MergeCounts
    accepted: int
    caught_up: int = 0
    skipped: dict[str, int]
    ignored: dict[str, int]
    loss: float | None
    held_out_loss: float | None
    parameters: int
    digest: str
    broker_connected: bool
    acked: int
    dropped_events: int
    attach_errors: int


class Learner:
    """Runs `Training` under an `Attachment` and a group until told to end.

    Args:
        settings: pace and limits.
        training: what is trained.
        attachment: entered already.
        group: joined already.
        checkpoint: path of the checkpoint.
        clock: event time.
        shared: what this learner has in common with its group.
        stopping: true once this process should end.
    """

    def __init__(
        self,
        settings: LearnerSettings,
        training: Training,
        attachment: Attachment,
        group: Group,
        *,
        checkpoint: Path,
        clock: RunClock,
        shared: Shared,
        stopping: Callable[[], bool],
    ) -> None:
        self._settings = settings
        self._training = training
        self._attachment = attachment
        self._group = group
        self._speed = clock.speed
        self._stopping = stopping
        self._checkpoint = StallShare("io")
        self._memory = StallShare("memory")
        self._losses: deque[float] = deque(maxlen=LOSSES_KEPT)
        self.steps = 0
        self.caught_up = 0
        self._step_s = 0.0
        self._shared = shared
        self.merger = Merger(
            attachment,
            group,
            training.outer,
            heal=training.inner.reset,
            save=lambda order: training.save(checkpoint, order),
            speed=clock.speed,
            shared=shared,
        )

    def stand(self, step: int, epoch: int) -> None:
        """Go on from the merge at `step`, the last of `epoch` merges; call before `run`."""
        self.steps = step
        self._attachment.joined(step, step, epoch)
        log.info("%s goes on from step %d, after %d merges", self._settings.learner, step, epoch)

    def run(self) -> None:
        """Step until a limit or the wish to end; the step under way is finished first."""
        limit_s = self._settings.duration_s
        end = float("inf") if limit_s is None else time.monotonic() + limit_s
        most = self._settings.max_steps
        self._join_late()
        while not self._stopping() and time.monotonic() < end:
            if most is not None and self.steps >= most:
                return
            self._catch_up()
            order = self._step() or self._answer_call()
            if order is not None and self.merger.run(order):
                log.info("held-out loss %.4f", self._training.held_out_loss())
            self._tell()

    def _join_late(self) -> None:
        """Steps count from where the group is, as commands name them."""
        other = self._group.standing()
        if other is not None:
            self._stand(other.step, other.step - other.last_merge_step)

    def _stand(self, step: int, gap_steps: int) -> None:
        self.steps = step
        self._shared.last_merge_step = max(0, step - gap_steps)
        self._attachment.joined(step, self._shared.last_merge_step, self._shared.epoch)
        self._tell()

    def _tell(self) -> None:
        shared = self._shared
        shared.step = self.steps
        self._group.tell(self.steps, shared.last_merge_step, shared.epoch, shared.digest)

    def _catch_up(self) -> None:
        """Take the group's shared state where it has gone on without this learner.

        What this learner has learned since, from other shared weights, is given up.
        """
        state = self._group.newer()
        if state is None:
            return
        gap = state.step - state.last_merge_step
        self._shared.take(state)
        self.merger.forget()
        self._stand(self.steps, gap)
        self.caught_up += 1
        what = "%s takes the group's weights after %d merges and goes on from step %d"
        log.info(what, self._settings.learner, state.epoch, self.steps)

    def _answer_call(self) -> MergeOrder | None:
        """Come to a merge that another learner has opened for whoever is there.

        Not when this learner's own H_max is so near that the other one can wait for it.
        """
        if not self._group.called():
            return None
        left = self._shared.last_merge_step + self._settings.max_gap_steps - self.steps
        if 0 < left * self._step_s < CALL_PATIENCE * self._settings.peer_timeout_s:
            return None
        return self._attachment.called(self.steps)

    def _step(self) -> MergeOrder | None:
        start = time.monotonic()
        loss = self._training.step()
        self._losses.append(loss)
        self._rest_until(start + self._settings.step_s)
        self.steps += 1
        self._step_s = time.monotonic() - start
        return self._attachment.on_step(
            self.steps,
            loss,
            self._training.tokens_per_step,
            step_time_s=self._step_s * self._speed,
            checkpoint_pressure=self._checkpoint.read(),
            memory_pressure=self._memory.read(),
        )

    def _rest_until(self, end: float) -> None:
        # In short naps: a signal does not end a sleep.
        while (left_s := end - time.monotonic()) > 0 and not self._stopping():
            time.sleep(min(left_s, NAP_S))

    def summary(self) -> LearnerSummary:
        """What was done so far; its counts of events are complete once the attachment is closed."""
        attach = self._attachment.summary()
        training = self._training
        return LearnerSummary(
            learner=self._settings.learner,
            steps=self.steps,
            merges=self.merger.counts,
            accepted=attach.accepted,
            caught_up=self.caught_up,
            skipped=attach.skipped,
            ignored=attach.ignored,
            loss=sum(self._losses) / len(self._losses) if self._losses else None,
            held_out_loss=training.held_out_loss() if self.steps else None,
            parameters=training.outer.parameters,
            digest=training.outer.digest(),
            broker_connected=attach.connected,
            acked=attach.acked,
            dropped_events=attach.dropped,
            attach_errors=attach.errors,
        )
