import dataclasses
import itertools
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.clock import CLOCK_ENV, RunClock
from slackwater.testbed.commands import Commands, moved_origin, new_clock
from slackwater.testbed.plan import Plan

NOW_US = 1_760_000_000_123_456


@given(
    speed=st.one_of(st.integers(1, 200).map(float), st.floats(0.1, 200)),
    later_us=st.integers(0, 10**9),
    moment_us=st.integers(0, 10**9),
)
def test_moving_the_origin_leaves_event_time_as_it_was(
    speed: float, later_us: int, moment_us: int
) -> None:
    now_us = NOW_US + moment_us
    clock = RunClock(1_760_000_000_000_000, 1_760_000_000_000_000, speed, lambda: now_us)

    moved = moved_origin(clock, NOW_US + later_us)

    # The new point is told to the microsecond of wall time.
    assert abs(moved.now_us() - clock.now_us()) <= speed + 1
    assert moved.origin_us % 1_000_000 == 0
    assert moved.wall_origin_us >= NOW_US + later_us - 1


@given(speed=st.floats(0.1, 200))
def test_event_time_starts_on_a_whole_second_so_that_ticks_fall_there(speed: float) -> None:
    clock = new_clock(speed, NOW_US)

    assert clock.origin_us == clock.wall_origin_us == 1_760_000_000_000_000


@pytest.fixture
def commands(tmp_path: Path) -> Commands:
    return Commands(
        plan=Plan(run_id="r", db=tmp_path / "r.duckdb", regime="constant", speed=20.0),
        bootstrap="127.0.0.1:9092",
        clock=new_clock(20.0, NOW_US),
        scratch=tmp_path / "scratch",
        run_info={"trace": "constant"},
        free_port=lambda: 29500,
    )


def test_all_parts_share_broker_topics_run_and_clock(commands: Commands) -> None:
    later = moved_origin(commands.clock, NOW_US)
    specs = [commands.stream(), *commands.learners(), commands.replay(later)]

    shared = ("KAFKA_BOOTSTRAP_SERVERS", "SLACKWATER_TOPIC_PREFIX", "SLACKWATER_RUN_ID")
    for name in shared:
        assert len({spec.env[name] for spec in specs}) == 1
    assert [spec.env[CLOCK_ENV] == commands.clock.encode() for spec in specs[:4]] == [True] * 4
    assert specs[4].env[CLOCK_ENV] == later.encode()


def test_learners_are_the_ranks_of_one_process_group(commands: Commands) -> None:
    meeting, *learners = commands.learners()

    assert meeting.command[meeting.command.index("--port") + 1] == "29500"
    assert [spec.env["RANK"] for spec in learners] == ["0", "1"]
    assert {spec.env["WORLD_SIZE"] for spec in learners} == {"2"}
    assert {spec.env["MASTER_PORT"] for spec in learners} == {"29500"}


def test_shadow_policies_and_settings_reach_the_stream_job(commands: Commands) -> None:
    plan = msgspec.structs.replace(
        commands.plan, shadow="slack,fixed_h", assignments=("a=1", "controller.b=2")
    )

    command = dataclasses.replace(commands, plan=plan).stream().command

    pairs = list(itertools.pairwise(command))
    assert ("--shadow", "slack,fixed_h") in pairs
    assert [value for option, value in pairs if option == "--set"] == ["a=1", "controller.b=2"]


def test_profile_reaches_the_stream_job_and_its_slowdown_the_sidecars(commands: Commands) -> None:
    plan = msgspec.structs.replace(commands.plan, profile=Path("lab.json"), slowdown=2.3)
    calibrated = dataclasses.replace(commands, plan=plan)
    assert ("--profile", "lab.json") in itertools.pairwise(calibrated.stream().command)
    replay = calibrated.replay(calibrated.clock).command
    assert ("--slowdown", "2.3") in itertools.pairwise(replay)
    assert "--slowdown" not in commands.replay(commands.clock).command


def test_without_merges_nobody_decides_and_no_learner_comes_to_h_max(commands: Commands) -> None:
    plan = msgspec.structs.replace(commands.plan, no_merges=True, policy="slack", shadow="fixed_h")
    control = dataclasses.replace(commands, plan=plan)

    stream = list(itertools.pairwise(control.stream().command))
    assert ("--policy", "none") in stream
    assert ("--roles", "count,log") in stream
    assert "--shadow" not in control.stream().command
    for learner in control.learners()[1:]:
        pairs = dict(itertools.pairwise(learner.command))
        assert int(pairs["--min-gap-steps"]) == int(pairs["--max-gap-steps"]) >= 10**9
    assert control.replay(control.clock).command == commands.replay(commands.clock).command


def test_every_option_that_is_passed_on_exists(commands: Commands) -> None:
    import typer

    from slackwater.cli.app import app

    group = typer.main.get_command(app)
    plan = msgspec.structs.replace(commands.plan, shadow="slack", assignments=("a=1",))
    plan = msgspec.structs.replace(plan, profile=Path("lab.json"), slowdown=2.3)
    commands = dataclasses.replace(commands, plan=plan)
    for spec in [commands.stream(), *commands.learners(), commands.replay(commands.clock)]:
        _, module, package, name, *arguments = spec.command
        assert (module, package) == ("-m", "slackwater")
        command = group.commands[name]  # type: ignore[attr-defined]
        if name == "group":
            command = command.commands[arguments[0]]
        known = {opt for param in command.params for opt in param.opts}
        assert {word for word in arguments if word.startswith("--")} <= known
