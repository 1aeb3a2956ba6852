"""`slackwater trial` with its real parts, against a real small server over HTTP."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest
from test_calibrate import ServerThread

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

SMALL = ["--run-s", "12", "--rate", "10", "--output-tokens", "4", "--parameters", "20000",
         "--step-s", "0.05", "--min-gap-steps", "20", "--max-gap-steps", "60", "--window-s",
         "0.5", "--policies", "slack", "--baselines", "none"]  # fmt: skip


def command(url: str, *options: str) -> list[str]:
    told = ["--endpoint", url, "--model", "tiny", "--json", *options]
    return [sys.executable, "-m", "slackwater", "trial", *told]


@pytest.fixture
def short() -> Iterator[Path]:
    """A directory whose path leaves room for the name of a socket in it."""
    with tempfile.TemporaryDirectory(prefix="trial-") as folder:
        yield Path(folder)


@pytest.mark.timeout(1500)
def test_a_trial_that_is_interrupted_goes_on_and_ends_with_a_verdict(short: Path) -> None:
    db = short / "trial.duckdb"
    env = {**os.environ, "TMPDIR": str(short / "t")}
    (short / "t").mkdir()
    with ServerThread(slots=2, step_s=0.01) as server:
        first = subprocess.Popen(
            command(server.url, "--runs", "1", "--db", str(db), "--claim", "slack", *SMALL),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=env,
            start_new_session=True,
        )
        assert first.stderr is not None
        for line in first.stderr:
            if line.startswith("run 2 of 3") and "running" in line:
                break
        first.send_signal(signal.SIGINT)
        out, errors = first.communicate(timeout=400)
        assert first.returncode == 130, errors
        assert json.loads(out)["runs_played"] == 1
        second = subprocess.run(
            command(server.url, "--resume", str(db)),
            capture_output=True,
            text=True,
            env=env,
            timeout=1200,
            check=False,
        )
    assert second.returncode == 0, second.stderr
    _whole(json.loads(second.stdout), db)
    assert not list((short / "t").glob("slackwater-*"))


def _whole(document: dict[str, object], db: Path) -> None:
    assert document["runs_played"] == document["runs_planned"] == 3
    assert document["claim"] == "slack"
    arms = {row["arm"]: row for row in document["arms"]}  # type: ignore[attr-defined]
    assert {row["runs"] for row in arms.values()} == {1}
    assert arms["none"]["merges"] == 0
    assert arms["slack"]["merges"] >= 1
    # As many merges as its policy's, or it is said that they are not.
    matched = arms["random:slack"]["merges"] == arms["slack"]["merges"]
    assert matched != bool(document["mismatches"])
    for row in arms.values():
        assert sum(row["ended"].values()) == row["requests"] > 0
    # One run can claim nothing, whatever it showed.
    assert {one["verdict"] for one in document["verdicts"]} == {"no claim"}  # type: ignore[attr-defined]
    with duckdb.connect(str(db), read_only=True) as log:
        asked = "SELECT count(*), count(DISTINCT run_id) FROM verdicts"
        assert log.sql(asked).fetchall() == [(1, 1)]
        # While there was load, a control was commanded by its schedule alone, and never before it.
        drawn = log.sql("""
            WITH served AS (SELECT run_id, max(arrival_us) AS last_us FROM requests GROUP BY run_id)
            SELECT reason, at_step, settings ->> '$.trial.scheduled_steps[0]' AS first_step
            FROM commands JOIN runs USING (run_id) JOIN served USING (run_id)
            WHERE type = 'merge' AND commands.at_us <= last_us
                AND settings ->> '$.trial.arm' = 'random:slack'
        """).fetchall()
        assert drawn
        assert {reason for reason, _, _ in drawn} == {"scheduled_step"}
        assert all(at_step >= int(first) for _, at_step, first in drawn)
        loads = log.sql("""
            SELECT settings -> '$.trial.block', count(DISTINCT n), count(*) FROM (
                SELECT run_id, count(*) AS n FROM requests GROUP BY run_id
            ) JOIN runs USING (run_id) GROUP BY ALL
        """).fetchall()
        assert [(kinds, runs) for _, kinds, runs in loads] == [(1, 3)]
