"""The run's temporary directory: gone after success, only the logs stay after a failure.

A lock on it is held as long as the supervisor lives, so the next run can tell what a supervisor
killed -9 has left, and removes it.
"""

import fcntl
import shutil
import tempfile
from pathlib import Path
from types import TracebackType
from typing import IO

PREFIX = "slackwater-testbed-"
LOCK = "lock"


class WorkDir:
    """Context manager around the directory.

    Attributes:
        path: the directory.
        logs: what the parts say; kept when `keep_logs` is set.
        scratch: everything else, such as checkpoints; never kept.
    """

    def __init__(self, parent: Path | None = None, prefix: str = PREFIX) -> None:
        parent = parent or Path(tempfile.gettempdir())
        sweep(parent, prefix)
        self.path = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
        self._lock = _locked(self.path)
        self.logs = self.path / "logs"
        self.scratch = self.path / "scratch"
        self.logs.mkdir()
        self.scratch.mkdir()
        self.keep_logs = False

    def __enter__(self) -> "WorkDir":
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self.keep_logs:
            shutil.rmtree(self.scratch)
            (self.path / LOCK).unlink()
        else:
            shutil.rmtree(self.path)
        self._lock.close()


def _locked(folder: Path) -> IO[str]:
    # Under its name only once it is held: a sweep of another run may come at any moment.
    unnamed = folder / f"{LOCK}.new"
    lock = unnamed.open("w")
    fcntl.flock(lock, fcntl.LOCK_EX)
    unnamed.rename(folder / LOCK)
    return lock


def sweep(parent: Path, prefix: str = PREFIX) -> None:
    """Remove the directories of supervisors that died without a chance to do so."""
    for lock_path in parent.glob(f"{prefix}*/{LOCK}"):
        try:
            with lock_path.open("r+") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(lock_path.parent)
        except (BlockingIOError, FileNotFoundError, PermissionError):
            continue  # Alive, gone meanwhile, or another user's.
