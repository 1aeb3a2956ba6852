"""Who makes the merges: our learners, led merge by merge, or a command of the user's."""

import os
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from typing import Protocol

from calibration.effect.observed import ARMS, Arm
from sidecar.experiment.record import Merge
from sidecar.load import Anchor
from slackwater.errors import InputError, SlackwaterError

LOOK_AGAIN_S = 0.005

Check = Callable[[], None]


class MergeError(SlackwaterError):
    """Merges cannot be made, so there is nothing to measure."""


class Merging(Protocol):
    """What an experiment needs of those who merge. `check` is called while waiting; it may raise.

    Attributes:
        arms: which arms it can make.
        name: for people.
    """

    arms: tuple[Arm, ...]
    name: str

    def start(self, check: Check) -> None:
        """Bring everything up; raises `MergeError`."""

    def train(self, check: Check) -> None:
        """Learners take inner steps from now on."""

    def rest(self, check: Check) -> None:
        """Learners do nothing from now on."""

    def merge(self, name: str, check: Check) -> Merge:
        """Make one merge and wait for its end; raises `MergeError`."""

    def stop(self) -> None:
        """End everything that was started."""


class CommandMerging:
    """`--merge-command`: each run of the command is a merge, and its run time is the window.

    The learners are the user's own: they cannot be told to rest, so there is no arm without them.
    """

    def __init__(self, command: str, anchor: Anchor, limit_s: float = 600.0) -> None:
        self.arms: tuple[Arm, ...] = tuple(arm for arm in ARMS if arm != "nothing")
        self.name = f"command: {command}"
        self._anchor = anchor
        self._limit_s = limit_s
        self._process: subprocess.Popen[bytes] | None = None
        # A file and no pipe: a command that says much must not wait for somebody who reads it.
        self._words = tempfile.TemporaryFile()  # noqa: SIM115 - closed with this object
        try:
            self._command = shlex.split(command)
        except ValueError as error:
            msg = f"--merge-command {command!r}: {error}; quote it as for a shell"
            raise InputError(msg) from None
        if not self._command:
            msg = "--merge-command is empty; give the command that makes one merge"
            raise InputError(msg)
        if shutil.which(self._command[0]) is None:
            msg = f"cannot run --merge-command {self._command[0]}: there is no such program"
            raise InputError(msg)

    def start(self, check: Check) -> None:
        """Nothing is running between merges."""

    def train(self, check: Check) -> None:
        """They do as they always do."""

    def rest(self, check: Check) -> None:
        """Never asked for: there is no arm for it."""

    def merge(self, name: str, check: Check) -> Merge:
        """Run the command; raises `MergeError` when it fails or takes too long."""
        start_us, until_s = self._anchor.now_us(), time.monotonic() + self._limit_s
        self._process = self._begin(name)
        try:
            # Most merges end within one wait: the window is as long as the command.
            while not _ended(self._process, LOOK_AGAIN_S):
                check()
                if time.monotonic() > until_s:
                    msg = f"{self.name}: it has not ended within {self._limit_s:g} s"
                    raise MergeError(msg)
            end_us = self._anchor.now_us()
            self._judge(self._process)
        finally:
            self.stop()
        return Merge(id=name, start_us=start_us, end_us=end_us)

    def stop(self) -> None:
        """End a command that is running."""
        process, self._process = self._process, None
        if process is None:
            return
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def _begin(self, name: str) -> "subprocess.Popen[bytes]":
        # On no leash: starting that would be a part of the window.
        self._words.seek(0)
        self._words.truncate()
        try:
            return subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._words,
                env={**os.environ, "SLACKWATER_MERGE": name},
                start_new_session=True,
            )
        except OSError as error:
            msg = f"cannot run --merge-command {self._command[0]}: {error.strerror}"
            raise InputError(msg) from None

    def _judge(self, process: subprocess.Popen[bytes]) -> None:
        if process.returncode == 0:
            return
        self._words.seek(0)
        said = self._words.read().decode(errors="replace").strip()
        last = said.splitlines()[-1] if said else "it said nothing"
        msg = f"{self.name}: ended with {process.returncode}, {last}; it must make one merge"
        raise MergeError(msg)


def _ended(process: subprocess.Popen[bytes], timeout_s: float) -> bool:
    try:
        process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        return False
    return True
