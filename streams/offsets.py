"""Where a stream process starts to read, and what its consumer left out.

It starts at the run log's offsets, not the consumer group's.
"""

import logging
import time
from collections.abc import Iterable, Mapping
from urllib.parse import quote

from kafka import KafkaConsumer, TopicPartition
from kafka.errors import KafkaError
from kafka.structs import OffsetAndMetadata

from slackwater.errors import BrokerError, RunLogError
from slackwater.settings import RunSettings
from slackwater.topics import Topic
from slackwater.transport import FETCH_WAIT_MS, reader

PROBE_MS = 2000
READ_AGAIN_S = 2.0
READ_AGAIN_MS = 50

Offsets = dict[tuple[str, int], int]

log = logging.getLogger(__name__)


def starting_offsets(
    run: RunSettings, topics: Iterable[Topic], stored: Mapping[tuple[str, int], int], reset: str
) -> Offsets:
    """For each partition of `topics`: what the log says, else the end or start of the topic.

    Raises `BrokerError` when the broker or a topic is not there, and `RunLogError` when the log
    has read further than the topic goes: then it comes from another broker. Messages that the
    topic no longer keeps are named in a warning.
    """
    consumer = reader(run.bootstrap, topics, run.prefix, from_start=reset == "earliest")
    try:
        found = {}
        oldest = consumer.beginning_offsets(list(consumer.assignment()))
        for tp in sorted(consumer.assignment()):
            offset = stored.get((tp.topic, tp.partition))
            if offset is None:
                offset = consumer.position(tp)
            elif offset < oldest[tp]:
                lost = "%s[%d]: messages %d to %d are gone; the log has a gap there"
                log.warning(lost, tp.topic, tp.partition, offset, oldest[tp] - 1)
                offset = oldest[tp]
            found[tp.topic, tp.partition] = offset
        _check_reach(consumer, found)
        return found
    finally:
        consumer.close()


def _check_reach(consumer: KafkaConsumer, offsets: Offsets) -> None:
    """Raise `RunLogError` where the message before a stored offset is not in the topic.

    A broker's word for the end of a topic can lag behind what it has acknowledged, so the message
    itself is asked for.
    """
    partitions = {TopicPartition(t, p): offset for (t, p), offset in offsets.items()}
    ends = consumer.end_offsets(list(partitions))
    for tp, offset in partitions.items():
        if offset <= ends[tp]:
            continue
        consumer.assign([tp])
        consumer.seek(tp, offset - 1)
        if not consumer.poll(timeout_ms=PROBE_MS, max_records=1).get(tp):
            msg = (
                f"the run log is at message {offset} of {tp.topic}[{tp.partition}], which ends at "
                f"{ends[tp]}: it was written with another broker; name another --db, or another "
                "run by SLACKWATER_RUN_ID"
            )
            raise RunLogError(msg)


def consumer_group(run: RunSettings, roles: Iterable[str]) -> str:
    """The Kafka consumer group of the processes with these roles, for this run and merge group.

    Names are quoted, so that no two runs or merge groups ever share one, and with it partitions:
    group `a` of run `b/c` is not group `a/b` of run `c`.
    """
    names = (run.prefix, run.group, run.run_id, "-".join(roles))
    return "/".join(quote(name, safe="") for name in names)


def place_group(run: RunSettings, group_id: str, offsets: Offsets) -> None:
    """Commit `offsets` for a consumer group that has no members yet; raises `BrokerError`."""
    try:
        consumer = KafkaConsumer(
            bootstrap_servers=run.bootstrap, group_id=group_id, enable_auto_commit=False
        )
        try:
            placed = {TopicPartition(t, p): offset for (t, p), offset in offsets.items()}
            consumer.assign(list(placed))
            consumer.commit(
                {tp: OffsetAndMetadata(offset, "", -1) for tp, offset in placed.items()}
            )
        finally:
            consumer.close()
    except KafkaError as error:
        msg = f"could not set where to start reading at {run.bootstrap}: {error}"
        raise BrokerError(msg) from error


def read_again(
    bootstrap: str, tp: TopicPartition, offsets: range, timeout_s: float = READ_AGAIN_S
) -> dict[int, bytes | None]:
    """Messages of a partition by offset, in order: those of `offsets` that come within the time.

    As long again may pass before the broker answers at all. What is read, and what is not, is said
    in a warning.
    """
    found: dict[int, bytes | None] = {}
    failed = ""
    try:
        consumer = KafkaConsumer(
            bootstrap_servers=bootstrap,
            group_id=None,
            enable_auto_commit=False,
            fetch_max_wait_ms=FETCH_WAIT_MS,
            auto_offset_reset="none",
            bootstrap_timeout_ms=round(timeout_s * 1000),
        )
        deadline = time.monotonic() + timeout_s
        try:
            consumer.assign([tp])
            while (first := next((o for o in offsets if o not in found), None)) is not None:
                if time.monotonic() > deadline:
                    break
                # From the first that is missing: the others may come before it.
                consumer.seek(tp, first)
                for record in consumer.poll(timeout_ms=READ_AGAIN_MS).get(tp, ()):
                    if record.offset in offsets:
                        found[record.offset] = record.value
        finally:
            consumer.close()
    except (KafkaError, ValueError, OSError) as error:
        failed = f": {error}"
    said = "%s[%d]: messages %d to %d were left out at first; %d of %d read again%s"
    where = (tp.topic, tp.partition, offsets.start, offsets.stop - 1)
    log.warning(said, *where, len(found), len(offsets), failed)
    return dict(sorted(found.items()))
