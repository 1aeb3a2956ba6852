"""Counting, deciding and logging in processes of their own, one of them killed."""

import subprocess
import time
from pathlib import Path

import pytest
from live import (
    RUN_ID,
    make_recording,
    offline_decisions,
    read_all,
    stream_arguments,
    wait_until_quiet,
)
from processes import command, environment, stop, stream
from recordings import ORIGIN_US

from slackwater.broker import EmbeddedBroker
from slackwater.clock import RunClock
from slackwater.transport import make_topics

SPEED = 2.0


@pytest.mark.kafka
@pytest.mark.slow
def test_counting_workers_scale_apart_and_a_killed_one_costs_no_decision(tmp_path: Path) -> None:
    recording, events = make_recording(tmp_path)
    arguments = stream_arguments(tmp_path, SPEED, partitions=4)
    decide = [*arguments, "--roles", "decide,log"]
    count = ["--roles", "count", "--partitions", "4", "--offset-reset", "earliest"]
    with EmbeddedBroker() as broker:
        make_topics(broker.bootstrap, partitions=4)
        env = environment(broker.bootstrap, RUN_ID)
        clock = RunClock(ORIGIN_US, time.time_ns() // 1000, SPEED).encode()
        env |= {"SLACKWATER_CLOCK": clock}
        with (
            stream(env, tmp_path, *decide) as decider,
            stream(env, tmp_path, *count) as first,
            stream(env, tmp_path, *count) as second,
        ):
            now = RunClock(ORIGIN_US, time.time_ns() // 1000, SPEED).encode()
            replay = subprocess.Popen(
                command("replay", str(recording)), env=env | {"SLACKWATER_CLOCK": now}
            )
            time.sleep(6.0)
            first.kill()
            first.wait()
            assert replay.wait(60) == 0
            wait_until_quiet(broker.bootstrap)
            stop(second)
            stop(decider)
            live, commands = read_all(broker.bootstrap)
    expected = offline_decisions(events)
    assert len(live) > 0.9 * len(expected)
    assert live == [decision for decision, _ in expected][: len(live)]
    last_us = live[-1].at_us
    assert commands == [c for _, c in expected if c is not None and c.at_us <= last_us]
