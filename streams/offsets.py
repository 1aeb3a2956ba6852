"""Where a stream process starts to read: the run log's offsets, not the consumer group's."""

from collections.abc import Iterable, Mapping

from kafka import KafkaConsumer, TopicPartition
from kafka.errors import KafkaError
from kafka.structs import OffsetAndMetadata

from slackwater.errors import BrokerError
from slackwater.settings import RunSettings
from slackwater.topics import Topic
from slackwater.transport import reader

Offsets = dict[tuple[str, int], int]


def starting_offsets(
    run: RunSettings, topics: Iterable[Topic], stored: Mapping[tuple[str, int], int], reset: str
) -> Offsets:
    """For each partition of `topics`: what the log says, else the end or start of the topic.

    Raises `BrokerError` when the broker or a topic is not there.
    """
    consumer = reader(run.bootstrap, topics, run.prefix, from_start=reset == "earliest")
    try:
        return {
            (tp.topic, tp.partition): stored.get((tp.topic, tp.partition), consumer.position(tp))
            for tp in consumer.assignment()
        }
    finally:
        consumer.close()


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
