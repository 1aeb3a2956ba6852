"""Killed in the middle: each row once, and the decisions that would have been made anyway."""

import signal
import subprocess
import time
from pathlib import Path

import duckdb
import pytest
from live import RUN_ID, make_recording, offline_decisions, stream_arguments, wait_until_quiet
from processes import command, environment, stop, stream
from recordings import ORIGIN_US

from slackwater.broker import EmbeddedBroker
from slackwater.clock import RunClock
from slackwater.events import Load, Request, Step
from slackwater.livequery import query
from slackwater.transport import make_topics

SPEED = 4.0
KILLS = 2


@pytest.mark.slow
@pytest.mark.kafka
def test_killed_job_resumes_with_each_row_once_and_the_same_decisions(tmp_path: Path) -> None:
    recording, events = make_recording(tmp_path)
    db = tmp_path / "run.duckdb"
    arguments = stream_arguments(tmp_path, SPEED, partitions=2)
    with EmbeddedBroker() as broker:
        make_topics(broker.bootstrap, partitions=2)
        env = environment(broker.bootstrap, RUN_ID)
        with stream(env | clock_env(), tmp_path, *arguments) as process:
            started = clock_env()
            replay = subprocess.Popen(command("replay", str(recording)), env=env | started)
            done = wait_for_decisions(db, more_than=100)
            process.kill()
            process.wait()
        for _ in range(KILLS - 1):
            with stream(env | started, tmp_path, *arguments) as process:
                done = wait_for_decisions(db, more_than=done)
                process.send_signal(signal.SIGKILL)
                process.wait()
        with stream(env | started, tmp_path, *arguments) as process:
            assert replay.wait(60) == 0
            wait_until_quiet(broker.bootstrap)
            stop(process)

    with duckdb.connect(str(db), read_only=True) as log:
        for table, kind in (("requests", Request), ("loads", Load), ("learner_steps", Step)):
            expected = sum(isinstance(event, kind) for event in events)
            assert len(log.table(table).fetchall()) == expected
        rows = log.execute(
            "SELECT policy, at_us, action, reason, rate_per_s, score, arm FROM decisions "
            "ORDER BY ALL"
        ).fetchall()
        merges = log.execute("SELECT merge_id FROM commands ORDER BY ALL").fetchall()
    offline = offline_decisions(events)
    last_us = max(at_us for _, at_us, *_ in rows)
    expected_rows = sorted(
        (d.policy, d.at_us, d.action, d.reason, d.rate_per_s, d.score, d.arm)
        for d, _ in offline
        if d.at_us <= last_us
    )
    assert [r[:4] for r in rows] == [r[:4] for r in expected_rows]
    assert rows == expected_rows
    assert "harm_bound" in {d.reason for d, _ in offline}
    assert merges == [(c.merge_id,) for _, c in offline if c and c.at_us <= last_us]


def wait_for_decisions(db: Path, more_than: int) -> int:
    """How many decisions are logged, once there are more than so many."""
    deadline = time.monotonic() + 30
    while True:
        [logged] = query(db, "SELECT count(*) AS n FROM decisions").column("n").to_pylist()
        if logged > more_than:
            return int(logged)
        assert time.monotonic() < deadline, f"only {logged} decisions were logged"
        time.sleep(0.02)


def clock_env() -> dict[str, str]:
    clock = RunClock(ORIGIN_US, time.time_ns() // 1000, SPEED)
    return {"SLACKWATER_CLOCK": clock.encode()}
