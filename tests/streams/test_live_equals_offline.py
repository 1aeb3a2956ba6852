"""What is evaluated is what is deployed: the live job decides as the offline engine does."""

import subprocess
import time
from pathlib import Path

import msgspec
import pytest
from live import (
    DURATION_S,
    POLICY_ORDER,
    RUN_ID,
    SETTINGS,
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
from slackwater.events import Decision, Event, MergeCommand
from slackwater.transport import make_topics

# Nobody falls silent here, however slow the machine is.
OF_UNEQUAL = ("--min-gap-steps", "60", "--set", "silence_s=60")


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Event]]:
    return make_recording(tmp_path_factory.mktemp("recording"))


@pytest.fixture(scope="module")
def offline(recording: tuple[Path, list[Event]]) -> list[tuple[Decision, MergeCommand | None]]:
    return offline_decisions(recording[1])


@pytest.mark.kafka
@pytest.mark.parametrize("speed", [pytest.param(4.0, marks=pytest.mark.slow), 16.0])
@pytest.mark.parametrize("partitions", [pytest.param(1, marks=pytest.mark.slow), 4])
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
    assert {d.arm for d in live if d.active} >= {"policy", "random"}
    assert "harm_bound" in {d.reason for d, _ in offline}


@pytest.mark.kafka
@pytest.mark.slow
def test_live_decisions_equal_offline_ones_for_learners_of_unequal_speed(tmp_path: Path) -> None:
    path, events = make_recording(tmp_path, slower=2)
    # The slower one has its H_min within the recorded gaps.
    offline = offline_decisions(events, msgspec.structs.replace(SETTINGS, min_gap_steps=60))
    live, commands = run_live(path, tmp_path, 16.0, 4, *OF_UNEQUAL)
    assert len(live) >= 0.9 * round(DURATION_S / SETTINGS.tick_s) * len(POLICY_ORDER)
    assert live == [decision for decision, _ in offline][: len(live)]
    last_us = live[-1].at_us
    assert commands == [c for _, c in offline if c is not None and c.at_us <= last_us]
    assert commands
    assert all(c.at_step is None and c.moment_us is not None for c in commands)


def run_live(
    recording: Path, folder: Path, speed: float, partitions: int, *options: str
) -> tuple[list[Decision], list[MergeCommand]]:
    with EmbeddedBroker() as broker:
        make_topics(broker.bootstrap, partitions=partitions)
        arguments = [*stream_arguments(folder, speed, partitions), *options]
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
