"""What the callbacks have in common: a learner that merges while a training loop runs."""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from torch import nn
from torch.optim import Optimizer

from slackwater.attach import Attachment
from slackwater.errors import InputError
from trainer.cards import Group
from trainer.diloco import DiLoCo
from trainer.peers import Peers


class Membership:
    """A `DiLoCo` that begins when a training loop does, and ends with it or with the `with` block.

    Args:
        attachment: entered by the caller.
        group: joined already, or whom to join when the training loop begins.
        options: `DiLoCo`'s own, such as `outer_lr`, `compression`, `checkpoint` and `speed`.

    Attributes:
        diloco: the learner, None before the training loop has begun.
    """

    def __init__(self, attachment: Attachment, group: Group | Peers, **options: Any) -> None:
        super().__init__()
        self._attachment = attachment
        self._group = group
        self._options = options
        self._stack = contextlib.ExitStack()
        self.diloco: DiLoCo | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stack.__exit__(exc_type, exc, traceback)

    def begin(
        self,
        model: nn.Module,
        optimizers: Sequence[Optimizer],
        processes: int,
        measure: Callable[[], Mapping[str, Any]],
    ) -> None:
        """Join the group and merge from here on.

        Raises `InputError` when this learner is one of several processes, or when its loop has
        begun before, and what joining raises.
        """
        if processes != 1:
            msg = f"this learner has {processes} processes; only one of one process can be attached"
            raise InputError(msg)
        if self.diloco is not None:
            msg = "this callback has been through a training loop; make a new one for the next"
            raise InputError(msg)
        self.diloco = DiLoCo(
            model, optimizers, self._attachment, self._group, measure=measure, **self._options
        )
        self._stack.enter_context(self.diloco)

    def end(self) -> None:
        """The training loop has come to its end: no merges from here on."""
        self._stack.close()
