"""A file that one process, or one thread of it, has for itself (flock).

The lock is the system's: it goes with the process that holds it, by kill -9 too.
"""

import fcntl
import os
from pathlib import Path
from typing import BinaryIO


def open_alone(path: Path) -> BinaryIO | None:
    """Open `path`, made when it is not there, and lock it; None while another has it so.

    Closing it lets the next one in. Raises `OSError` for a file that cannot be opened or locked.
    """
    while True:
        file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666), "r+b")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_at(file, path):
                return file
        except BlockingIOError:
            file.close()
            return None
        except BaseException:
            file.close()
            raise
        # Its last holder renamed or removed it between opening and locking.
        file.close()


def _is_at(file: BinaryIO, path: Path) -> bool:
    try:
        there = path.stat()
    except FileNotFoundError:
        return False
    return os.path.samestat(there, os.fstat(file.fileno()))
