"""`slackwater topics make` can run as often as compose likes."""

import json

import pytest

from slackwater.broker import free_port
from slackwater.topics import ALL_TOPICS

pytestmark = pytest.mark.kafka


def test_topics_are_made_once_and_again_without_harm(run_command, bootstrap):
    for _ in range(2):
        done = run_command(
            "topics", "make", "--partitions", "2", "--json",
            KAFKA_BOOTSTRAP_SERVERS=bootstrap, SLACKWATER_TOPIC_PREFIX="made",
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        expected = {t.name("made"): 2 if t.kind == "requests" else 1 for t in ALL_TOPICS}
        assert json.loads(done.stdout) == {"topics": expected}


def test_without_json_a_person_reads_names_and_numbers(run_command, bootstrap):
    done = run_command("topics", "make", "--kafka", bootstrap, SLACKWATER_TOPIC_PREFIX="read")
    assert "read.requests  4 partitions\n" in done.stdout
    assert "read.merges  1 partition\n" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        ((), 2, "KAFKA_BOOTSTRAP_SERVERS"),
        (("--kafka", "nowhere"), 2, "HOST:PORT"),
        (("--partitions", "0"), 2, "--partitions"),
        (("--kafka", f"127.0.0.1:{free_port()}", "--wait", "0"), 1, "no Kafka broker answers"),
    ],
)
def test_bad_input_is_one_line_and_its_exit_code(run_command, arguments, code, says):
    done = run_command("topics", "make", *arguments)
    assert done.returncode == code
    assert says in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""
