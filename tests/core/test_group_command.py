import os
import subprocess
import sys

import pytest

from slackwater.codec import Codec
from slackwater.topics import COMMANDS
from slackwater.transport import make_topics, reader


@pytest.mark.kafka
@pytest.mark.parametrize("word", ["pause", "resume", "merge-now"])
def test_what_a_person_asks_reaches_the_commands_topic(bootstrap: str, word: str) -> None:
    prefix = f"group-{word}"
    make_topics(bootstrap, prefix, 1)
    env = os.environ | {
        "KAFKA_BOOTSTRAP_SERVERS": bootstrap,
        "SLACKWATER_TOPIC_PREFIX": prefix,
        "SLACKWATER_RUN_ID": "r",
        "SLACKWATER_GROUP": "g",
    }
    done = subprocess.run(
        [sys.executable, "-m", "slackwater", "group", word],
        env=env,
        check=True,
        capture_output=True,
        text=True,
    )
    consumer = reader(bootstrap, [COMMANDS], prefix, from_start=True)
    messages = [m for batch in consumer.poll(timeout_ms=5000).values() for m in batch]
    consumer.close()
    [event] = [e for m in messages for e in Codec(COMMANDS).decode(m.value).events]
    assert event.__struct_config__.tag == word.replace("-", "_")
    assert (event.run_id, event.group) == ("r", "g")
    assert "run r, group g" in done.stdout


def test_no_broker_named_is_said_in_one_line() -> None:
    env = {k: v for k, v in os.environ.items() if k != "KAFKA_BOOTSTRAP_SERVERS"}
    done = subprocess.run(
        [sys.executable, "-m", "slackwater", "group", "pause"],
        env=env,
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
