"""Members of a group as threads of one process."""

import time
from collections.abc import Callable, Mapping
from typing import Any

import torch

from trainer.group import GlooGroup
from trainer.handover import SharedState
from trainer.meeting import Meeting

PATIENCE_S = 80.0
NOTHING = SharedState(
    epoch=0, step=0, last_merge_step=0, digest="", tensors={"weights": torch.zeros(1)}
)


def new_group(
    port: int,
    room: str,
    name: str,
    *,
    quorum: int,
    timeout_s: float = 30.0,
    stopping: Callable[[], bool] = lambda: False,
    read: Callable[[], SharedState] = lambda: NOTHING,
) -> GlooGroup:
    """One member, which meets the others of its room at this port."""
    return GlooGroup(
        Meeting("127.0.0.1", port, room),
        name,
        "",
        read,
        quorum=quorum,
        timeout_s=timeout_s,
        stopping=stopping,
    )


def until(what: Callable[[], bool]) -> None:
    """Wait for something that is bound to happen."""
    deadline = time.monotonic() + PATIENCE_S
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def equal(one: Any, other: Any) -> bool:
    """Trees of tensors and plain values, bit for bit."""
    if isinstance(one, torch.Tensor):
        return one.dtype is other.dtype and torch.equal(one, other)
    if isinstance(one, Mapping):
        return one.keys() == other.keys() and all(equal(one[k], other[k]) for k in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(equal, one, other))
    return bool(one == other)
