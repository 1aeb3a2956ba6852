"""A file that one process, or one thread of it, has for itself while it writes."""

import logging
import os
import time
from pathlib import Path
from typing import BinaryIO

from slackwater.flock import open_alone

# Longer than a checkpoint takes that is being written; who holds it longer stands still.
PATIENCE_S = 60.0
SAY_AFTER_S = 0.5
LOOK_AGAIN_S = 0.02
LOCKS = Path("/proc/locks")

log = logging.getLogger("trainer")


class HeldError(Exception):
    """Another has had the file for too long; the message says who."""


def alone(path: Path) -> BinaryIO:
    """Open `path`, made when it is not there, once no other process or thread has it so.

    What a process that died has left is taken over. Closing it lets the next one in. Raises
    `HeldError` after `PATIENCE_S` of wall time.
    """
    begin_s = time.monotonic()
    said = False
    while (file := open_alone(path)) is None:
        waited_s = time.monotonic() - begin_s
        if waited_s >= PATIENCE_S:
            msg = f"{_holder(path)} has had {path} for {PATIENCE_S:g} s and more; end it"
            raise HeldError(msg)
        if waited_s >= SAY_AFTER_S and not said:
            said = True
            log.info("%s writes %s; waiting for it, %g s at most", _holder(path), path, PATIENCE_S)
        time.sleep(LOOK_AGAIN_S)
    return file


def _holder(path: Path) -> str:
    """Who has the lock, by pid where the system tells."""
    try:
        inode = str(path.stat().st_ino)
        lines = [line.split() for line in LOCKS.read_text().splitlines()]
    except OSError:
        return "another process"
    # number: FLOCK ADVISORY WRITE pid major:minor:inode start end; those who wait have a "->".
    pids = [one[4] for one in lines if one[1] == "FLOCK" and one[5].rpartition(":")[2] == inode]
    own = str(os.getpid())
    named = "this process" if pids[:1] == [own] else f"process {pids[0]}" if pids else ""
    return named or "another process"
