"""Which table each event type goes to, and events as Arrow columns of that table."""

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from slackwater import events
from slackwater.events import Event

TABLES: Mapping[type[Event], str] = {
    events.Request: "requests",
    events.Load: "loads",
    events.Step: "learner_steps",
    events.Heartbeat: "heartbeats",
    events.Bins: "bins",
    events.Decision: "decisions",
    events.MergeCommand: "commands",
    events.Pause: "commands",
    events.Resume: "commands",
    events.MergeNow: "commands",
    events.Accepted: "merges",
    events.Started: "merges",
    events.Finished: "merges",
    events.Skipped: "merges",
    events.DeadLetter: "dead_letters",
}

_encoder = msgspec.json.Encoder()


class Chunk(msgspec.Struct, frozen=True):
    """Events of one type out of one Kafka message.

    Attributes:
        events: the events, all of one type.
        extras: index into `events` -> its unknown fields.
        late: indexes into `events` of those after their bin closed; None if nobody said.
    """

    topic: str
    partition: int
    offset: int
    events: Sequence[Event]
    extras: Mapping[int, Mapping[str, Any]]
    late: frozenset[int] | None


def pick(chunk: Chunk, indexes: Sequence[int]) -> Chunk:
    """The events at `indexes` alone, with what is known of them."""
    late = chunk.late
    return msgspec.structs.replace(
        chunk,
        events=[chunk.events[i] for i in indexes],
        extras={new: chunk.extras[i] for new, i in enumerate(indexes) if i in chunk.extras},
        late=None if late is None else frozenset(n for n, i in enumerate(indexes) if i in late),
    )


def to_arrow(kind: type[Event], chunks: Sequence[Chunk], schema: pa.Schema) -> pa.Table:
    """One Arrow table of all events of `chunks`, with those columns of `schema` that `kind` has.

    Raises `pyarrow.ArrowException`, `OverflowError` or `UnicodeEncodeError` when a value does not
    fit its column.
    """
    rows = [event for chunk in chunks for event in chunk.events]
    own: dict[str, Callable[[], Any]] = {
        "type": lambda: [kind.__struct_config__.tag] * len(rows),
        "topic_partition": lambda: _repeat(chunks, "partition"),
        "topic_offset": lambda: _repeat(chunks, "offset"),
        "extra": lambda: _extras(chunks),
        "late": lambda: _late(chunks),
    }
    columns = {}
    for field in schema:
        if field.name in kind.__struct_fields__:
            values = list(map(attrgetter(field.name), rows))
            columns[field.name] = pa.array(_plain(values, field.type), field.type)
        elif field.name in own:
            columns[field.name] = pa.array(own[field.name](), field.type)
    return pa.table(columns)


def _plain(values: list[Any], kind: pa.DataType) -> list[Any]:
    """Maps as pairs and structs as dicts, which is how Arrow reads them."""
    if pa.types.is_map(kind):
        return [list(value.items()) for value in values]
    if pa.types.is_nested(kind):
        return [msgspec.to_builtins(value) for value in values]
    return values


def _repeat(chunks: Sequence[Chunk], name: str) -> np.ndarray[Any, np.dtype[np.int64]]:
    values = np.array([getattr(chunk, name) for chunk in chunks], np.int64)
    return np.repeat(values, [len(chunk.events) for chunk in chunks])


def _extras(chunks: Sequence[Chunk]) -> list[str | None]:
    found: list[str | None] = []
    for chunk in chunks:
        texts: list[str | None] = [None] * len(chunk.events)
        for index, extra in chunk.extras.items():
            texts[index] = _encoder.encode(extra).decode()
        found += texts
    return found


def _late(chunks: Sequence[Chunk]) -> list[bool | None]:
    found: list[bool | None] = []
    for chunk in chunks:
        count = len(chunk.events)
        late = chunk.late
        found += [None] * count if late is None else [i in late for i in range(count)]
    return found
