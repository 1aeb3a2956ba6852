"""Groups of real learners, `slackwater trainer` processes, beside a real stream job."""

import json
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from processes import command

from slackwater.broker import free_port
from slackwater.livequery import query

PATIENCE_S = 300.0
TINY = ("--parameters", "20000", "--min-gap-steps", "10", "--max-gap-steps", "200")


@contextmanager
def learners(
    env: Mapping[str, str],
    step_s: Mapping[str, float],
    *options: str,
    meeting_port: int | None = None,
) -> Iterator[dict[str, subprocess.Popen[str]]]:
    """One group, each learner with its own pace in seconds a step; killed at the end if need be.

    They meet at the first one's, or where `slackwater group serve` listens at `meeting_port`.
    """
    started: dict[str, subprocess.Popen[str]] = {}
    place = {"WORLD_SIZE": str(len(step_s)), "MASTER_ADDR": "127.0.0.1"}
    place["MASTER_PORT"] = str(meeting_port or free_port())
    if meeting_port is not None:
        place["TORCHELASTIC_USE_AGENT_STORE"] = "True"
    try:
        for rank, (name, pace_s) in enumerate(step_s.items()):
            given = ["--learner", name, "--participants", ",".join(step_s), *TINY]
            started[name] = subprocess.Popen(
                command("trainer", *given, "--step-s", str(pace_s), *options, "--json"),
                env={**env, **place, "RANK": str(rank)},
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
        yield started
    finally:
        for process in started.values():
            if process.poll() is None:
                process.kill()
            process.communicate()


def end(started: Mapping[str, subprocess.Popen[str]]) -> dict[str, dict[str, Any]]:
    """End learners in order; their summaries."""
    for process in started.values():
        process.send_signal(signal.SIGTERM)
    said = {name: process.communicate(timeout=60)[0] for name, process in started.items()}
    assert {process.returncode for process in started.values()} == {0}
    return {name: json.loads(out) for name, out in said.items()}


def rows(path: Path, sql: str) -> list[tuple[Any, ...]]:
    """What the run log answers, whether or not it is being written."""
    return [tuple(row.values()) for row in query(path, sql).to_pylist()]


def until_logged(path: Path, sql: str) -> None:
    """Wait until the run log answers true."""
    deadline = time.monotonic() + PATIENCE_S
    while not rows(path, sql)[0][0]:
        assert time.monotonic() < deadline, rows(path, "FROM merge_windows")
        time.sleep(0.2)
