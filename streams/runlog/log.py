"""The run log: events and the Kafka offsets they came from, in one transaction."""

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from slackwater.events import Event
from streams.runlog import rows as own_rows
from streams.runlog.buffer import Batch, Buffer, Offsets, Source, unlogged
from streams.runlog.database import open_database
from streams.runlog.misfits import to_rows
from streams.runlog.server import QueryServer
from streams.runlog.store import Rows, Store


def wall_us() -> int:
    """Wall time in microseconds since the Unix epoch."""
    return time.time_ns() // 1000


class RunLog:
    """The one writer of a run log; opening it again goes on where the last commit ended.

    From an event loop, `take` and `written` on the loop and `write` on one executor thread between
    them are `commit` without its wait; `append` may go on meanwhile. A `write` whose `written` was
    never called, because its task was cancelled, is not written twice. While the log is open, a
    socket beside the file answers other processes' queries.

    Args:
        path: the DuckDB file; made if it does not exist.
        run_id: whose offsets are kept: a throw-away broker starts at offset 0 for each run.
        now_us: wall time, microseconds since the epoch.

    Attributes:
        misfits: events so far whose values fit no column; they are in `dead_letters` instead.

    Raises:
        InputError: the path cannot hold a run log.
        RunLogError: it is locked by another process, of another version, or the disk is full.
    """

    def __init__(
        self, path: Path | str, run_id: str = "live", now_us: Callable[[], int] = wall_us
    ) -> None:
        self.path = Path(path)
        self.run_id = run_id
        self.misfits = 0
        self._store = Store(open_database(self.path, now_us), self.path)
        # Two views of the same offsets: `_logged` belongs to whoever writes, the buffer's to
        # whoever appends, so neither thread waits for the other.
        self._logged = self._store.offsets(run_id)
        self._buffer = Buffer(self._logged)
        self._store.transaction(lambda: own_rows.fail_abandoned(self._store, run_id))
        self._server = QueryServer(self.path, self._store.connection)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def stored_offsets(self) -> dict[Source, int]:
        """For each (topic, partition) of this run, the first offset that is not in the log."""
        return self._buffer.stored

    def start_at(self, offsets: Offsets) -> None:
        """Store where a new run starts to read; a partition that has an offset keeps it.

        A process that is killed before its first commit then starts there again, not at what the
        end of the topic has become.
        """
        new = {s: o for s, o in offsets.items() if s not in self._buffer.stored}
        if new:
            self._store.transaction(lambda: self._store.set_offsets(self.run_id, new))
            self._buffer.done(new)

    def append(
        self,
        events: Sequence[Event],
        *,
        topic: str,
        partition: int,
        offset: int,
        extras: Mapping[int, Mapping[str, Any]] | None = None,
        late: Iterable[int] | None = None,
    ) -> bool:
        """Take the events of one Kafka message into memory; nothing is written before `commit`.

        Args:
            events: what the message held, of any types; empty is fine (its offset still counts).
            topic: full name of the topic.
            partition: its partition.
            offset: the message's offset.
            extras: index into `events` -> unknown fields, as `codec.Decoded.extras`.
            late: indexes into `events` of requests that came after their bin closed; None when
                the caller does not know.

        Returns:
            False when the message is in the log or waiting already: a repeat, left out.
        """
        return self._buffer.add(events, (topic, partition), offset, extras or {}, late)

    def commit(self, offsets: Offsets | None = None) -> int:
        """Write what was appended below `offsets`, and the offsets, in one transaction.

        `offsets` says for each (topic, partition) the first offset that is not to be in the log:
        one after the last message of an unbroken row. None takes the newest message of each
        partition, which is right when messages were appended in order. What lies above waits for
        a later commit. Returns the number of events written. Raises `RunLogError`; then nothing
        of this commit is in the log, and what was appended still waits.
        """
        batch = self.take(offsets)
        self.write(batch)
        self.written(batch)
        return batch.events

    def take(self, offsets: Offsets | None = None) -> Batch:
        """What `commit(offsets)` would write; memory only."""
        return self._buffer.ready(self._buffer.newest() if offsets is None else offsets)

    def write(self, batch: Batch) -> None:
        """Write a batch in one transaction; the only slow part. Raises `RunLogError`."""
        new = unlogged(batch, self._logged)
        if not new.offsets:
            return
        staged, misfits = to_rows(new.chunks, self._store.schemas)

        def write() -> None:
            self._store.insert(staged)
            self._store.set_offsets(self.run_id, new.offsets)

        self._store.transaction(write)
        self._logged.update(new.offsets)
        self.misfits += misfits

    def written(self, batch: Batch) -> None:
        """Note that `write(batch)` succeeded; memory only."""
        self._buffer.done(batch.offsets)

    def rows(self, query: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """All rows of a query on what is committed; raises `RunLogError`."""
        return self._store.rows(query, parameters)

    def start_run(self, run: own_rows.Run) -> None:
        """Write the row of a run with status `running`; an earlier row of that run is replaced."""
        self._store.transaction(lambda: own_rows.start(self._store, run))

    def finish_run(
        self, run_id: str, status: own_rows.Status, finished_us: int, reason: str | None = None
    ) -> None:
        """Set the end of a run: `complete` only after its last commit, else `failed` and why."""
        self._store.transaction(
            lambda: own_rows.finish(self._store, run_id, status, finished_us, reason)
        )

    def add_draws(self, draws: Sequence[own_rows.Draw]) -> None:
        """Write drawn schedules."""
        self._store.transaction(lambda: own_rows.add(self._store, "draws", draws))

    def add_verdicts(self, verdicts: Sequence[own_rows.Verdict]) -> None:
        """Write verdicts."""
        self._store.transaction(lambda: own_rows.add(self._store, "verdicts", verdicts))

    def add_rows(self, rows: Iterable[Rows]) -> None:
        """Write rows of any tables, made as they are written, in one transaction: all or none."""

        def write() -> None:
            for one in rows:
                self._store.insert([one])

        self._store.transaction(write)

    def close(self) -> None:
        """Stop answering queries, fold the write-ahead log into the file and close it.

        What was appended and not committed is dropped: its offsets are not stored, so it comes
        again. Raises `RunLogError` when the disk is full; what was committed is kept even then.
        """
        if self._server.close():
            self._store.close()
        else:
            # Closing would wait for the query. What is committed is safe in the write-ahead log.
            text = "%s: a query is still running; the log is left as it is, whole"
            logging.getLogger(__name__).warning(text, self.path)
