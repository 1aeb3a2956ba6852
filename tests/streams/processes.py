"""Starts the product's own commands as processes, and ends them."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

START_TIMEOUT_S = 120.0


def environment(bootstrap: str, run_id: str, clock: str | None = None) -> dict[str, str]:
    env = {k: v for k, v in os.environ.items() if not k.startswith("SLACKWATER_")}
    env |= {"KAFKA_BOOTSTRAP_SERVERS": bootstrap, "SLACKWATER_RUN_ID": run_id}
    return env | ({"SLACKWATER_CLOCK": clock} if clock else {})


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "slackwater", *arguments]


@contextmanager
def stream(env: dict[str, str], folder: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A stream process that is ready; stopped by SIGTERM unless it has ended."""
    ready = folder / f"ready-{time.monotonic_ns()}"
    process = subprocess.Popen(
        command("stream", "--ready-file", str(ready), "--json", *arguments),
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        deadline = time.monotonic() + START_TIMEOUT_S
        while not ready.exists():
            assert process.poll() is None, process.communicate()[1]
            assert time.monotonic() < deadline, "the stream was not ready in time"
            time.sleep(0.05)
        yield process
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def stop(process: subprocess.Popen[str]) -> dict[str, Any]:
    """End a stream process in order; returns its summary."""
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 0, err
    summary: dict[str, Any] = json.loads(out)
    return summary
