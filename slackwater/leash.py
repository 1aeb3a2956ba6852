"""Children that die with their parent, even when the parent is killed -9.

The kernel sends SIGKILL to a leashed process the moment the thread that started it ends, so start
leashed processes from a thread that lives as long as they should: the main one. The leash is
this file run as a program in the child before the real command takes the process over (a
`preexec_fn` would run Python between fork and exec, which deadlocks when other threads hold
locks). Elsewhere than on Linux the command runs without one.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def leashed(command: list[str]) -> list[str]:
    """The command that runs `command` on a leash held by this process.

    The process id and all signals are the command's own: nothing stands between.
    """
    return [sys.executable, "-I", "-S", __file__, str(os.getpid()), *command]


def _main(parent: int, command: list[str]) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # It died before the leash was on.
        sys.exit(1)
    try:
        os.execvp(command[0], command)  # noqa: S606
    except OSError as error:
        sys.stderr.write(f"cannot run {command[0]}: {error.strerror}\n")
        sys.exit(127)


if __name__ == "__main__":
    _main(int(sys.argv[1]), sys.argv[2:])
