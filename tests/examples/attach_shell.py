"""The commands of docs/attach.md as processes, started in its order."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from slackwater.broker import free_port

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 60.0


def clean_environment() -> dict[str, str]:
    ours = ("SLACKWATER", "KAFKA", "MASTER_")
    return {k: v for k, v in os.environ.items() if not k.startswith(ours)}


@dataclass
class Shell:
    """One folder and environment, in which commands are started and ended."""

    folder: Path
    env: dict[str, str] = field(default_factory=clean_environment)

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, *arguments],
            cwd=self.folder,
            env=self.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run_script(self, script: str) -> subprocess.CompletedProcess[str]:
        """A shell script to its end; its processes end with it, whatever happens."""
        out, err = self.folder / "script.out", self.folder / "script.err"
        with out.open("w") as to_out, err.open("w") as to_err:
            process = subprocess.Popen(
                ["bash", "-e", "-c", script],
                cwd=self.folder,
                env=self.env,
                stdout=to_out,
                stderr=to_err,
                start_new_session=True,
            )
            try:
                code = process.wait(timeout=4 * PATIENCE_S)
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        return subprocess.CompletedProcess(script, code, out.read_text(), err.read_text())

    @contextlib.contextmanager
    def part(self, name: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
        """A command of the product that says when it is ready; ended whatever happens."""
        ready = self.folder / f"{name}.ready"
        command = ("-m", "slackwater", name, "--ready-file", str(ready), "--json", *arguments)
        process = self.start(*command)
        try:
            deadline = time.monotonic() + PATIENCE_S
            while not ready.exists():
                assert process.poll() is None, process.communicate()[1]
                assert time.monotonic() < deadline, f"{name} was not ready in time"
                time.sleep(0.05)
            yield process
        finally:
            process.kill()
            process.communicate()


def end(process: subprocess.Popen[str], number: int = signal.SIGTERM) -> dict[str, Any]:
    """End a part in order; returns the JSON object that it printed."""
    process.send_signal(number)
    out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, err
    found: dict[str, Any] = json.loads(out)
    return found


def run_pair(
    shell: Shell, example: str, *options: str, patience_s: float = 4 * PATIENCE_S
) -> list[str]:
    """Both learners of an example to their end; returns what each printed."""
    shell.env["MASTER_PORT"] = str(free_port())
    path = str(ROOT / "examples" / example)
    pair = [shell.start(path, rank, *options) for rank in ("0", "1")]
    try:
        ended = [learner.communicate(timeout=patience_s) for learner in pair]
    finally:
        for learner in pair:
            learner.kill()
            learner.wait()
    for learner, (_, err) in zip(pair, ended, strict=True):
        assert learner.returncode == 0, err
    return [out for out, _ in ended]
