"""The job's run log: DuckDB behind the two calls that the job and the shipper make."""

import asyncio
import time
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec

from slackwater.events import Bins, Decision, MergeCommand
from slackwater.settings import RunSettings
from slackwater.topics import BINS, COMMANDS, DECISIONS
from streams.job import Message
from streams.metrics import Metrics
from streams.ours import Ours
from streams.runlog.log import RunLog
from streams.runlog.tables import TABLES

RESENT = (BINS, DECISIONS, COMMANDS)
KEPT_TICKS = 100_000


class DuckDBLog:
    """Buffers messages on the event loop's thread, and writes them on one of its own.

    What this job sent again after a crash is left out: a decision is known by its policy and
    tick, a command by its merge_id, bins by the times up to which they are complete.
    """

    def __init__(self, log: RunLog, run: RunSettings, metrics: Metrics) -> None:
        self._log = log
        self._prefix = run.prefix
        self._ours = Ours(run)
        self._metrics = metrics
        self._thread = ThreadPoolExecutor(1, "run-log")
        self._stored = log.stored_offsets()
        ours = [log.run_id, run.group]
        self._decided_us: dict[str, int] = dict(
            log.rows(
                "SELECT policy, max(at_us) FROM decisions "
                'WHERE run_id = ? AND "group" = ? GROUP BY policy',
                ours,
            )
        )
        self._ticks: OrderedDict[tuple[str, int], None] = OrderedDict()
        self._closed_us: dict[str, int] = dict(
            log.rows(
                "SELECT sidecar, max(mark) FROM (SELECT unnest(map_keys(watermarks_us)) AS sidecar,"
                " unnest(map_values(watermarks_us)) AS mark FROM bins"
                ' WHERE run_id = ? AND "group" = ?) GROUP BY 1',
                ours,
            )
        )
        self._commanded: set[str] = {
            merge_id
            for (merge_id,) in log.rows(
                "SELECT merge_id FROM commands "
                'WHERE run_id = ? AND "group" = ? AND merge_id IS NOT NULL',
                ours,
            )
        }

    def stored(self, topic: str, partition: int) -> int:
        """The next offset wanted of a partition: everything before it is in the log."""
        return self._stored.get((topic, partition), 0)

    def append(
        self,
        message: Message,
        events: Any,
        extras: dict[int, dict[str, Any]],
        late: frozenset[int] | None,
    ) -> None:
        """Buffer the events of one message for the next commit."""
        if message.topic in RESENT:
            new = [self._news(e) if self._ours(e) else e for e in events]
            news = [(i, event) for i, event in enumerate(new) if event is not None]
            extras = {new: extras[i] for new, (i, _) in enumerate(news) if i in extras}
            events = [event for _, event in news]
        self._log.append(
            events,
            topic=message.topic.name(self._prefix),
            partition=message.partition,
            offset=message.offset,
            extras=extras,
            late=late,
        )

    async def commit(self) -> int:
        """Write what is buffered now, off the event loop; returns the events written.

        Raises `RunLogError`; then nothing of it is in the log.
        """
        started = time.perf_counter()
        batch = self._log.take()
        await asyncio.get_running_loop().run_in_executor(self._thread, self._log.write, batch)
        self._log.written(batch)
        self._stored.update(batch.offsets)
        if batch.events:
            self._metrics.observe("commit_seconds", time.perf_counter() - started)
            for kind, chunks in batch.chunks.items():
                self._metrics.count("rows", sum(len(c.events) for c in chunks), table=TABLES[kind])
        return batch.events

    def _news(self, event: Any) -> Any:
        """The event as far as it is not in the log yet; None if it is."""
        match event:
            case Decision():
                if not self._is_new_tick(event):
                    return None
            case Bins():
                return self._new_bins(event)
            case MergeCommand():
                if event.merge_id in self._commanded:
                    return None
                self._commanded.add(event.merge_id)
        return event

    def _is_new_tick(self, decision: Decision) -> bool:
        """False for a tick that was logged before a crash, or has come since."""
        tick = (decision.policy, decision.at_us)
        if decision.at_us <= self._decided_us.get(decision.policy, 0) or tick in self._ticks:
            return False
        self._ticks[tick] = None
        if len(self._ticks) > KEPT_TICKS:
            self._ticks.popitem(last=False)
        return True

    def _new_bins(self, bins: Bins) -> Bins | None:
        before, marks = dict(self._closed_us), bins.watermarks_us
        if all(us <= before.get(name, 0) for name, us in marks.items()):
            return None
        self._closed_us.update(marks)
        rows = [row for row in bins.rows if row.start_us >= before.get(row.sidecar, 0)]
        return bins if len(rows) == len(bins.rows) else msgspec.structs.replace(bins, rows=rows)
