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
from typing import Any, Protocol

import torch
from torch import nn
from torch.optim import Optimizer
from torch.utils.hooks import RemovableHandle

from slackwater.attach import Attachment, MergeOrder
from slackwater.errors import InputError
from trainer.cards import Group, Solo
from trainer.checkpoint import CheckpointError, read_checkpoint, write_checkpoint
from trainer.exchange import Compression, Exchange
from trainer.merge import MergeCounts, Merger
from trainer.outer import OUTER_LR, OUTER_MOMENTUM, OuterState
from trainer.peers import Peers
from trainer.randomness import random_state, restore_random_state

VERSION = 1

log = logging.getLogger("trainer.diloco")


class Stateful(Protocol):
    """Something that goes into checkpoints: a loader, a scheduler, a scaler."""

    def state_dict(self) -> Mapping[str, Any]:
        """Tensors and plain values."""

    def load_state_dict(self, state: Mapping[str, Any], /) -> Any:
        """Go on from there."""


class DiLoCo:
    """A learner's model and inner optimiser, merged with its group's when it is told to.

    A context manager; inside it each `step` of the optimiser is reported, and an order that comes
    back is carried out before `step` returns. Trainable parameters are merged, each once;
    frozen ones and buffers stay this learner's own. The outer state is on the CPU.

    Args:
        model: any module, on any device; which parameters are trainable is read now.
        inner_optimizer: steps counted are its own; of several, those of the last.
        attachment: entered before.
        group: joined already, or whom to join on entering and to leave at the end.
        outer_lr: of the outer SGD.
        outer_momentum: Nesterov; 0 for none.
        compression: of pseudo-gradients on the wire: `none`, `bf16` or `int8`.
        fragments: how many parts of the model take turns, one a merge.
        fragment_sync_delay: inner steps behind which the exchange runs; below H_min.
        fragment_update_alpha: share of the local weights that stays when a fragment is merged.
        checkpoint: file that each merge writes before it is reported; None for none.
        stateful: what else belongs in it, by name, such as the data loader.
        measure: called after each step, returns what `report` would have been given.
        speed: seconds of event time in one of wall time, `RunClock.speed`.

    Attributes:
        steps: inner steps done.
        epoch: merges that the global weights have been through.
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
        checkpoint: Path | None = None,
        stateful: Mapping[str, Stateful] | None = None,
        measure: Callable[[], Mapping[str, Any]] | None = None,
        speed: float = 1.0,
    ) -> None:
        given = inner_optimizer
        self._optimizers = [given] if isinstance(given, Optimizer) else list(given)
        self._fresh = [copy.deepcopy(one.state_dict()["state"]) for one in self._optimizers]
        _check(fragment_sync_delay, fragment_update_alpha, attachment.corridor.min_gap_steps)
        self._model = model
        self._attachment = attachment
        self._peers = group if isinstance(group, Peers) else None
        self._group: Group = Solo() if isinstance(group, Peers) else group
        self._delay_steps = fragment_sync_delay
        self._checkpoint = checkpoint
        self._stateful = dict(stateful or {})
        self._measure = measure
        self._reported: dict[str, Any] = {}
        self._last_merge_step = 0
        self._hook: RemovableHandle | None = None
        self.steps = 0
        self.epoch = 0
        self.outer = OuterState(
            *(p for p in model.parameters() if p.requires_grad),
            lr=outer_lr,
            momentum=outer_momentum,
            fragments=fragments,
        )
        self._exchange = Exchange(compression, self.outer.weights)
        self._merger = Merger(
            attachment,
            self._group,
            self.outer,
            heal=self._heal,
            save=self._merged,
            exchange=self._exchange,
            keep=fragment_update_alpha,
            speed=speed,
        )

    @property
    def counts(self) -> MergeCounts:
        """What the merges came to so far."""
        return self._merger.counts

    def __enter__(self) -> "DiLoCo":
        if self._peers is not None:
            self._group = self._merger.group = self._peers.join(self.outer)
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
        # The others wait for this learner's word on an exchange that is under way.
        if exc is None and self._merger.under_way is not None:
            self._merger.end()
        if self._peers is not None:
            self._group.leave()

    def report(
        self, *, loss: float | torch.Tensor | None = None, tokens: int = 0, **other: float | None
    ) -> None:
        """What the step to come is about; call it before `optimizer.step()`.

        `tokens` is what this learner trained on in the step, and its weight in the next merge;
        `other` is what `Attachment.on_step` takes besides, such as `step_time_s`.
        """
        self._reported = {"loss": loss, "tokens": tokens, **other}

    def save(self, path: Path) -> int:
        """Write a checkpoint of everything; returns bytes.

        Raises `CheckpointError` when it cannot be written, or while an exchange runs behind the
        steps: what it will come to is not known yet.
        """
        if self._merger.under_way is not None:
            msg = f"cannot write the checkpoint {path} while an exchange is under way; save later"
            raise CheckpointError(msg)
        return write_checkpoint(path, self.state_dict())

    def load(self, path: Path) -> None:
        """Go on from a checkpoint, bit for bit; raises `InputError` when it does not fit."""
        state = read_checkpoint(path)
        try:
            self.load_state_dict(state)
        except (KeyError, ValueError, RuntimeError) as error:
            why = str(error).partition("\n")[0]
            msg = f"the checkpoint {path} is of another model or optimiser: {why}"
            raise InputError(msg) from error

    def state_dict(self) -> dict[str, Any]:
        """All that this learner needs to go on from here.

        Global and local weights, buffers, inner and outer optimiser, what int8 has not said yet,
        random generators, counts, and the `stateful`. The tensors are those in use: copy or write
        them before the next step.
        """
        return {
            "version": VERSION,
            "step": self.steps,
            "last_merge_step": self._last_merge_step,
            "epoch": self.epoch,
            "tokens": list(self._merger.tokens),
            "outer": self.outer.state_dict(),
            "exchange": self._exchange.state_dict(),
            "model": dict(self._model.state_dict()),
            "optimizers": [one.state_dict() for one in self._optimizers],
            "stateful": {name: dict(one.state_dict()) for name, one in self._stateful.items()},
            "random": random_state(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a `state_dict` of this learner; call it after entering the attachment."""
        if state["version"] != VERSION:
            msg = f"the checkpoint is of version {state['version']}; this learner reads {VERSION}"
            raise InputError(msg)
        if state["stateful"].keys() != self._stateful.keys():
            theirs, ours = (", ".join(sorted(s)) for s in (state["stateful"], self._stateful))
            msg = f"the checkpoint has stateful {theirs or 'nothing'}, this learner {ours}"
            raise InputError(msg)
        fragments = len(self.outer.spans)
        if len(state["tokens"]) != fragments:
            msg = f"the checkpoint has {len(state['tokens'])} fragments, this learner {fragments}"
            raise InputError(msg)
        self.outer.load_state_dict(state["outer"])
        self._exchange.load_state_dict(state["exchange"])
        self._model.load_state_dict(state["model"])
        for one, its in zip(self._optimizers, state["optimizers"], strict=True):
            one.load_state_dict(its)
        for name, its in state["stateful"].items():
            self._stateful[name].load_state_dict(its)
        restore_random_state(state["random"])
        self._merger.tokens = list(state["tokens"])
        self.steps, self.epoch = state["step"], state["epoch"]
        self._last_merge_step = state["last_merge_step"]
        self._attachment.joined(self.steps, self._last_merge_step, self.epoch)

    def _after_step(self) -> None:
        self.steps += 1
        said, self._reported = self._measure() if self._measure else self._reported, {}
        loss, tokens = said.get("loss"), int(said.get("tokens", 0))
        if isinstance(loss, torch.Tensor):
            loss = loss.item()
        other = {name: value for name, value in said.items() if name not in ("loss", "tokens")}
        order = self._attachment.on_step(self.steps, loss, tokens, **other)
        self._merger.trained(tokens)
        self._group.tell(self.steps, self._last_merge_step, self.epoch, self.outer.digest())
        if order is not None:
            self._begin(order)
        under_way = self._merger.under_way
        if under_way is not None and self.steps - under_way.step >= self._delay_steps:
            self._merger.end()

    def _begin(self, order: MergeOrder) -> None:
        if self._delay_steps:
            self._merger.begin(order, behind=True)
        else:
            self._merger.run(order)

    def _merged(self, order: MergeOrder) -> int | None:
        self.epoch, self._last_merge_step = order.epoch + 1, order.step
        if self._checkpoint is None:
            return None
        return write_checkpoint(self._checkpoint, self.state_dict())

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
