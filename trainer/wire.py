"""Gloo between the members of one generation; thrown away on the first failure."""

import os
import queue
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import PrefixStore  # type: ignore[attr-defined]

from trainer.meeting import Meeting, is_loopback
from trainer.pulse import Link
from trainer.rounds import Round

LOOK_AGAIN_S = 0.0005
CONNECT_LOOK_S = 0.005
# What is under way when the process is told to end has this long to be done.
LAST_EXCHANGE_S = 1.0

Stopping = Callable[[], bool]


class WireError(Exception):
    """The members are not connected, or not any more."""


class Wire:
    """Connections between the members of one generation.

    All calls return by a deadline on the monotonic clock, or raise `WireError`; after that the
    wire is of no use, and `cut` it.

    Attributes:
        generation: of the members.
        slots: theirs, in order.
        link: to the store that numbered them.
    """

    def __init__(self, gloo: Any, link: Link, generation: int, slots: tuple[int, ...]) -> None:
        self._gloo = gloo
        self.link = link
        self.generation = generation
        self.slots = slots

    def sum(self, vector: torch.Tensor, deadline_s: float, stopping: Stopping) -> None:
        """Add up over all members, in place.

        The exchange works on a copy: one that is given up may still be written to by gloo.
        """
        copy = vector.clone()
        self._exchange(lambda: self._gloo.allreduce([copy]), deadline_s, stopping)
        vector.copy_(copy)

    def gather(
        self, vector: torch.Tensor, deadline_s: float, stopping: Stopping
    ) -> list[torch.Tensor]:
        """The vectors of all members, in the order of their slots."""
        copy = vector.clone()
        found = [torch.empty_like(vector) for _ in self.slots]
        self._exchange(lambda: self._gloo.allgather([found], [copy]), deadline_s, stopping)
        return found

    def _exchange(
        self, begin: Callable[[], dist.Work], deadline_s: float, stopping: Stopping
    ) -> None:
        try:
            work = begin()
            patience = _Patience(deadline_s, stopping)
            while not work.is_completed():
                patience.check("the exchange")
                time.sleep(LOOK_AGAIN_S)
            work.wait()
        except RuntimeError as error:
            msg = f"in the exchange: {_first_line(error)}"
            raise WireError(msg) from error

    def cut(self) -> None:
        """Give it up; gloo waits for what is under way, so it does that elsewhere.

        No daemon: a process that ended in the middle of it would be aborted by the C++ runtime.
        It lasts no longer than gloo's own time-out.
        """
        bin_: list[Any] = [self._gloo]
        self._gloo = None
        threading.Thread(target=bin_.clear, name="cut wire").start()


def connect(meeting: Meeting, current: Round, timeout_s: float, stopping: Stopping) -> Wire:
    """Connect the members of a round; raises `WireError` when one does not come."""
    if is_loopback(meeting.host):
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    done: queue.SimpleQueue[Any] = queue.SimpleQueue()
    rank = current.slots.index(current.link.slot)

    def work() -> None:
        try:
            # A connection of its own: gloo waits in the store, and nobody else should behind it.
            room = PrefixStore(f"gloo/{current.generation}", meeting.store())
            patience = timedelta(seconds=timeout_s)
            done.put(dist.ProcessGroupGloo(room, rank, len(current.slots), patience))
        except Exception as error:
            # Whatever it is: who waits for this thread must not wait in vain.
            done.put(error)

    threading.Thread(target=work, name="connect").start()
    patience = _Patience(current.deadline_s, stopping)
    while done.empty():
        patience.check("connecting")
        time.sleep(CONNECT_LOOK_S)
    found = done.get()
    if isinstance(found, Exception):
        msg = f"connecting: {_first_line(found)}"
        raise WireError(msg)
    return Wire(found, current.link, current.generation, current.slots)


class _Patience:
    def __init__(self, deadline_s: float, stopping: Stopping) -> None:
        self._deadline_s = deadline_s
        self._stopping = stopping
        self._told_s: float | None = None

    def check(self, what: str) -> None:
        now_s = time.monotonic()
        if now_s > self._deadline_s:
            msg = f"{what} took too long"
            raise WireError(msg)
        if self._stopping():
            self._told_s = self._told_s or now_s
            if now_s - self._told_s > LAST_EXCHANGE_S:
                msg = f"{what} did not end before this learner had to"
                raise WireError(msg)


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0][:120] or type(error).__name__
