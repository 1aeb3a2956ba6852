"""What is evaluated is what is deployed: the live job decides as the offline engine does."""

import subprocess
import time
from pathlib import Path

import pytest
from processes import command, environment, stop, stream
from recordings import ORIGIN_US, record

from controller.offline import decide_offline
from controller.policies import POLICIES
from controller.settings import ControllerSettings
from slackwater.broker import EmbeddedBroker
from slackwater.clock import RunClock
from slackwater.codec import Codec
from slackwater.events import Decision, Event, MergeCommand
from slackwater.topics import COMMANDS, DECISIONS
from slackwater.transport import make_topics, reader

RUN_ID = "recorded"
DURATION_S = 40.0
LEAD_S = 0.5
SETTINGS = ControllerSettings(
    expect_learners=2, command_lead_s=LEAD_S, learner_stale_s=10.0, fixed_steps=200, seed=7
)
POLICY_ORDER = ("wa_forecast", *(name for name in POLICIES if name != "wa_forecast"))


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Event]]:
    folder = tmp_path_factory.mktemp("recording")
    export, target = folder / "export.jsonl", folder / "recording.jsonl"
    subprocess.run(
        command(
            *("replay", "--regime", "aperiodic", "--rate", "12", "--sidecars", "3"),
            *("--duration", str(DURATION_S), "--seed", "3", "--export", str(export)),
        ),
        check=True,
    )
    return target, record(export, target, RUN_ID, DURATION_S)


@pytest.fixture(scope="module")
def offline(recording: tuple[Path, list[Event]]) -> list[tuple[Decision, MergeCommand | None]]:
    last_us = ORIGIN_US + round(DURATION_S * 1e6)
    return list(
        decide_offline(recording[1], SETTINGS, POLICY_ORDER, run_id=RUN_ID, until_us=last_us)
    )


@pytest.mark.kafka
@pytest.mark.parametrize("speed", [4.0, 16.0])
@pytest.mark.parametrize("partitions", [1, 4])
def test_live_decisions_equal_offline_ones_for_every_policy(
    recording: tuple[Path, list[Event]],
    offline: list[tuple[Decision, MergeCommand | None]],
    tmp_path: Path,
    speed: float,
    partitions: int,
) -> None:
    live, commands = run_live(recording[0], tmp_path, speed, partitions)

    expected = [decision for decision, _ in offline][: len(live)]
    ticks = round(DURATION_S / SETTINGS.tick_s)
    assert len(live) >= 0.9 * ticks * len(POLICY_ORDER)
    assert live == expected
    last_us = live[-1].at_us
    assert commands == [c for _, c in offline if c is not None and c.at_us <= last_us]
    assert {d.policy for d in live if d.action == "merge"} >= {"wa_forecast", "slack", "fixed_h"}


def run_live(
    recording: Path, folder: Path, speed: float, partitions: int
) -> tuple[list[Decision], list[MergeCommand]]:
    with EmbeddedBroker() as broker:
        make_topics(broker.bootstrap, partitions=partitions)
        arguments = [
            *("--db", str(folder / "run.duckdb"), "--policy", POLICY_ORDER[0]),
            *("--shadow", ",".join(POLICY_ORDER[1:]), "--expect-learners", "2"),
            *("--expect-sidecars", "3", "--command-lead-s", str(LEAD_S / speed)),
            *("--set", f"controller.learner_stale_s={10.0 / speed}"),
            *("--set", "controller.fixed_steps=200", "--seed", "7"),
            *("--partitions", str(partitions)),
        ]
        clock = RunClock(ORIGIN_US, time.time_ns() // 1000, speed)
        with stream(environment(broker.bootstrap, RUN_ID, clock.encode()), folder, *arguments) as p:
            clock = RunClock(ORIGIN_US, time.time_ns() // 1000, speed)
            subprocess.run(
                command("replay", str(recording)),
                env=environment(broker.bootstrap, RUN_ID, clock.encode()),
                check=True,
            )
            wait_until_quiet(broker.bootstrap)
            stop(p)
            return read_all(broker.bootstrap)


def read_all(bootstrap: str) -> tuple[list[Decision], list[MergeCommand]]:
    consumer = reader(bootstrap, [DECISIONS, COMMANDS], from_start=True)
    decisions: list[Decision] = []
    commands: list[MergeCommand] = []
    while batch := consumer.poll(timeout_ms=500):
        for partition, messages in batch.items():
            topic = DECISIONS if partition.topic.endswith("decisions") else COMMANDS
            into = decisions if topic is DECISIONS else commands
            for message in messages:
                into += Codec(topic).decode(message.value).events
    consumer.close()
    return decisions, commands


def wait_until_quiet(bootstrap: str) -> None:
    """Until no decision has come for a second: everything replayed has been decided."""
    consumer = reader(bootstrap, [DECISIONS])
    while consumer.poll(timeout_ms=1000):
        continue
    consumer.close()
