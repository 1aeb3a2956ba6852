import socket
import subprocess
import sys
from pathlib import Path

import pytest
from processes import command, environment

from calibration.profile import Effect, Profile, encode_profile
from slackwater.broker import EmbeddedBroker
from slackwater.cli import main
from slackwater.cli.stream_profile import calibrated
from slackwater.clock import RunClock
from slackwater.errors import InputError
from slackwater.settings import RunSettings
from streams.configure import stream_settings

RUN = RunSettings(bootstrap="localhost:9092", group="fleet")


@pytest.fixture
def bootstrap(broker: EmbeddedBroker) -> str:
    return broker.bootstrap


def error_of(stderr: str) -> str:
    """The line of the error, after none but the process's own words."""
    *said, error = stderr.strip().splitlines()
    assert all(line.startswith("slackwater stream: ") for line in said), stderr
    assert error.startswith("slackwater: "), stderr
    return error


def refused(bootstrap: str, *arguments: str) -> tuple[int, str]:
    """Exit code and error of a process that does not start."""
    done = subprocess.run(
        command("stream", *arguments),
        check=False,
        env=environment(bootstrap, "r"),
        capture_output=True,
        text=True,
        timeout=60,
    )
    return done.returncode, error_of(done.stderr)


@pytest.mark.kafka
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--policy", "best", "--db", "x.duckdb"], "wa_forecast"),
        (["--shadow", "slack,best", "--db", "x.duckdb"], "best"),
        (["--policy", "none", "--db", "x.duckdb"], "give --roles count,log"),
        (["--shadow", "none", "--db", "x.duckdb"], "no policy 'none'"),
        (["--roles", "count,think", "--db", "x.duckdb"], "think"),
        (["--min-gap-steps", "9", "--max-gap-steps", "3", "--db", "x.duckdb"], "min <= max"),
        (["--window-s", "-1", "--db", "x.duckdb"], "window_s"),
        (["--set", "controller.no_such=1", "--db", "x.duckdb"], "no_such"),
        (["--set", "nonsense", "--db", "x.duckdb"], "NAME=VALUE"),
        (["--run-info", "[1]", "--db", "x.duckdb"], "JSON object"),
        (["--offset-reset", "middle", "--db", "x.duckdb"], "offset_reset"),
        ([], "--db"),
        (["--db", "/no/such/folder/x.duckdb"], "/no/such/folder"),
        (["--metrics-port", "99999999", "--db", "x.duckdb"], "metrics_port"),
        (["--set", "bin_s=0.3", "--db", "x.duckdb"], "bin_s"),
        (["--set", "controller.tick_s=1e-9", "--db", "x.duckdb"], "tick_s"),
        (["--set", "controller=1", "--db", "x.duckdb"], "controller"),
        (["--set", "run.run_id=x", "--db", "x.duckdb"], "run.run_id"),
        (["--set", "controller.command_lead_s=true", "--db", "x.duckdb"], "command_lead_s"),
        (["--roles", "", "--db", "x.duckdb"], "roles"),
        (["--shadow", "slack,slack", "--db", "x.duckdb"], "slack"),
        (["--seed", "-1", "--db", "x.duckdb"], "seed"),
        (["--partitions", "0", "--db", "x.duckdb"], "partitions"),
    ],
)
def test_bad_option_ends_in_one_line_that_names_it(
    bootstrap: str,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    arguments: list[str],
    words: str,
) -> None:
    for name, value in environment(bootstrap, "r").items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "argv", ["slackwater", "stream", *arguments])

    with pytest.raises(SystemExit) as ended:
        main()

    assert ended.value.code == 2
    assert words in error_of(capfd.readouterr().err)


@pytest.mark.kafka
def test_metrics_port_in_use_is_said(bootstrap: str, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, line = refused(
            bootstrap, "--db", str(tmp_path / "x.duckdb"), "--metrics-port", str(port)
        )
    assert code == 2
    assert str(port) in line
    assert not (tmp_path / "x.duckdb").exists()


@pytest.mark.slow
def test_broker_that_is_not_there_is_said() -> None:
    code, line = refused("127.0.0.1:9", "--db", "x.duckdb")
    assert code == 1
    assert "127.0.0.1:9" in line


def test_times_on_the_wall_stretch_with_the_clock() -> None:
    clock = RunClock(0, 0, speed=20.0)
    settings = stream_settings(RUN, clock, {}, {"command_lead_s": 0.5})
    assert settings.controller.command_lead_s == 10.0
    assert settings.controller.learner_stale_s == 200.0
    assert settings.controller.stale_after_s == 2.0
    assert settings.controller.group == "fleet"


def test_set_reaches_every_setting_and_wins() -> None:
    assignments = ["commit_s=0.5", "controller.weights.loss=0.1", "policy=slack"]
    settings = stream_settings(RUN, RunClock.real(), {"policy": "fixed_h"}, {}, assignments)
    assert settings.commit_s == 0.5
    assert settings.controller.weights.loss == 0.1
    assert settings.policy == "slack"


def test_setting_of_the_wrong_type_is_named() -> None:
    with pytest.raises(InputError, match="learner_stale_s"):
        stream_settings(RUN, RunClock.real(), {}, {}, ["controller.learner_stale_s=soon"])


def profile_file(tmp_path: Path, low: float, high: float) -> Path:
    effect = Effect(merges=30, p95_ratio=(low + high) / 2, p95_ratio_low=low, p95_ratio_high=high)
    path = tmp_path / "lab.json"
    path.write_bytes(encode_profile(Profile(window_s=1.4, spill_over_s=0.5, effect=effect)))
    return path


def test_profile_gives_window_and_spill_over_in_event_time(tmp_path: Path) -> None:
    path = profile_file(tmp_path, 1.5, 2.5)
    assert calibrated(path, 10.0, None) == {"window_s": 14.0, "spill_over_s": 5.0}
    assert calibrated(path, 10.0, 3.0) == {"window_s": 3.0, "spill_over_s": 5.0}
    assert calibrated(None, 10.0, 3.0) == {"window_s": 3.0}


def test_merges_that_were_shown_to_be_harmless_wait_for_no_traffic(tmp_path: Path) -> None:
    settings = calibrated(profile_file(tmp_path, 0.95, 1.05), 1.0, None)
    controller = stream_settings(RUN, RunClock.real(), {}, settings).controller
    assert controller.weights.serving_sync == 0
    # An interval that reaches further leaves harm possible.
    assert "weights" not in calibrated(profile_file(tmp_path, 0.9, 1.3), 1.0, None)
