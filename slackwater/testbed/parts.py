"""One supervised process: how it starts, says that it is ready, ends, and what its last words were.

Each part runs in a session of its own, so that Ctrl-C in the terminal reaches the supervisor
alone, and on a leash, so that it cannot outlive the supervisor.
"""

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from slackwater.errors import SlackwaterError
from slackwater.leash import leashed

LAST_LINES = 5
FIRST_PAUSE_S = 0.5


@dataclass(frozen=True, slots=True)
class PartSpec:
    """What it takes to start a part.

    Attributes:
        name: as people read it, such as `learner-0`.
        command: program and arguments; `--ready-file` is added.
        env: environment variables on top of the supervisor's own.
        leaves_by_itself: True when it may end with code 0 before it is told to.
        restarts: how often it is started again when it dies.
    """

    name: str
    command: list[str]
    env: Mapping[str, str] = field(default_factory=dict)
    leaves_by_itself: bool = False
    restarts: int = 0


class PartError(SlackwaterError):
    """A part did not do what it should; carries its last words and where its log is."""

    def __init__(self, part: str, what: str, last_lines: list[str], log_path: Path | None) -> None:
        super().__init__(f"{part} {what}")
        self.part = part
        self.what = what
        self.last_lines = last_lines
        self.log_path = log_path


class Part:
    """A child process with its ready file, its log and its JSON summary in `folder`."""

    def __init__(self, spec: PartSpec, folder: Path) -> None:
        self.spec = spec
        self.name = spec.name
        self.log_path = folder / f"{spec.name}.log"
        self._out_path = folder / f"{spec.name}.out"
        self._ready_path = folder / f"{spec.name}.ready"
        self._process: subprocess.Popen[bytes] | None = None
        self.exit_code: int | None = None
        self.restarted = 0
        self._again_at_s: float | None = None

    def start(self) -> None:
        """Start the process; call from the thread that lives as long as it should."""
        self._ready_path.unlink(missing_ok=True)
        command = [*self.spec.command, "--ready-file", str(self._ready_path)]
        with self.log_path.open("ab") as log, self._out_path.open("wb") as out:
            self._process = subprocess.Popen(
                leashed(command),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=log,
                env={**os.environ, **self.spec.env},
                start_new_session=True,
            )

    @property
    def pid(self) -> int | None:
        """Process id, None before `start`."""
        return self._process.pid if self._process else None

    @property
    def running(self) -> bool:
        """True between `start` and the end of the process; notes its exit code at the end."""
        if self._process is None or self.exit_code is not None:
            return False
        self.exit_code = self._process.poll()
        if self.exit_code is None:
            return True
        self._end_group()
        return False

    @property
    def resting(self) -> bool:
        """True while it has died and is about to be started again."""
        return self._again_at_s is not None

    @property
    def ready(self) -> bool:
        """True once the part has made its ready file."""
        return self._ready_path.exists()

    def terminate(self) -> None:
        """Ask it to end (SIGTERM)."""
        if self._process is not None and self.running:
            self._process.terminate()

    def kill(self) -> None:
        """End it and all it started, at once, and wait for that."""
        if self._process is not None and self.running:
            self._end_group()
            self.exit_code = self._process.wait()

    def summary(self) -> dict[str, Any] | None:
        """The JSON object it printed at its end, None when it printed none."""
        text = self._out_path.read_text(errors="replace") if self._out_path.exists() else ""
        for line in (text, *reversed(text.splitlines())):
            with contextlib.suppress(json.JSONDecodeError):
                found = json.loads(line)
                return found if isinstance(found, dict) else None
        return None

    def check(self, now_s: float | None = None) -> None:
        """Raise `PartError` when it has ended although it should be running.

        One that may be started again is, from `now_s` on the monotonic clock on, after a pause
        that doubles each time.
        """
        if self._process is None or self.running:
            return
        now_s = time.monotonic() if now_s is None else now_s
        if self._again_at_s is not None and now_s >= self._again_at_s:
            self._again_at_s, self.exit_code = None, None
            self.start()
        elif self._again_at_s is None and self.exit_code and self.restarted < self.spec.restarts:
            self._again_at_s = now_s + FIRST_PAUSE_S * 2**self.restarted
            self.restarted += 1
        if self._again_at_s is not None or self.exit_code is None:
            return
        if self.exit_code != 0 or not self.spec.leaves_by_itself:
            what = f"ended {describe_exit(self.exit_code)} before it was told to"
            raise self.failure(what)

    def failure(self, what: str) -> PartError:
        """A `PartError` of this part with its last words."""
        return PartError(self.name, what, last_lines(self.log_path), self.log_path)

    def _end_group(self) -> None:
        # What the part itself has started must not outlive it either.
        if self.pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)


def describe_exit(code: int | None) -> str:
    """How a process ended, in words: `with exit code 3`, `by SIGKILL`."""
    if code is None:
        return "not"
    if code < 0:
        return f"by {signal.Signals(-code).name}"
    return f"with exit code {code}"


def last_lines(path: Path, count: int = LAST_LINES) -> list[str]:
    """The last lines of a log that are not blank, [] when there is no log."""
    if not path.exists():
        return []
    lines = path.read_text(errors="replace").splitlines()
    return [line.rstrip() for line in lines if line.strip()][-count:]
