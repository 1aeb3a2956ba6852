"""When a message may be acknowledged to Kafka: once nothing of it would be lost by a crash."""

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from controller.counting import PartitionCounter

MAX_UNCOMMITTED_EVENTS = 200_000
HOLD_S = 10.0

Commit = Callable[[], Awaitable[int]]


class Shipper:
    """Holds what is uncommitted: commits it in the background and acknowledges it after."""

    def __init__(self, commit: Commit | None, commit_s: float) -> None:
        self._commit = commit
        self._commit_s = commit_s
        self._waiting: list[tuple[Any, Any]] = []
        self._room = asyncio.Event()
        self._room.set()
        self._events = 0

    async def add(self, stream: Any, event: Any, size: int) -> None:
        """Take one handled message; waits while too much is uncommitted."""
        if self._commit is None:
            await stream.ack(event)
            return
        self._waiting.append((stream, event))
        self._events += size
        if self._events > MAX_UNCOMMITTED_EVENTS:
            self._room.clear()
            await self._room.wait()

    async def ship(self) -> None:
        """Commit once, then acknowledge what that commit holds."""
        waiting, self._waiting = self._waiting, []
        self._events = 0
        if self._commit is not None:
            await self._commit()
        for stream, event in waiting:
            await stream.ack(event)
        self._room.set()

    async def run(self, stopping: asyncio.Event) -> None:
        """Commit every `commit_s` until told to stop; never ends between a write and its acks."""
        while not stopping.is_set():
            started = time.monotonic()
            await self.ship()
            rest_s = max(0.0, self._commit_s - (time.monotonic() - started))
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stopping.wait(), rest_s)


@dataclass(frozen=True, slots=True)
class _Held:
    stream: Any
    event: Any
    sidecar: str
    newest_us: int
    since_s: float


class BinHold:
    """Holds the acknowledgement of requests until the bins they are in have been sent.

    For a process that counts and keeps no log: killed, it reads what was in its open bins again,
    and the decision stage knows bins that it has seen before. A sidecar that falls silent never
    closes its last bins; its messages are let go after 10 s of wall time.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._held: dict[int, deque[_Held]] = {}

    async def add(self, stream: Any, event: Any, counter: PartitionCounter | None) -> None:
        """Take one counted message, and acknowledge those whose bins are closed."""
        sidecar = (event.key or b"").decode(errors="replace")
        newest_us = counter.newest_us(sidecar) if counter is not None else None
        if counter is None or newest_us is None:
            await stream.ack(event)
            return
        held = self._held.setdefault(counter.partition, deque())
        held.append(_Held(stream, event, sidecar, newest_us, self._monotonic()))
        while held and self._may_go(held[0], counter):
            first = held.popleft()
            await first.stream.ack(first.event)

    def _may_go(self, held: _Held, counter: PartitionCounter) -> bool:
        closed_us = counter.closed_us(held.sidecar)
        if closed_us is not None and closed_us > held.newest_us:
            return True
        return self._monotonic() - held.since_s > HOLD_S
