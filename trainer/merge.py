"""One merge from order to report: agree, exchange, agree again, outer step, checkpoint."""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

from slackwater.attach import Attachment, MergeOrder
from trainer.cards import Card, Group, MergeRefusedError
from trainer.checkpoint import CheckpointError
from trainer.outer import OuterState, is_finite

BYTES_PER_PARAMETER = 4

log = logging.getLogger("trainer.merge")


@dataclass(slots=True)
class MergeCounts:
    """What this learner's merges came to."""

    commanded: int = 0
    forced: int = 0
    bytes_exchanged: int = 0
    contributions_refused: int = 0


class Merger:
    """Carries out merge orders.

    Args:
        attachment: where to report.
        group: the other learners.
        outer: global and local weights.
        heal: called when this learner's own contribution was refused, after its weights have
            become the global ones: its optimiser state is not to be trusted either.
        save: writes the checkpoint and returns its bytes.
        speed: seconds of event time in one of wall time.
    """

    def __init__(
        self,
        attachment: Attachment,
        group: Group,
        outer: OuterState,
        *,
        heal: Callable[[], None],
        save: Callable[[MergeOrder], int],
        speed: float = 1.0,
    ) -> None:
        self._attachment = attachment
        self._group = group
        self._outer = outer
        self._heal = heal
        self._save = save
        self._speed = speed
        self.counts = MergeCounts()

    def run(self, order: MergeOrder) -> bool:
        """Merge; False when the group refused, with the reason reported.

        Then nothing has changed, unless no learner had anything finite to give: then all are back
        at the global weights.

        Raises `CheckpointError` after the merge was reported, when it could not be saved.
        """
        try:
            self._merge(order)
        except MergeRefusedError as refusal:
            self._attachment.skipped(order, str(refusal))
            return False
        return True

    def _merge(self, order: MergeOrder) -> None:
        delta = self._outer.pseudo_gradient()
        finite = is_finite(delta)
        cards = self._group.agree(self._card(order, "begin", finite=finite), self._cancelled(order))
        contributing = sum(card.finite for card in cards)
        if not contributing:
            # Weights that are not finite never become so again by training: go back to the last
            # that the group shared, or every later merge would be refused as well.
            self._outer.restore()
            self._heal()
            msg = "not_finite: no learner has a finite pseudo-gradient"
            raise MergeRefusedError(msg)
        self._attachment.started(order)
        start = time.monotonic()
        if not finite:
            delta.zero_()
        self._group.sum(delta)
        delta /= contributing
        exchange_s = time.monotonic() - start
        # A peer may have died in the exchange after this learner was through it: then the others
        # have no sum. Only when all have it may any take the step.
        self._group.agree(self._card(order, "exchanged"), lambda: None)
        self._outer.apply(delta)
        note = self._refused(order, finite, len(cards) - contributing)
        self._report(order, start, exchange_s, note)

    def _report(self, order: MergeOrder, start: float, exchange_s: float, note: str | None) -> None:
        digest = self._outer.digest()
        save_start = time.monotonic()
        failure: CheckpointError | None = None
        size: int | None = None
        try:
            size = self._save(order)
        except CheckpointError as error:
            failure, note = error, "no checkpoint: it could not be written"
        end = time.monotonic()
        size_exchanged = BYTES_PER_PARAMETER * self._outer.parameters
        self._count(order, size_exchanged)
        self._attachment.finished(
            order,
            seconds=(end - start) * self._speed,
            bytes_exchanged=size_exchanged,
            exchange_s=exchange_s * self._speed,
            checkpoint_s=(end - save_start) * self._speed,
            checkpoint_bytes=size,
            parameters=self._outer.parameters,
            digest=digest,
            note=note,
        )
        log.info("%s at step %d: %.3f s, %s", order.merge_id, order.step, end - start, order.reason)
        if failure is not None:
            raise failure

    def _card(self, order: MergeOrder, phase: str, *, finite: bool = True) -> Card:
        return Card(
            merge_id=order.merge_id,
            steps_since_merge=order.steps_since_merge,
            epoch=order.epoch,
            phase=phase,
            finite=finite,
        )

    def _cancelled(self, order: MergeOrder) -> Callable[[], str | None]:
        def reason() -> str | None:
            withdrawn = self._attachment.withdrawn(order)
            return f"peer_skipped: {withdrawn}" if withdrawn else None

        return reason

    def _refused(self, order: MergeOrder, finite: bool, refused: int) -> str | None:
        if not refused:
            return None
        log.warning("%s: %d contributions are not finite; left out", order.merge_id, refused)
        if not finite:
            self.counts.contributions_refused += 1
            self._heal()
        return f"{refused} contributions not finite, left out"

    def _count(self, order: MergeOrder, size_bytes: int) -> None:
        self.counts.bytes_exchanged += size_bytes
        if order.forced:
            self.counts.forced += 1
        else:
            self.counts.commanded += 1
