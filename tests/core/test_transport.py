"""The edges of Kafka: what is sent arrives, what is lost is counted, what is away is one line."""

import msgspec
import pytest
from kafka import KafkaAdminClient

from slackwater import transport
from slackwater.broker import free_port
from slackwater.codec import Codec
from slackwater.errors import BrokerError, InputError
from slackwater.events import Heartbeat
from slackwater.topics import ALL_TOPICS, LEARNERS, REQUESTS
from slackwater.transport import BatchProducer, make_topics, reader, wait_for_broker

AT_US = 1_700_000_000_000_000
pytestmark = pytest.mark.kafka


def heartbeats(count, run_id="r"):
    return [
        Heartbeat(run_id=run_id, at_us=AT_US + i, learner=f"learner-{i % 2}") for i in range(count)
    ]


def read(bootstrap, prefix, count):
    """The messages on the learners topic until they hold `count` events."""
    consumer = reader(bootstrap, [LEARNERS], prefix, from_start=True)
    messages = []
    try:
        while sum(map(len, messages)) < count:
            for records in consumer.poll(timeout_ms=5000).values():
                messages += [Codec(LEARNERS).decode(record.value).events for record in records]
    finally:
        consumer.close()
    return messages


@pytest.fixture
def prefix(request, bootstrap):
    name = f"t{abs(hash(request.node.name))}"
    make_topics(bootstrap, name, partitions=2)
    return name


def test_every_event_sent_is_acknowledged_counted_and_read_in_order(bootstrap, prefix):
    producer = BatchProducer(bootstrap, prefix, batch_events=10)
    events = heartbeats(95)
    for event in events:
        producer.send(LEARNERS, event.learner, event)
    assert producer.flush()
    assert (producer.sent, producer.acked, producer.failed) == (95, 95, 0)
    producer.close()
    found = [event for message in read(bootstrap, prefix, 95) for event in message]
    for learner in ("learner-0", "learner-1"):
        assert [e for e in found if e.learner == learner] == [
            e for e in events if e.learner == learner
        ]


def test_micro_batch_leaves_when_it_is_full_or_old_enough_and_not_before(bootstrap, prefix):
    now = [100.0]
    producer = BatchProducer(
        bootstrap, prefix, batch_events=3, batch_wait_s=0.05, monotonic=lambda: now[0]
    )
    first, second, third, fourth = heartbeats(4)
    for event in (first, second, third):
        producer.send(LEARNERS, "same", event)
    assert producer.sent == 3
    now[0] += 1
    producer.push()
    producer.send(LEARNERS, "same", fourth)
    now[0] += 0.04
    producer.poll()
    assert producer.sent == 3
    now[0] += 0.02
    producer.poll()
    assert producer.sent == 4
    producer.close()
    assert [len(message) for message in read(bootstrap, prefix, 4)] == [3, 1]


def test_batch_over_the_brokers_message_size_is_split(bootstrap, prefix, monkeypatch):
    monkeypatch.setattr(transport, "MAX_BATCH_BYTES", 400)
    producer = BatchProducer(bootstrap, prefix, batch_events=16)
    events = [msgspec.structs.replace(e, learner="one") for e in heartbeats(16)]
    for event in events:
        producer.send(LEARNERS, "one", event)
    assert producer.flush()
    assert producer.acked == 16
    producer.close()
    messages = read(bootstrap, prefix, 16)
    assert [event for message in messages for event in message] == events
    assert max(map(len, messages)) < 16


def test_event_that_the_client_refuses_is_counted_as_failed(bootstrap, prefix, monkeypatch):
    monkeypatch.setattr(transport, "MAX_REQUEST_BYTES", 100)
    producer = BatchProducer(bootstrap, prefix)
    producer.send(LEARNERS, "learner-0", heartbeats(1, run_id="r" * 150)[0])
    assert not producer.flush()
    assert (producer.sent, producer.acked, producer.failed) == (1, 0, 1)
    producer.close()


def test_making_topics_twice_changes_nothing(bootstrap):
    first = make_topics(bootstrap, "twice", partitions=3)
    assert make_topics(bootstrap, "twice", partitions=3) == first
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    described = admin.describe_topics([topic.name("twice") for topic in ALL_TOPICS])
    admin.close()
    assert {t["name"]: len(t["partitions"]) for t in described} == first
    assert first[REQUESTS.name("twice")] == 3
    assert sum(first.values()) == 3 + len(ALL_TOPICS) - 1


def test_topic_with_another_number_of_partitions_is_refused(bootstrap):
    make_topics(bootstrap, "shape", partitions=3)
    with pytest.raises(InputError, match="3 partitions, not 4"):
        make_topics(bootstrap, "shape", partitions=4)


def test_reader_at_the_end_sees_only_what_comes_after_it(bootstrap, prefix):
    old, new = heartbeats(2)
    producer = BatchProducer(bootstrap, prefix)
    producer.send(LEARNERS, old.learner, old)
    assert producer.flush()
    consumer = reader(bootstrap, [LEARNERS], prefix)
    producer.send(LEARNERS, new.learner, new)
    producer.close()
    (records,) = consumer.poll(timeout_ms=10_000).values()
    consumer.close()
    assert [Codec(LEARNERS).decode(record.value).events for record in records] == [[new]]


def test_reading_a_topic_that_is_not_there_says_what_to_do(bootstrap):
    with pytest.raises(BrokerError, match=r"absent\.learners .*make the topics"):
        reader(bootstrap, [LEARNERS], "absent")


@pytest.mark.parametrize(
    "use",
    [
        lambda bootstrap: BatchProducer(bootstrap, bootstrap_timeout_ms=200),
        make_topics,
        lambda bootstrap: reader(bootstrap, [LEARNERS], bootstrap_timeout_ms=200),
        lambda bootstrap: wait_for_broker(bootstrap, 0.1),
    ],
    ids=["producer", "topics", "reader", "wait"],
)
def test_broker_that_is_away_is_one_line_that_names_it(use, monkeypatch):
    monkeypatch.setattr(transport, "BOOTSTRAP_TIMEOUT_MS", 200)
    bootstrap = f"127.0.0.1:{free_port()}"
    with pytest.raises(BrokerError, match=bootstrap) as caught:
        use(bootstrap)
    assert "\n" not in str(caught.value)
