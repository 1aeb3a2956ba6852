"""The testbed with its real parts: broker, stream job, torch learners and replay."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import duckdb
import psutil
import pytest
from stand_in_parts import ends

from slackwater.cli.report_logs import read_log
from slackwater.livequery import socket_paths

pytestmark = pytest.mark.kafka

SMALL = ["--parameters", "20000", "--step-s", "0.01", "--min-gap-steps", "20", "--json"]


class RealRun:
    """One `slackwater testbed` process, with a temporary directory and a run log of its own."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.temporary = folder / "t"
        self.temporary.mkdir()
        self.db = folder / "r.duckdb"
        command = [sys.executable, "-m", "slackwater", "testbed", "--db", str(self.db)]
        self.process = subprocess.Popen(
            [*command, *SMALL, *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env={**os.environ, "TMPDIR": str(self.temporary)},
        )
        self.errors: list[str] = []

    def wait_for(self, words: str) -> list[psutil.Process]:
        """Read the progress up to a line with these words; all processes of the run then."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.errors.append(line)
            if words in line:
                return psutil.Process(self.process.pid).children(recursive=True)
        raise AssertionError("".join(self.errors))

    def end(self) -> dict[str, object]:
        """Wait for the end; the summary."""
        out, errors = self.process.communicate(timeout=250)
        self.errors.append(errors)
        return json.loads(out) if out else {}

    def status(self) -> str:
        with duckdb.connect(str(self.db), read_only=True) as log:
            rows = log.sql("SELECT status FROM runs").fetchall()
        return str(rows[0][0])

    def deciding(self) -> set[tuple[str, bool]]:
        with duckdb.connect(str(self.db), read_only=True) as log:
            return set(log.sql("SELECT DISTINCT policy, active FROM decisions").fetchall())

    def left_in_temporary(self) -> list[str]:
        return sorted(str(path.relative_to(self.temporary)) for path in self.temporary.iterdir())


@contextlib.contextmanager
def real_run(folder: Path, *options: str) -> Iterator[RealRun]:
    run = RealRun(folder, *options)
    try:
        yield run
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(run.process.pid, signal.SIGKILL)
        run.process.communicate()


def test_a_short_run_is_complete_and_leaves_nothing_but_its_log(tmp_path: Path) -> None:
    # H_max stands within the run: a machine too busy for commands still merges.
    options = (
        "--duration",
        "24",
        "--max-gap-steps",
        "300",
        "--shadow",
        "slack,fixed_h",
        "--set",
        "bin_s=0.125",
    )
    with real_run(tmp_path, *options) as run:
        family = run.wait_for("running")
        summary = run.end()

    assert run.process.returncode == 0, "".join(run.errors)
    assert (summary["status"], summary["problems"], run.status()) == ("complete", [], "complete")
    events, merges, rows = summary["events"], summary["merges"], summary["rows"]
    assert (events["lost"], events["dead"]) == (0, 0)
    assert merges["commanded"] >= 1
    assert merges["finished_by_all"] >= 1
    assert merges["bytes_exchanged"] == merges["bytes_expected"] > 0
    assert {name for name, count in rows.items() if count == 0} == {
        "dead_letters", "draws", "incidents", "placements", "verdicts",
    }  # fmt: skip
    assert run.deciding() == {("fixed_h", False), ("slack", False), ("wa_forecast", True)}
    assert [process for process in family if not ends(process.pid)] == []
    assert run.left_in_temporary() == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["r.duckdb", "t"]


@pytest.mark.slow
def test_a_run_without_merges_trains_and_is_the_control_of_its_load(tmp_path: Path) -> None:
    with real_run(tmp_path, "--duration", "3", "--no-merges", "--max-gap-steps", "30") as run:
        summary = run.end()

    assert run.process.returncode == 0, "".join(run.errors)
    assert (summary["status"], summary["problems"]) == ("complete", [])
    assert all(learner["steps"] > 30 for learner in summary["learners"])
    assert (summary["merges"]["commanded"], summary["rows"]["merges"]) == (0, 0)
    assert summary["decisions"] == []
    (control,) = read_log(run.db)
    assert (control.run.policy, control.run.merges, control.run.late_merges) == ("none", 0, 0)
    assert control.run.load == "aperiodic, seed 0"


@pytest.mark.slow
@pytest.mark.parametrize("words", ["starting the learners", "running"])
def test_ctrl_c_ends_everything_in_order_and_prints_what_was_logged(
    tmp_path: Path, words: str
) -> None:
    with real_run(tmp_path, "--duration", "300") as run:
        family = run.wait_for(words)
        os.killpg(run.process.pid, signal.SIGINT)
        summary = run.end()

    assert run.process.returncode == 130, "".join(run.errors)
    assert (summary["status"], run.status()) == ("interrupted", "failed")
    assert summary["events"]["lost"] in (0, None)
    assert [process for process in family if not ends(process.pid)] == []
    assert run.left_in_temporary() == []


@pytest.mark.slow
def test_sigterm_to_the_supervisor_alone_ends_everything(tmp_path: Path) -> None:
    with real_run(tmp_path, "--duration", "300") as run:
        family = run.wait_for("running")
        run.process.terminate()
        summary = run.end()

    assert run.process.returncode == 143, "".join(run.errors)
    assert summary["status"] == "interrupted"
    assert [process for process in family if not ends(process.pid)] == []


@pytest.mark.slow
@pytest.mark.parametrize("victim", ["stream", "replay", "tansu"])
def test_a_part_that_is_killed_fails_the_run_and_nothing_stays(tmp_path: Path, victim: str) -> None:
    with real_run(tmp_path, "--duration", "300") as run:
        family = run.wait_for("running")
        next(part for part in family if victim in " ".join(part.cmdline()[:4])).kill()
        summary = run.end()

    assert run.process.returncode == 1, "".join(run.errors)
    assert (summary["status"], run.status()) == ("failed", "failed")
    assert [process for process in family if not ends(process.pid)] == []
    (kept,) = run.left_in_temporary()
    assert str(run.temporary / kept) in str(summary["logs"])
    assert [path.name for path in (run.temporary / kept).iterdir()] == ["logs"]
    assert not any(path.exists() for path in socket_paths(run.db))
    assert "Traceback" not in run.errors[-1]


@pytest.mark.slow
def test_a_learner_that_is_killed_is_started_again_and_the_run_is_complete(tmp_path: Path) -> None:
    with real_run(tmp_path, "--duration", "40", "--max-gap-steps", "300") as run:
        family = run.wait_for("running")
        next(part for part in family if "trainer" in " ".join(part.cmdline()[:4])).kill()
        summary = run.end()

    assert run.process.returncode == 0, "".join(run.errors)
    assert (summary["status"], run.status()) == ("complete", "complete")
    assert "started again: learner-" in "".join(run.errors)
    assert summary["merges"]["finished_by_all"] >= 1
    assert [process for process in family if not ends(process.pid)] == []


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the leash is the Linux kernel's")
def test_no_process_outlives_a_supervisor_killed_by_sigkill(tmp_path: Path) -> None:
    with real_run(tmp_path, "--duration", "300") as run:
        family = run.wait_for("running")
        run.process.kill()
        run.process.wait()
        assert [process for process in family if not ends(process.pid)] == []

    assert len(family) >= 5
    assert run.status() != "complete"
