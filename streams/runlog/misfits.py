"""Rows for the tables, and events that fit no column kept as dead letters instead.

The schema bounds no integer, but a column has 64 bits: one such event must not stop the log.
"""

from collections.abc import Mapping, Sequence

import msgspec
import pyarrow as pa

from slackwater.codec import encode
from slackwater.events import DeadLetter, Event
from streams.runlog.store import Rows
from streams.runlog.tables import TABLES, Chunk, pick, to_arrow

_MISFIT = (pa.ArrowException, OverflowError, UnicodeEncodeError)


def to_rows(
    chunks: Mapping[type[Event], Sequence[Chunk]], schemas: Mapping[str, pa.Schema]
) -> tuple[list[Rows], int]:
    """The rows of every table, and how many events became dead letters because they do not fit."""
    rows: list[Rows] = []
    dead: list[Chunk] = []
    for kind, parts in chunks.items():
        table = TABLES[kind]
        try:
            rows.append((table, to_arrow(kind, parts, schemas[table])))
        except _MISFIT:
            fit, unfit = _sift(kind, parts, schemas[table])
            dead += unfit
            if fit:
                rows.append((table, to_arrow(kind, fit, schemas[table])))
    if dead:
        rows.append(("dead_letters", to_arrow(DeadLetter, dead, schemas["dead_letters"])))
    return rows, len(dead)


def _sift(
    kind: type[Event], chunks: Sequence[Chunk], schema: pa.Schema
) -> tuple[list[Chunk], list[Chunk]]:
    fit, unfit = [], []
    for one in (pick(chunk, [i]) for chunk in chunks for i in range(len(chunk.events))):
        try:
            to_arrow(kind, [one], schema)
        except _MISFIT as error:
            unfit.append(msgspec.structs.replace(one, events=[_dead(one, error)], extras={}))
        else:
            fit.append(one)
    return fit, unfit


def _dead(chunk: Chunk, error: Exception) -> DeadLetter:
    event = chunk.events[0]
    return DeadLetter(
        run_id=event.run_id,
        at_us=event.at_us,
        raw=encode(event),
        error=f"a value fits no column of the run log: {error}",
        topic=chunk.topic,
        partition=chunk.partition,
        offset=chunk.offset,
    )
