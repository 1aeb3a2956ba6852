"""A file that one process, or one thread of it, has for itself while it writes.

The lock is the system's (flock): it goes with the process that holds it, however that ends.
"""

import fcntl
import logging
import os
import time
from pathlib import Path
from typing import BinaryIO

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
    while True:
        file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666), "r+b")
        try:
            if _locked(file) and _is_at(file, path):
                return file
            waited_s = time.monotonic() - begin_s
            if waited_s >= PATIENCE_S:
                msg = f"{_holder(file)} has had {path} for {PATIENCE_S:g} s and more; end it"
                raise HeldError(msg)
            if waited_s >= SAY_AFTER_S and not said:
                said = True
                what = "%s writes %s; waiting for it, %g s at most"
                log.info(what, _holder(file), path, PATIENCE_S)
        except BaseException:
            file.close()
            raise
        # The one before has renamed or removed it, or has it still.
        file.close()
        time.sleep(LOOK_AGAIN_S)


def _locked(file: BinaryIO) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_at(file: BinaryIO, path: Path) -> bool:
    try:
        there = path.stat()
    except FileNotFoundError:
        return False
    return os.path.samestat(there, os.fstat(file.fileno()))


def _holder(file: BinaryIO) -> str:
    """Who has the lock, by pid where the system tells."""
    inode = str(os.fstat(file.fileno()).st_ino)
    try:
        lines = [line.split() for line in LOCKS.read_text().splitlines()]
    except OSError:
        return "another process"
    # number: FLOCK ADVISORY WRITE pid major:minor:inode start end; those who wait have a "->".
    pids = [one[4] for one in lines if one[1] == "FLOCK" and one[5].rpartition(":")[2] == inode]
    own = str(os.getpid())
    named = "this process" if pids[:1] == [own] else f"process {pids[0]}" if pids else ""
    return named or "another process"
