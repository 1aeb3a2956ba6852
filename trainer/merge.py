"""One merge from order to report: agree, exchange, agree again, outer step, checkpoint.

The exchange can run behind the next inner steps (Streaming DiLoCo, arXiv:2501.18512):

    step t: agree, pseudo-gradient ─► exchange ───────────────► step t + delay: agree, outer step
                                      └─ inner steps go on ─┘
"""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

import torch

from slackwater.attach import MergeOrder
from trainer.behind import Behind
from trainer.cards import BEGIN, FORCED_ID, Card, Group, MergeRefusedError, agreed_id
from trainer.exchange import Exchange
from trainer.outer import OuterState, is_finite
from trainer.shared import Shared
from trainer.weighting import all_known, known, shares

# Of an error's message, in a report.
WHY_CHARACTERS = 160

log = logging.getLogger("trainer.merge")


class Reports(Protocol):
    """What a merge needs of an attachment: to say what it comes to."""

    def started(self, order: MergeOrder, /) -> object:
        """The group has agreed; the exchange begins."""

    def overlapped(self, order: MergeOrder, /) -> object:
        """The exchange goes on behind inner steps."""

    def finished(  # noqa: PLR0913
        self,
        order: MergeOrder,
        /,
        *,
        seconds: float,
        bytes_exchanged: int,
        exchange_s: float | None = None,
        checkpoint_s: float | None = None,
        checkpoint_bytes: int | None = None,
        parameters: int | None = None,
        digest: str | None = None,
        note: str | None = None,
    ) -> object:
        """It is done."""

    def skipped(self, order: MergeOrder, reason: str, /) -> object:
        """It was not done."""

    def withdrawn(self, order: MergeOrder, /) -> str | None:
        """Who took a promise back and why, None while nobody has."""


@dataclass(slots=True)
class MergeCounts:
    """What this learner's merges came to."""

    commanded: int = 0
    forced: int = 0
    bytes_exchanged: int = 0
    contributions_refused: int = 0


@dataclass(slots=True)
class _UnderWay:
    """A merge that all have agreed to begin."""

    order: MergeOrder
    fragment: int
    delta: torch.Tensor
    shares: list[float]
    own: int
    finite: bool
    refused: int
    unweighed: bool
    start: float
    # Trained on since it began.
    tokens: int | None = 0
    exchange_s: float = 0.0
    bytes_exchanged: int = 0
    behind: Behind | None = None
    waited_s: float = 0.0


class Merger:
    """Carries out merge orders.

    Args:
        attachment: where to report.
        group: the other learners.
        outer: global and local weights; its fragments take turns, one a merge.
        heal: called when this learner's own contribution was refused, after its weights have
            become the global ones: its optimiser state is not to be trusted either.
        save: writes the checkpoint and returns its bytes, None when there is to be none.
        exchange: how pseudo-gradients travel; as they are when not given.
        keep: share of the local weights that stays, see `OuterState.apply`.
        speed: seconds of event time in one of wall time.
        shared: the guard of what others may read of `outer`; one of its own when not given.

    Attributes:
        group: as given; another one may be joined between merges.
        outer, exchange: as given.
        levels: a merge leaves the local weights equal to the global ones, all of them.
    """

    def __init__(  # noqa: PLR0913
        self,
        attachment: Reports,
        group: Group,
        outer: OuterState,
        *,
        heal: Callable[[], None],
        save: Callable[[MergeOrder], int | None],
        exchange: Exchange | None = None,
        keep: float = 0.0,
        speed: float = 1.0,
        shared: Shared | None = None,
    ) -> None:
        self._attachment = attachment
        self.group = group
        self.outer = outer
        self._heal = heal
        self._save = save
        self.exchange = exchange or Exchange("none", outer.weights)
        self._keep = keep
        self.levels = len(outer.spans) == 1 and not keep
        self._speed = speed
        self._shared = shared or Shared(outer)
        self._current: _UnderWay | None = None
        # What this learner has trained on since each fragment was last merged.
        self.tokens: list[int | None] = [0] * len(outer.spans)
        self.counts = MergeCounts()

    @property
    def under_way(self) -> MergeOrder | None:
        """The order that `begin` has begun and `end` has not ended, None without one."""
        return self._current.order if self._current else None

    def trained(self, tokens: int | None) -> None:
        """An inner step's tokens: they are what this learner weighs in the next merge.

        None when unknown: then so is the sum until the next merge.
        """
        self.tokens = [_sum(before, tokens) for before in self.tokens]
        if self._current is not None:
            self._current.tokens = _sum(self._current.tokens, tokens)

    def forget(self) -> None:
        """This learner has taken other weights: what it trained on before counts for nothing."""
        self.tokens = [0] * len(self.outer.spans)
        self.exchange.forget()

    def run(self, order: MergeOrder) -> bool:
        """Merge; False when the group refused, with the reason reported.

        Then nothing has changed, unless no learner had anything finite to give: then all are back
        at the global weights.

        Raises `CheckpointError` after the merge was reported, when it could not be saved. Whatever
        else is raised before the outer step, such as for want of memory, ends the merge for all.
        """
        return self.begin(order) and self.end()

    def begin(self, order: MergeOrder, *, behind: bool = False) -> bool:
        """Agree, and exchange now or `behind` the caller's back; False when the group refused."""
        log.info("%s at step %d begins", order.merge_id, order.step)
        start = time.monotonic()
        try:
            current = self._agree_to_begin(order)
            self._current = current
            # Learners that H_max forces may each count steps of their own: one name for the merge.
            order = current.order
            self._attachment.started(order)
            current.start = time.monotonic()
            if behind:
                current.behind = Behind(lambda: self._send(current))
                self._attachment.overlapped(order)
            else:
                self._send(current)
        except MergeRefusedError as refusal:
            self._skip(order, str(refusal), time.monotonic() - start)
            return False
        except BaseException as error:
            self._fail(order, error, time.monotonic() - start)
            raise
        return True

    def end(self) -> bool:
        """Wait for the exchange, agree that all have it, step and report; False when refused."""
        current = self._current
        if current is None:
            return False
        order, start = current.order, time.monotonic()
        try:
            if current.behind is not None:
                waiting = time.monotonic()
                current.behind.wait()
                current.waited_s = time.monotonic() - waiting
            # A peer may have died in the exchange after this learner was through it: then the
            # others have no mean. Only when all have it may any take the step.
            self.group.agree(self._card(order, "exchanged", current.fragment), lambda: None)
            self._apply(current)
        except MergeRefusedError as refusal:
            waited_s = start - current.start if current.behind is None else 0.0
            self._skip(order, str(refusal), waited_s + time.monotonic() - start)
            return False
        except BaseException as error:
            # An exchange that still runs, when the wait for it was interrupted, can be ended later.
            if current.behind is None or current.behind.done:
                self._fail(order, error, time.monotonic() - start)
            raise
        self._report(current, self._note(current))
        return True

    def _agree_to_begin(self, order: MergeOrder) -> _UnderWay:
        fragment = order.epoch % len(self.outer.spans)
        delta = self.outer.pseudo_gradient(fragment)
        finite = is_finite(delta)
        tokens = self.tokens[fragment]
        mine = self._card(order, BEGIN, fragment, finite=finite, tokens=tokens)
        # A command says who must come; H_max alone calls whoever is there.
        names = () if order.merge_id.startswith(FORCED_ID) else order.participants
        cards = self.group.agree(mine, self._cancelled(order), names)
        refused = sum(not card.finite for card in cards)
        if refused == len(cards):
            # Weights that are not finite never become so again by training: go back to the last
            # that the group shared, or every later merge would be refused as well.
            self.outer.restore()
            self._heal()
            msg = "not_finite: no learner has a finite pseudo-gradient"
            raise MergeRefusedError(msg)
        # Equal cards have equal shares, so it does not matter which of them is found.
        return _UnderWay(
            order=replace(order, merge_id=agreed_id(cards)),
            fragment=fragment,
            delta=delta,
            shares=shares(cards),
            own=cards.index(mine),
            finite=finite,
            refused=refused,
            unweighed=not all_known(cards) and any(card.tokens is not None for card in cards),
            start=time.monotonic(),
        )

    def _send(self, current: _UnderWay) -> None:
        start = time.monotonic()
        current.bytes_exchanged = self.exchange.mean(
            current.delta,
            self.outer.spans[current.fragment],
            current.shares,
            current.own,
            self.group,
        )
        current.exchange_s = time.monotonic() - start

    def _apply(self, current: _UnderWay) -> None:
        keep = self._keep if current.finite else 0.0
        with self._shared.lock:
            self.outer.apply(current.delta, current.fragment, keep=keep)
            order = current.order
            self._shared.merged(order.step, order.epoch + 1, self.outer.digest())
        self.exchange.commit()
        self._current = None
        self.tokens[current.fragment] = current.tokens

    def _recover(self) -> None:
        """This learner's weights were not finite: its other fragments are no better."""
        self.counts.contributions_refused += 1
        self.outer.restore()
        self._heal()

    def _note(self, current: _UnderWay) -> str | None:
        """What a reader of the log must know about this merge, None for an ordinary one."""
        notes = []
        if current.refused:
            what = "%s: %d contributions are not finite; left out"
            log.warning(what, current.order.merge_id, current.refused)
            notes.append(f"{current.refused} contributions not finite, left out")
        if current.unweighed:
            what = "%s: a plain mean, as not all learners report tokens"
            log.warning(what, current.order.merge_id)
            notes.append("a plain mean, as not all report tokens")
        if len(self.outer.spans) > 1:
            notes.append(f"fragment {current.fragment + 1} of {len(self.outer.spans)}")
        if current.behind is not None:
            notes.append(f"exchanged behind inner steps, waited {current.waited_s:.3f} s for it")
        return "; ".join(notes) or None

    def _skip(self, order: MergeOrder, reason: str, waited_s: float) -> None:
        self._current = None
        log.info("training goes on, no merge after %.3f s: %s", waited_s, reason)
        self._attachment.skipped(order, reason)

    def _fail(self, order: MergeOrder, error: BaseException, waited_s: float) -> None:
        """What was exchanged may be half done: no learner is to take a step along it."""
        why = f"{type(error).__name__}: {error}".partition("\n")[0][:WHY_CHARACTERS]
        self._skip(order, f"failed: {why}", waited_s)
        self.group.fail(why)

    def _report(self, current: _UnderWay, note: str | None) -> None:
        order, digest = current.order, self.outer.digest()
        save_start = time.monotonic()
        failure: BaseException | None = None
        size: int | None = None
        # A checkpoint counts this merge as done.
        self._count(order, current.bytes_exchanged)
        try:
            if not current.finite:
                self._recover()
            size = self._save(order)
        except BaseException as error:
            failure, note = error, "no checkpoint: it could not be written"
        end = time.monotonic()
        self._attachment.finished(
            order,
            seconds=(end - current.start) * self._speed,
            bytes_exchanged=current.bytes_exchanged,
            exchange_s=current.exchange_s * self._speed,
            checkpoint_s=None if size is None else (end - save_start) * self._speed,
            checkpoint_bytes=size,
            parameters=self.outer.parameters,
            digest=digest,
            note=note,
        )
        log.info(
            "merge %d, %s at step %d: %.3f s, %s, %d learners, weights %s",
            *(order.epoch + 1, order.merge_id, order.step, end - current.start, order.reason),
            *(self.group.size, digest),
        )
        if failure is not None:
            raise failure

    def _card(
        self,
        order: MergeOrder,
        phase: str,
        fragment: int,
        *,
        finite: bool = True,
        tokens: int | None = 0,
    ) -> Card:
        return Card(
            merge_id=order.merge_id,
            step=order.step,
            epoch=order.epoch,
            phase=phase,
            finite=finite,
            kind=f"{self.exchange.compression} {fragment + 1}/{len(self.outer.spans)}",
            tokens=tokens,
            forced=order.forced,
            moment_us=order.moment_us,
            digest=self.outer.digest(),
        )

    def _cancelled(self, order: MergeOrder) -> Callable[[], str | None]:
        def reason() -> str | None:
            withdrawn = self._attachment.withdrawn(order)
            return f"peer_skipped: {withdrawn}" if withdrawn else None

        return reason

    def _count(self, order: MergeOrder, size_bytes: int) -> None:
        self.counts.bytes_exchanged += size_bytes
        if order.forced:
            self.counts.forced += 1
        else:
            self.counts.commanded += 1


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else known(one + other)
