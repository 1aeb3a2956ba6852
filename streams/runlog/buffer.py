"""What waits to be committed: each Kafka message once, whatever the order it is delivered in."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from slackwater.events import Event
from streams.runlog.tables import Chunk, pick

Source = tuple[str, int]
"""A Kafka topic and one of its partitions."""

Offsets = Mapping[Source, int]
"""For each partition the first offset that is not in the log."""


class Batch(msgspec.Struct, frozen=True):
    """What one transaction writes: rows by event type, and the offsets they bring the log to."""

    chunks: Mapping[type[Event], Sequence[Chunk]]
    offsets: Mapping[Source, int]
    events: int


def unlogged(batch: Batch, logged: Offsets) -> Batch:
    """The part of `batch` that is not below `logged`, which says what the log holds."""
    chunks = {
        kind: [c for c in parts if c.offset >= logged.get((c.topic, c.partition), 0)]
        for kind, parts in batch.chunks.items()
    }
    kept = {kind: parts for kind, parts in chunks.items() if parts}
    forward = {s: o for s, o in batch.offsets.items() if o > logged.get(s, 0)}
    return Batch(kept, forward, sum(len(c.events) for parts in kept.values() for c in parts))


class Buffer:
    """Messages that are not in the log yet, by partition and offset.

    The log holds exactly the messages below the stored offset of their partition. So a message
    below it, or one that waits already, is a repeat and is left out; and a message at or above the
    offset being committed keeps waiting, or a crash would bring it twice.
    """

    def __init__(self, stored: Offsets) -> None:
        self._stored = dict(stored)
        self._waiting: dict[Source, dict[int, list[tuple[type[Event], Chunk]]]] = {}

    @property
    def stored(self) -> dict[Source, int]:
        """The offsets that the log is at."""
        return dict(self._stored)

    def add(
        self,
        batch: Sequence[Event],
        source: Source,
        offset: int,
        extras: Mapping[int, Mapping[str, Any]],
        late: Iterable[int] | None,
    ) -> bool:
        """Take the events of one message; False when the message is a repeat."""
        waiting = self._waiting.setdefault(source, {})
        if offset < self._stored.get(source, 0) or offset in waiting:
            return False
        flags = None if late is None else frozenset(late)
        waiting[offset] = list(_by_type(Chunk(*source, offset, batch, extras, flags)))
        return True

    def newest(self) -> dict[Source, int]:
        """The offsets after the newest message of each partition."""
        return {source: max(kept) + 1 for source, kept in self._waiting.items() if kept}

    def ready(self, offsets: Offsets) -> Batch:
        """All messages below `offsets`, which never move the log backwards."""
        forward = {s: o for s, o in offsets.items() if o > self._stored.get(s, 0)}
        chunks: dict[type[Event], list[Chunk]] = {}
        events = 0
        for source, end in forward.items():
            for offset, parts in self._waiting.get(source, {}).items():
                if offset < end:
                    for kind, chunk in parts:
                        chunks.setdefault(kind, []).append(chunk)
                        events += len(chunk.events)
        return Batch(chunks, forward, events)

    def done(self, offsets: Offsets) -> None:
        """`offsets` are in the log: forget the messages below them."""
        self._stored.update(offsets)
        for source, end in offsets.items():
            waiting = self._waiting.get(source, {})
            self._waiting[source] = {o: parts for o, parts in waiting.items() if o >= end}


def _by_type(message: Chunk) -> Iterable[tuple[type[Event], Chunk]]:
    kinds = set(map(type, message.events))
    if len(kinds) == 1:
        yield kinds.pop(), message
        return
    for kind in kinds:
        picked = [i for i, event in enumerate(message.events) if type(event) is kind]
        yield kind, pick(message, picked)
