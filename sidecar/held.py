"""One process at a time: a hidden lock beside a file, held while that file grows."""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from slackwater.errors import InputError


@contextlib.contextmanager
def held(path: Path) -> Iterator[None]:
    """Hold a file, there or not, against all who hold it so; raises `InputError` where one does.

    The system lets go of it when its holder dies, by kill -9 too.
    """
    whole = Path(os.path.realpath(path))
    lock_path = whole.with_name(f".{whole.name}.lock")
    try:
        lock = _locked(lock_path)
    except BlockingIOError:
        msg = f"another process is writing {path}; wait until it has ended, or name another file"
        raise InputError(msg) from None
    except OSError as error:
        msg = f"cannot write {lock_path}, which holds {path}: {error.strerror}; name another file"
        raise InputError(msg) from None
    with lock:
        try:
            yield
        finally:
            lock_path.unlink(missing_ok=True)


def _locked(path: Path) -> IO[str]:
    while True:
        lock = path.open("w")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Its last holder may have removed it between opening and locking.
            if os.path.samestat(path.stat(), os.fstat(lock.fileno())):
                return lock
        except FileNotFoundError:
            pass
        except OSError:
            lock.close()
            raise
        lock.close()
