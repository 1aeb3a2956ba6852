"""The reference learner: inner steps at its own pace, merges when it is told to."""

import logging
import time
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from slackwater.attach import Attachment
from slackwater.clock import RunClock
from trainer.diloco import DiLoCo
from trainer.merge import MergeCounts
from trainer.peers import Peers
from trainer.pressure import StallShare
from trainer.settings import LearnerSettings
from trainer.training import Training

LOSSES_KEPT = 50
NAP_S = 0.1

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


class Losses:
    """The last ones, which a checkpoint keeps."""

    def __init__(self) -> None:
        self._kept: deque[float] = deque(maxlen=LOSSES_KEPT)

    def add(self, loss: float) -> None:
        """That of one more step."""
        self._kept.append(loss)

    @property
    def last(self) -> float:
        """The one added last."""
        return self._kept[-1]

    @property
    def mean(self) -> float | None:
        """None before the first."""
        return sum(self._kept) / len(self._kept) if self._kept else None

    def state_dict(self) -> dict[str, Any]:
        """All of them."""
        return {"kept": list(self._kept)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from there."""
        self._kept = deque(state["kept"], maxlen=LOSSES_KEPT)


class Learner:
    """Runs `Training` inside a `DiLoCo`, at a pace, until told to end.

    Args:
        settings: pace and limits.
        training: what is trained.
        attachment: to be entered before `diloco`.
        group: whom to merge with.
        checkpoint: path of the checkpoint.
        clock: event time.
        stopping: true once this process should end.

    Attributes:
        diloco: carries out the merges; to be entered before `run`.
    """

    def __init__(
        self,
        settings: LearnerSettings,
        training: Training,
        attachment: Attachment,
        group: Peers,
        *,
        checkpoint: Path,
        clock: RunClock,
        stopping: Callable[[], bool],
    ) -> None:
        self._settings = settings
        self._training = training
        self._attachment = attachment
        self._speed = clock.speed
        self._stopping = stopping
        self._path = checkpoint
        self._checkpoint = StallShare("io")
        self._memory = StallShare("memory")
        self._losses = Losses()
        self._began_s = 0.0
        self.diloco = DiLoCo(
            training.model,
            training.inner.parts,
            attachment,
            group,
            checkpoint=checkpoint,
            checkpoint_every_steps=settings.checkpoint_every_steps,
            stateful={"data": training, "losses": self._losses},
            measure=self._measure,
            speed=clock.speed,
        )

    def run(self) -> None:
        """Step until a limit or the wish to end; the step under way is finished first.

        With checkpoints between merges a last one is written at the end.
        """
        limit_s = self._settings.duration_s
        end = float("inf") if limit_s is None else time.monotonic() + limit_s
        while not self._stopping() and time.monotonic() < end and self._more():
            before = self._merges()
            self._step()
            if self._merges() > before:
                log.info("held-out loss %.4f", self._training.held_out_loss())
        if self._settings.checkpoint_every_steps is not None and self.diloco.steps:
            self.diloco.save(self._path)

    def _more(self) -> bool:
        most = self._settings.max_steps
        return most is None or self.diloco.steps < most

    def _merges(self) -> int:
        return self.diloco.counts.commanded + self.diloco.counts.forced

    def _step(self) -> None:
        """One inner step; its report, and what is ordered then, are inside the optimiser's."""
        self._began_s = time.monotonic()
        loss = self._training.loss()
        self._losses.add(float(loss.detach()))
        self._training.inner.step(loss)

    def _measure(self) -> dict[str, Any]:
        """What is reported of a step, once it has taken as long as it should."""
        self._rest_until(self._began_s + self._settings.step_s)
        return {
            "loss": self._losses.last,
            "tokens": self._training.tokens_per_step,
            "step_time_s": (time.monotonic() - self._began_s) * self._speed,
            "checkpoint_pressure": self._checkpoint.read(),
            "memory_pressure": self._memory.read(),
        }

    def _rest_until(self, end: float) -> None:
        # In short naps: a signal does not end a sleep.
        while (left_s := end - time.monotonic()) > 0 and not self._stopping():
            time.sleep(min(left_s, NAP_S))

    def summary(self) -> LearnerSummary:
        """What was done so far; its counts of events are complete once the attachment is closed."""
        attach = self._attachment.summary()
        diloco, training = self.diloco, self._training
        return LearnerSummary(
            learner=self._settings.learner,
            steps=diloco.steps,
            merges=diloco.counts,
            accepted=attach.accepted,
            caught_up=diloco.caught_up,
            skipped=attach.skipped,
            ignored=attach.ignored,
            loss=self._losses.mean,
            held_out_loss=training.held_out_loss() if diloco.steps else None,
            parameters=diloco.outer.parameters,
            digest=diloco.outer.digest(),
            broker_connected=attach.connected,
            acked=attach.acked,
            dropped_events=attach.dropped,
            attach_errors=attach.errors,
        )
