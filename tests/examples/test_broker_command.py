"""`slackwater broker`: in the foreground, with topics, until it is told to end."""

import re
import signal
import socket

import pytest
from attach_shell import PATIENCE_S, Shell, end
from kafka import KafkaConsumer

from slackwater.broker import free_port
from slackwater.topics import ALL_TOPICS

pytestmark = pytest.mark.kafka


def answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_topics_are_there_when_it_is_ready_and_a_signal_ends_it(
    shell: Shell, number: signal.Signals
) -> None:
    port = free_port()
    shell.env["SLACKWATER_TOPIC_PREFIX"] = "mine"
    with shell.part("broker", "--port", str(port), "--partitions", "3") as process:
        consumer = KafkaConsumer(bootstrap_servers=f"127.0.0.1:{port}")
        expected = {t.name("mine"): 3 if t.kind == "requests" else 1 for t in ALL_TOPICS}
        found = {name: len(consumer.partitions_for_topic(name)) for name in expected}
        consumer.close()
        said = end(process, number)
    assert found == expected
    assert said == {"schema_version": 1, "bootstrap": f"127.0.0.1:{port}", "topics": expected}
    assert not answers(port)


def test_a_person_reads_the_line_to_type_in_other_shells(shell: Shell) -> None:
    process = shell.start("-m", "slackwater", "broker")
    try:
        assert process.stdout is not None
        process.stdout.readline()
        line = process.stdout.readline()
        found = re.fullmatch(r"export KAFKA_BOOTSTRAP_SERVERS=127\.0\.0\.1:(\d+)\n", line)
        assert found, process.communicate()[1] if process.poll() is not None else line
        assert answers(int(found[1]))
    finally:
        process.terminate()
        process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0


def test_a_port_in_use_is_one_line_and_bad_input(shell: Shell) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        process = shell.start("-m", "slackwater", "broker", "--port", str(port))
        out, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, out) == (2, "")
    assert err.startswith(f"slackwater: port {port} on 127.0.0.1 is in use")
    assert err.count("\n") == 1
