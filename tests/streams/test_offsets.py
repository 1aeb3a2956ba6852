from collections.abc import Iterator

import pytest

from slackwater.broker import EmbeddedBroker
from slackwater.errors import RunLogError
from slackwater.events import Heartbeat
from slackwater.settings import RunSettings
from slackwater.topics import LEARNERS
from slackwater.transport import BatchProducer, make_topics
from streams.offsets import starting_offsets

MESSAGES = 20
NAME = LEARNERS.name()


@pytest.fixture(scope="module")
def run() -> Iterator[RunSettings]:
    with EmbeddedBroker() as broker:
        make_topics(broker.bootstrap, partitions=1)
        producer = BatchProducer(broker.bootstrap, batch_events=1)
        for number in range(MESSAGES):
            at_us = 1_750_000_000_000_000 + number
            producer.send(LEARNERS, "a", Heartbeat(run_id="r", at_us=at_us, learner="a"))
        producer.close()
        yield RunSettings(bootstrap=broker.bootstrap, run_id="r")


@pytest.mark.kafka
@pytest.mark.parametrize("offset", [0, 7, MESSAGES])
def test_log_says_where_to_go_on(run: RunSettings, offset: int) -> None:
    stored = {(NAME, 0): offset}
    assert starting_offsets(run, [LEARNERS], stored, "latest") == stored


@pytest.mark.kafka
def test_new_run_starts_where_it_is_told(run: RunSettings) -> None:
    assert starting_offsets(run, [LEARNERS], {}, "earliest") == {(NAME, 0): 0}
    assert starting_offsets(run, [LEARNERS], {}, "latest")[NAME, 0] > 0


@pytest.mark.kafka
def test_log_of_another_broker_is_refused(run: RunSettings) -> None:
    with pytest.raises(RunLogError, match="another broker"):
        starting_offsets(run, [LEARNERS], {(NAME, 0): 50}, "latest")
