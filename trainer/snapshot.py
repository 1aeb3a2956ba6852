"""All that a learner needs to go on, as one tree, and the file that it is kept in."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from torch import nn
from torch.optim import Optimizer

from slackwater.attach import Attachment
from slackwater.errors import InputError
from trainer.checkpoint import CheckpointError, read_checkpoint, refuse_special, write_checkpoint
from trainer.course import Course
from trainer.merge import Merger
from trainer.randomness import random_state, restore_random_state
from trainer.shared import Shared

VERSION = 3


class Stateful(Protocol):
    """Something that goes into checkpoints: a loader, a scheduler, a scaler."""

    def state_dict(self) -> Mapping[str, Any]:
        """Tensors and plain values."""

    def load_state_dict(self, state: Mapping[str, Any], /) -> Any:
        """Go on from there."""


class Snapshots:
    """Takes and restores everything of one learner.

    Args:
        model, optimizers: of the inner steps.
        attachment, merger, shared: the learner's.
        course: its steps.
        stateful: what else belongs in a snapshot, by name.
        path: file that `merged` and `in_time` write; None for none.
        every_steps: `in_time` writes after so many steps without a file; None for never.
    """

    def __init__(  # noqa: PLR0913
        self,
        model: nn.Module,
        optimizers: Sequence[Optimizer],
        attachment: Attachment,
        merger: Merger,
        shared: Shared,
        course: Course,
        *,
        stateful: Mapping[str, Stateful],
        path: Path | None,
        every_steps: int | None,
    ) -> None:
        _check(path, every_steps)
        self._model = model
        named = model.named_parameters(remove_duplicate=False)
        self._trainable = {name for name, one in named if one.requires_grad}
        self._optimizers = optimizers
        self._attachment = attachment
        self._merger = merger
        self._shared = shared
        self._course = course
        self._stateful = dict(stateful)
        self._path = path
        self._every_steps = every_steps
        self._saved_step = 0

    def merged(self) -> int | None:
        """Write the file of a merge; returns bytes, None when there is to be none."""
        if self._path is None:
            return None
        return self._write(self._path, whole=not self._merger.levels)

    def in_time(self) -> None:
        """Write the file when it is time for one between merges."""
        if self._every_steps is None or self._path is None or self._merger.under_way is not None:
            return
        if self._course.steps - self._saved_step >= self._every_steps:
            self._write(self._path)

    def save(self, path: Path) -> int:
        """Write a file now; returns bytes. Raises `CheckpointError`."""
        if self._merger.under_way is not None:
            msg = f"cannot write the checkpoint {path} while an exchange is under way; save later"
            raise CheckpointError(msg)
        return self._write(path)

    def load(self, path: Path) -> None:
        """Go on from a file; raises `InputError` when it does not fit."""
        state = read_checkpoint(path)
        try:
            self.restore(state)
        except (KeyError, ValueError, RuntimeError) as error:
            why = str(error).partition("\n")[0]
            msg = f"the checkpoint {path} is of another model or optimiser: {why}"
            raise InputError(msg) from error

    def take(self, *, whole: bool = True) -> dict[str, Any]:
        """The tree; its tensors are those in use.

        Not `whole`: trainable parameters are left out of `model`, for they are the global ones.
        """
        model = dict(self._model.state_dict())
        if not whole and self._trainable <= model.keys():
            model = {name: one for name, one in model.items() if name not in self._trainable}
        return {
            "version": VERSION,
            "step": self._course.steps,
            "last_merge_step": self._shared.last_merge_step,
            "retry_step": self._attachment.retry_step,
            "epoch": self._shared.epoch,
            "tokens": list(self._merger.tokens),
            "outer": self._merger.outer.state_dict(),
            "exchange": self._merger.exchange.state_dict(),
            "model": model,
            "optimizer_kinds": [_kind(one) for one in self._optimizers],
            "optimizers": [one.state_dict() for one in self._optimizers],
            "stateful": {name: dict(one.state_dict()) for name, one in self._stateful.items()},
            "random": random_state(),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a tree of this learner's."""
        self._check(state)
        merger = self._merger
        with self._shared.lock:
            merger.outer.load_state_dict(state["outer"])
        merger.exchange.load_state_dict(state["exchange"])
        self._restore_model(state["model"])
        for one, its in zip(self._optimizers, state["optimizers"], strict=True):
            one.load_state_dict(its)
        for name, its in state["stateful"].items():
            self._stateful[name].load_state_dict(its)
        restore_random_state(state["random"])
        merger.tokens = list(state["tokens"])
        self._course.resume(
            state["step"], state["last_merge_step"], state["epoch"], state["retry_step"]
        )
        self._saved_step = self._course.steps

    def _write(self, path: Path, *, whole: bool = True) -> int:
        size = write_checkpoint(path, self.take(whole=whole))
        if path == self._path:
            self._saved_step = self._course.steps
        return size

    def _check(self, state: Mapping[str, Any]) -> None:
        if state["version"] != VERSION:
            msg = f"the checkpoint is of version {state['version']}; this learner reads {VERSION}"
            raise InputError(msg)
        kinds = [_kind(one) for one in self._optimizers]
        if state["optimizer_kinds"] != kinds:
            theirs, ours = (", ".join(one) for one in (state["optimizer_kinds"], kinds))
            msg = f"the checkpoint has the inner optimisers {theirs}; this learner {ours}"
            raise InputError(msg)
        if state["stateful"].keys() != self._stateful.keys():
            theirs, ours = (", ".join(sorted(s)) for s in (state["stateful"], self._stateful))
            msg = f"the checkpoint has stateful {theirs or 'nothing'}, this learner {ours}"
            raise InputError(msg)
        fragments = len(self._merger.outer.spans)
        if len(state["tokens"]) != fragments:
            msg = f"the checkpoint has {len(state['tokens'])} fragments, this learner {fragments}"
            raise InputError(msg)

    def _restore_model(self, given: Mapping[str, Any]) -> None:
        levelled = self._trainable.isdisjoint(given)
        own = self._model.state_dict() if levelled else {}
        kept = {name: one for name, one in own.items() if name in self._trainable}
        self._model.load_state_dict({**kept, **given})
        if levelled:
            self._merger.outer.restore()


def _kind(optimizer: Optimizer) -> str:
    """Class and size of each parameter group: what its state means hangs on them."""
    sizes = [len(group["params"]) for group in optimizer.param_groups]
    return f"{type(optimizer).__name__} of {' + '.join(map(str, sizes))} parameters"


def _check(path: Path | None, every_steps: int | None) -> None:
    if path is not None:
        refuse_special(path)
    if every_steps is None:
        return
    if every_steps < 1:
        msg = f"checkpoint_every_steps is {every_steps}; it must be 1 or more, or None"
        raise InputError(msg)
    if path is None:
        msg = "checkpoint_every_steps needs the checkpoint, the file to write"
        raise InputError(msg)
