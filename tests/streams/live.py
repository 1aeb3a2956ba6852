"""Recorded runs and what the stream job decided on them."""

import subprocess
from pathlib import Path

from processes import command
from recordings import ORIGIN_US, record

from controller.offline import decide_offline
from controller.policies import POLICIES
from controller.settings import ControllerSettings
from slackwater.codec import Codec
from slackwater.events import Decision, Event, MergeCommand
from slackwater.topics import COMMANDS, DECISIONS
from slackwater.transport import reader

RUN_ID = "recorded"
DURATION_S = 40.0
LEAD_S = 0.5
SETTINGS = ControllerSettings(
    expect_learners=2,
    command_lead_s=LEAD_S,
    learner_stale_s=10.0,
    fixed_steps=200,
    max_burden=1.001,
    switchback="matched",
    seed=7,
)
POLICY_ORDER = ("wa_forecast", *(name for name in POLICIES if name != "wa_forecast"))


def make_recording(folder: Path, slower: int = 1) -> tuple[Path, list[Event]]:
    """Three modelled sidecars under aperiodic bursts, and two learners, one so much slower."""
    export, target = folder / "export.jsonl", folder / "recording.jsonl"
    subprocess.run(
        command(
            *("replay", "--regime", "aperiodic", "--rate", "12", "--sidecars", "3"),
            *("--duration", str(DURATION_S), "--seed", "3", "--export", str(export)),
        ),
        check=True,
    )
    return target, record(export, target, RUN_ID, DURATION_S, slower)


def offline_decisions(
    events: list[Event], settings: ControllerSettings = SETTINGS
) -> list[tuple[Decision, MergeCommand | None]]:
    last_us = ORIGIN_US + round(DURATION_S * 1e6)
    return list(decide_offline(events, settings, POLICY_ORDER, run_id=RUN_ID, until_us=last_us))


def stream_arguments(folder: Path, speed: float, partitions: int) -> list[str]:
    """Options that give the live job `SETTINGS` at any speed."""
    return [
        *("--db", str(folder / "run.duckdb"), "--switchback", POLICY_ORDER[0]),
        *("--shadow", ",".join(POLICY_ORDER[1:]), "--expect-learners", "2"),
        *("--expect-sidecars", "3", "--command-lead-s", str(LEAD_S / speed)),
        *("--set", f"controller.learner_stale_s={10.0 / speed}"),
        *("--set", "controller.fixed_steps=200", "--seed", "7"),
        *("--set", "controller.max_burden=1.001"),
        # Nobody falls silent here but on a busy machine.
        *("--set", "silence_s=20"),
        *("--partitions", str(partitions)),
    ]


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
    """Until decisions have reached 92 % of the recording, and then none for a second."""
    codec, consumer = Codec(DECISIONS), reader(bootstrap, [DECISIONS], from_start=True)
    wanted_us, reached_us = ORIGIN_US + round(0.92 * DURATION_S * 1e6), 0
    while (batch := consumer.poll(timeout_ms=1000)) or reached_us < wanted_us:
        for message in (m for messages in batch.values() for m in messages):
            times_us = [decision.at_us for decision in codec.decode(message.value).events]
            reached_us = max(reached_us, *times_us)
    consumer.close()
