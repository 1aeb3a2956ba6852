"""DiLoCo around a training loop that exists: merges happen inside `optimizer.step()`.

    peers = Peers(names)
    with Attachment(...) as attachment, DiLoCo(model, optimizer, attachment, peers) as diloco:
        for batch in data:
            loss = model(batch)
            loss.backward()
            diloco.report(loss=loss, tokens=batch.numel())
            optimizer.step()
            optimizer.zero_grad()

The names are those of torchft and OpenDiLoCo where they mean the same; `sync_every` is H_max, the
`max_gap_steps` of the attachment's corridor.
"""

import copy
import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, SupportsIndex

import torch
from torch import nn
from torch.optim import Optimizer
from torch.utils.hooks import RemovableHandle

from slackwater.attach import Attachment
from slackwater.errors import InputError
from trainer.cards import Group, Solo
from trainer.course import Course
from trainer.exchange import Compression, Exchange
from trainer.merge import MergeCounts, Merger
from trainer.outer import OUTER_LR, OUTER_MOMENTUM, OuterState
from trainer.peers import Peers
from trainer.shared import Shared
from trainer.snapshot import Snapshots, Stateful
from trainer.weighting import whole_tokens

__all__ = ["DiLoCo", "Peers", "Stateful"]

log = logging.getLogger("trainer")


class DiLoCo:
    """A learner's model and inner optimiser, merged with its group's when it is told to.

    A context manager; inside it each `step` of the optimiser is reported, and an order that comes
    back is carried out before `step` returns. Trainable parameters are merged, each once;
    frozen ones and buffers stay this learner's own. The outer state is on the CPU.

    Args:
        model: any module, on any device; which parameters are trainable is read now.
        inner_optimizer: steps counted are its own; of several, those of the last.
        attachment: entered by whoever made it, before this: at the end it still has to report an
            exchange that runs behind the last steps.
        group: joined already, or whom to join on entering and to leave at the end. Who joins late
            counts its steps on from where the group is, and takes the group's weights.
        outer_lr: of the outer SGD.
        outer_momentum: Nesterov; 0 for none.
        compression: of pseudo-gradients on the wire: `none`, `bf16` or `int8`.
        fragments: how many parts of the model take turns, one a merge.
        fragment_sync_delay: inner steps behind which the exchange runs; below H_min.
        fragment_update_alpha: share of the local weights that stays when a fragment is merged.
        checkpoint: file that each merge writes before it is reported; None for none.
        checkpoint_every_steps: it is written also after so many inner steps without it; None for
            never.
        stateful: what else belongs in it, by name, such as the data loader.
        measure: called after each step, returns what `report` would have been given.
        speed: seconds of event time in one of wall time, `RunClock.speed`.

    Attributes:
        outer: global weights and outer momentum.

    Raises `InputError` for what cannot be merged so.
    """

    def __init__(  # noqa: PLR0913
        self,
        model: nn.Module,
        inner_optimizer: Optimizer | Sequence[Optimizer],
        attachment: Attachment,
        group: Group | Peers,
        *,
        outer_lr: float = OUTER_LR,
        outer_momentum: float = OUTER_MOMENTUM,
        compression: Compression = "none",
        fragments: int = 1,
        fragment_sync_delay: int = 0,
        fragment_update_alpha: float = 0.0,
        checkpoint: str | Path | None = None,
        checkpoint_every_steps: int | None = None,
        stateful: Mapping[str, Stateful] | None = None,
        measure: Callable[[], Mapping[str, Any]] | None = None,
        speed: float = 1.0,
    ) -> None:
        given = inner_optimizer
        self._optimizers = [given] if isinstance(given, Optimizer) else list(given)
        self._fresh = [copy.deepcopy(one.state_dict()["state"]) for one in self._optimizers]
        _check(fragment_sync_delay, fragment_update_alpha, attachment.corridor.min_gap_steps)
        self._peers = group if isinstance(group, Peers) else None
        self._measure = measure
        self._reported: dict[str, Any] = {}
        self._hook: RemovableHandle | None = None
        self._attachment = attachment
        self._reports = False
        self.outer = OuterState(
            *(p for p in model.parameters() if p.requires_grad),
            lr=outer_lr,
            momentum=outer_momentum,
            fragments=fragments,
        )
        shared = self._shared = Shared(self.outer)
        merger = self._merger = Merger(
            attachment,
            Solo() if isinstance(group, Peers) else group,
            self.outer,
            heal=self._heal,
            save=lambda _order: self._snapshots.merged(),
            exchange=Exchange(compression, self.outer.weights),
            keep=fragment_update_alpha,
            speed=speed,
            shared=shared,
        )
        course = self._course = Course(attachment, merger, shared, fragment_sync_delay)
        self._snapshots = Snapshots(
            model,
            self._optimizers,
            attachment,
            merger,
            shared,
            course,
            stateful=stateful or {},
            path=None if checkpoint is None else Path(checkpoint),
            every_steps=checkpoint_every_steps,
        )

    @property
    def steps(self) -> int:
        """Inner steps done; counted from where the group was when this learner came late."""
        return self._course.steps

    @property
    def epoch(self) -> int:
        """Merges that the global weights have been through."""
        return self._shared.epoch

    @property
    def caught_up(self) -> int:
        """How often this learner took the group's weights, because it came late or back."""
        return self._course.caught_up

    @property
    def counts(self) -> MergeCounts:
        """What the merges came to so far."""
        return self._merger.counts

    def __enter__(self) -> "DiLoCo":
        self._reports = self._attachment.entered
        if not self._reports:
            log.warning(
                "DiLoCo: its Attachment has not been entered, so no step is reported, no command "
                "is heard, and merges come at H_max alone; write `with attachment, diloco:`"
            )
        if self._peers is not None:
            group = self._merger.group = self._peers.join(self._shared)
            try:
                self._course.join()
            except BaseException:
                group.leave()
                raise
        last = self._optimizers[-1]
        self._hook = last.register_step_post_hook(lambda *_: self._after_step())
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._hook is not None:
            self._hook.remove()
        try:
            if exc is None:
                self._course.end()
        finally:
            if self._peers is not None:
                self._merger.group.leave()

    def report(
        self,
        *,
        loss: float | torch.Tensor | None = None,
        tokens: SupportsIndex | None = None,
        **other: float | None,
    ) -> None:
        """What the step to come is about; call it before `optimizer.step()`.

        `tokens` is what this learner trained on in the step, and its weight in the next merge; None
        is unknown, and where any learner's are, the merge is a plain mean. Raises `InputError` when
        it is anything but an integer from 0 to below 2**53.
        `other` is what `Attachment.on_step` takes besides, such as `step_time_s`. Raises
        `InputError` before `DiLoCo` has been entered: no step is reported then, and nothing merges.
        """
        if self._hook is None:
            msg = "DiLoCo has not been entered, so nothing would merge; train inside `with diloco:`"
            raise InputError(msg)
        self._reported = {"loss": loss, "tokens": whole_tokens(tokens), **other}

    def save(self, path: str | Path) -> int:
        """Write a checkpoint of everything; returns bytes.

        Raises `CheckpointError` when it cannot be written, or while an exchange runs behind the
        steps: what it will come to is not known yet.
        """
        return self._snapshots.save(Path(path))

    def load(self, path: str | Path) -> None:
        """Go on from a checkpoint, bit for bit; call it before entering.

        A group that has gone on meanwhile is caught up with on entering. Raises `InputError` when
        the checkpoint does not fit, and after entering.
        """
        self._check_outside("load")
        self._snapshots.load(Path(path))

    def state_dict(self) -> dict[str, Any]:
        """All that this learner needs to go on from here.

        Global and local weights, buffers, inner and outer optimiser, what int8 has not said yet,
        random generators, counts, and the `stateful`. The tensors are those in use: copy or write
        them before the next step.
        """
        return self._snapshots.take()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a `state_dict` of this learner; call it before entering."""
        self._check_outside("load_state_dict")
        self._snapshots.restore(state)

    def _check_outside(self, name: str) -> None:
        if self._hook is not None:
            msg = (
                f"DiLoCo.{name} comes after entering; call it before, so that the group is joined "
            )
            msg += "with what was loaded"
            raise InputError(msg)

    def _after_step(self) -> None:
        if self._attachment.entered is not self._reports:
            msg = (
                "the Attachment was entered inside DiLoCo; enter it first, so that it is left last"
            )
            raise InputError(msg)
        said, self._reported = self._measure() if self._measure else self._reported, {}
        loss, tokens = said.get("loss"), whole_tokens(said.get("tokens"))
        if isinstance(loss, torch.Tensor):
            loss = loss.item()
        other = {name: value for name, value in said.items() if name not in ("loss", "tokens")}
        self._course.stepped(loss, tokens, **other)
        self._snapshots.in_time()

    def _heal(self) -> None:
        """Forget what the inner optimisers know, which is no more finite than the weights were."""
        for one, fresh in zip(self._optimizers, self._fresh, strict=True):
            groups = one.state_dict()["param_groups"]
            one.load_state_dict({"state": copy.deepcopy(fresh), "param_groups": groups})


def _check(delay_steps: int, alpha: float, min_gap_steps: int) -> None:
    if not 0 <= delay_steps < min_gap_steps:
        msg = (
            f"fragment_sync_delay is {delay_steps}; it must be 0 to {min_gap_steps - 1}, below "
            "H_min: a merge ends before the next one can begin"
        )
        raise InputError(msg)
    if not 0 <= alpha < 1:
        msg = f"fragment_update_alpha is {alpha:g}; it must be 0 or more, and below 1"
        raise InputError(msg)
