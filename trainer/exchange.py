"""The group's weighted mean of pseudo-gradients, as float32, bfloat16 or int8 on the wire."""

from collections.abc import Mapping, Sequence
from typing import Literal, get_args

import torch

from slackwater.errors import InputError
from trainer.cards import Group
from trainer.compress import from_int8, to_int8

Compression = Literal["none", "bf16", "int8"]


class Exchange:
    """Averages over the group.

    `none` and `bf16` scale by the own share and add up; the sum is made in the type that is sent.
    `int8` sends all to all and adds up in the order of the ranks, in the vector's own type: a sum
    of int8 could overflow, and this one is the same on every rank. What int8 could not say is
    kept and said next time (error feedback, Seide et al. 2014; Karimireddy et al. 2019,
    arXiv:1901.09847), so that errors do not pile up:

        sent_k = Q(delta_k + rest_k),    rest_k+1 = delta_k + rest_k - sent_k

    Args:
        compression: of what is sent.
        like: the whole vector; its shape and type.

    Attributes:
        rest: what was not said yet, of the shape of `like`; None unless `int8`.
    """

    def __init__(self, compression: Compression, like: torch.Tensor) -> None:
        if compression not in get_args(Compression):
            allowed = ", ".join(get_args(Compression))
            msg = f"compression is {compression!r}; it must be one of {allowed}"
            raise InputError(msg)
        self.compression = compression
        self.rest = torch.zeros_like(like) if compression == "int8" else None
        self._next: tuple[slice, torch.Tensor] | None = None

    def mean(
        self, delta: torch.Tensor, span: slice, shares: Sequence[float], own: int, group: Group
    ) -> int:
        """Turn `delta`, this learner's, into the group's mean in place; returns bytes sent.

        `span` is where it lies in the whole vector, `own` this learner's place among the shares,
        which are by rank. Raises `MergeRefusedError`, and then `rest` is as it was.
        """
        if not shares[own]:
            delta.zero_()
        if self.rest is not None:
            return self._by_int8(delta, self.rest[span], span, shares, own, group)
        delta *= shares[own]
        sent = delta.to(torch.bfloat16) if self.compression == "bf16" else delta
        group.sum(sent)
        delta.copy_(sent)
        return sent.numel() * sent.element_size()

    def commit(self) -> None:
        """The merge is done by all: what was sent needs not be said again."""
        if self.rest is not None and self._next is not None:
            span, rest = self._next
            self.rest[span] = rest
        self._next = None

    def forget(self) -> None:
        """This learner has taken other weights: what it left unsaid was about its own."""
        if self.rest is not None:
            self.rest.zero_()
        self._next = None

    def state_dict(self) -> dict[str, torch.Tensor]:
        """This learner's own `rest`, when it has one."""
        return {} if self.rest is None else {"rest": self.rest}

    def load_state_dict(self, state: Mapping[str, torch.Tensor]) -> None:
        """Take `rest` over; from a run without it, or without need of it, there is nothing to."""
        if self.rest is not None and "rest" in state:
            self.rest.copy_(state["rest"])

    def _by_int8(
        self,
        delta: torch.Tensor,
        rest: torch.Tensor,
        span: slice,
        shares: Sequence[float],
        own: int,
        group: Group,
    ) -> int:
        self._next = None
        if shares[own]:
            delta += rest
        message = to_int8(delta)
        if shares[own]:
            self._next = span, delta - from_int8(message, delta)
        messages = group.gather(message)
        delta.zero_()
        for share, other in zip(shares, messages, strict=True):
            if share:
                delta.add_(from_int8(other, delta), alpha=share)
        return message.numel()
