"""After a crash: the state of counting and deciding, from the run log.

The log holds every event up to its stored offsets, in the same transaction as those offsets; so
folding its events through the same code gives the state that the process had when it committed
last. Kafka then delivers what came after. Decisions that were logged are made again in silence;
those that were not are made and sent. A log is of one merge group; what an older log holds of
others is left out.
"""

from collections.abc import Iterator
from typing import Any, TypeVar

import msgspec

from controller.counting import PartitionCounter
from slackwater.errors import InputError
from slackwater.events import (
    Accepted,
    Bins,
    Event,
    Finished,
    Heartbeat,
    Load,
    MergeNow,
    Pause,
    Request,
    Resume,
    Skipped,
    Started,
    Step,
)
from streams.runlog.log import RunLog
from streams.runlog.tables import TABLES
from streams.stage import DecisionStage

E = TypeVar("E", bound=Event)

OF_LEARNERS: tuple[type[Step | Heartbeat], ...] = (Step, Heartbeat)
DECIDED_ON: tuple[type[Event], ...] = (
    Bins,
    *OF_LEARNERS,
    *(Accepted, Started, Finished, Skipped),
    *(Pause, Resume, MergeNow),
)


def check_group(log: RunLog, group: str) -> None:
    """Raise `InputError` where the log's run is of another merge group."""
    query = "SELECT settings->>'$.stream.run.group' FROM runs WHERE run_id = ?"
    for (logged_group,) in log.rows(query, [log.run_id]):
        if logged_group not in {None, group}:
            msg = (
                f"{log.path} is the run log of run {log.run_id!r}, group {logged_group!r}; this "
                f"job serves group {group!r}; give each group a log of its own by --db, or set "
                "SLACKWATER_GROUP"
            )
            raise InputError(msg)


def logged(log: RunLog, kind: type[E], group: str, where: str = "true") -> Iterator[tuple[int, E]]:
    """Every event of one type in this run, with the partition it came from, in offset order.

    Of types that name a group, those of `group` and those that left it open.
    """
    for (partition, _), event in _placed(log, kind, group, where):
        yield partition, event


def _placed(
    log: RunLog, kind: type[E], group: str, where: str = "true"
) -> Iterator[tuple[tuple[int, int], E]]:
    """The same, with the partition and offset."""
    names = [f'"{name}"' for name in kind.__struct_fields__]
    table, tag = TABLES[kind], kind.__struct_config__.tag
    of_type = f"\"type\" = '{tag}'" if table in {"merges", "commands"} else "true"
    of_group = 'coalesce("group", $2) = $2' if "group" in kind.__struct_fields__ else "$2 = $2"
    rows = log.rows(
        f"SELECT topic_partition, topic_offset, {', '.join(names)} "  # noqa: S608 - our own names
        f"FROM {table} WHERE run_id = $1 AND {of_type} AND {of_group} AND ({where}) "
        "ORDER BY topic_partition, topic_offset",
        [log.run_id, group],
    )
    for partition, offset, *values in rows:
        fields = dict(zip(kind.__struct_fields__, values, strict=True))
        yield (partition, offset), msgspec.convert(fields, kind)


def _heard_of_learners(log: RunLog, group: str) -> list[Step | Heartbeat]:
    """Steps and heartbeats as they were on their topic, of two tables.

    A learner is taken to have started anew where it has sent fewer reports than before: all steps
    and then all heartbeats would look like that. Of one message, the reports sent give the order.
    """
    placed = [pair for kind in OF_LEARNERS for pair in _placed(log, kind, group)]
    placed.sort(key=lambda pair: (pair[0], pair[1].reports_sent or 0, pair[1].at_us))
    return [event for _, event in placed]


def restore_stage(log: RunLog, stage: DecisionStage, group: str) -> None:
    """Bring a new decision stage to where the logged one was."""
    for event in _heard_of_learners(log, group):
        stage.observe(event)
    for kind in (kind for kind in DECIDED_ON if kind not in OF_LEARNERS):
        for _, other in logged(log, kind, group):
            stage.observe(other)
    [(decided_us,)] = log.rows(
        'SELECT max(at_us) FROM decisions WHERE run_id = ? AND "group" = ?', [log.run_id, group]
    )
    if decided_us is not None:
        stage.skip_to(decided_us)


def restore_counters(
    log: RunLog, group: str, bin_s: float, lateness_s: float
) -> dict[int, PartitionCounter]:
    """Counters that hold the open bins: what was logged and is in no closed bin yet."""
    closed: dict[int, dict[str, int]] = {}
    for _, bins in logged(log, Bins, group):
        closed.setdefault(bins.partition, {}).update(bins.watermarks_us)
    counters: dict[int, PartitionCounter] = {}
    oldest_us = min((us for marks in closed.values() for us in marks.values()), default=0)
    events: list[tuple[int, Any]] = [
        pair
        for kind, counted in ((Request, "late IS NOT TRUE"), (Load, "true"))
        for pair in logged(log, kind, group, f"at_us >= {oldest_us} AND {counted}")
    ]
    for partition in {*closed, *(partition for partition, _ in events)}:
        counter = PartitionCounter(partition, bin_s, lateness_s, closed.get(partition))
        counter.add([event for p, event in events if p == partition])
        counters[partition] = counter
    return counters
