"""One process at a time: a hidden lock beside a file, held while that file grows."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from slackwater.errors import InputError
from slackwater.flock import open_alone


@contextlib.contextmanager
def held(path: Path) -> Iterator[None]:
    """Hold a file, there or not, against all who hold it so; raises `InputError` where one does.

    The system lets go of it when its holder dies, by kill -9 too.
    """
    whole = Path(os.path.realpath(path))
    lock_path = whole.with_name(f".{whole.name}.lock")
    try:
        lock = open_alone(lock_path)
    except OSError as error:
        msg = f"cannot write {lock_path}, which holds {path}: {error.strerror}; name another file"
        raise InputError(msg) from None
    if lock is None:
        msg = f"another process is writing {path}; wait until it has ended, or name another file"
        raise InputError(msg)
    with lock:
        try:
            yield
        finally:
            lock_path.unlink(missing_ok=True)
