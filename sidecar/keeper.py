"""A program between a server and whoever started it: when that one dies, the whole group does.

A server starts processes of its own, and a leash holds the first alone. This keeper starts the
server in a process group and waits for the end of its own standard input, which comes when the
starter closes it or dies, by kill -9 too. Then it kills what is left of the group.

    python -m sidecar.keeper COMMAND [ARGUMENT ...]

Its exit code is the server's, 128 and the signal's number where a signal ended it.
"""

import contextlib
import os
import select
import signal
import subprocess
import sys

from slackwater.leash import leashed


def main(command: list[str]) -> int:
    """Run the command; returns its exit code."""
    # On a leash, for the case that the keeper itself is killed.
    server = subprocess.Popen(leashed(command), stdin=subprocess.DEVNULL, start_new_session=True)
    signal.signal(signal.SIGTERM, lambda *_: server.terminate())
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    ended = os.pidfd_open(server.pid)
    readable: list[int] = []
    while not readable:
        readable, _, _ = select.select([0, ended], [], [])
    code = server.wait() if ended in readable else -signal.SIGKILL
    with contextlib.suppress(ProcessLookupError):
        os.killpg(server.pid, signal.SIGKILL)
    server.wait()
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
