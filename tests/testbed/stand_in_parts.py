"""Stand-in parts: real processes that behave well, die, hang or refuse to end, on demand."""

import os
import select
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

from slackwater.testbed.parts import Part, PartSpec

STAND_IN = textwrap.dedent(
    """
    import json, os, signal, subprocess, sys, time

    mode = sys.argv[1]
    ready = sys.argv[sys.argv.index("--ready-file") + 1]
    ended = []
    signal.signal(signal.SIGTERM, lambda *_: ended.append(1))
    if mode == "dies":
        print("cannot open the flux capacitor", file=sys.stderr)
        sys.exit(3)
    if mode == "never-ready":
        while not ended:
            time.sleep(0.02)
        sys.exit(0)
    if mode == "parent":
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        print(child.pid, file=sys.stderr)
    open(ready, "w").close()
    if mode == "dies-once":
        marker = os.environ["ORDER"] + "." + os.environ["NAME"]
        if not os.path.exists(marker):
            open(marker, "w").close()
            os.kill(os.getpid(), signal.SIGKILL)
    if mode == "plays":
        print(json.dumps({"acked": 7}))
        sys.exit(0)
    if mode == "dies-later":
        time.sleep(0.3)
        print("CUDA is on fire", file=sys.stderr)
        os.kill(os.getpid(), signal.SIGKILL)
    if mode == "deaf":
        while True:
            time.sleep(0.02)
    while not ended:
        time.sleep(0.02)
    with open(os.environ["ORDER"], "a") as order:
        print(os.environ["NAME"], file=order)
    print(json.dumps({"mode": mode}))
    sys.exit(4 if mode == "ends-badly" else 0)
    """
)

MakePart = Callable[..., Part]


def part_maker(folder: Path) -> MakePart:
    """Makes parts by name and mode in this folder."""
    script = folder / "stand_in.py"
    script.write_text(STAND_IN)

    def make(name: str, mode: str = "works", restarts: int = 0) -> Part:
        env = {"ORDER": str(folder / "order"), "NAME": name}
        command = [sys.executable, "-S", str(script), mode]
        leaves = name == "replay"
        return Part(
            PartSpec(name, command, env, leaves_by_itself=leaves, restarts=restarts), folder
        )

    return make


def alive(pid: int | None) -> bool:
    """True while the process runs; a zombie does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z" and os.getpid() != pid


def ends(pid: int) -> bool:
    """Wait for the end of a process that may not be this one's child; False when it goes on."""
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([pidfd], [], [], 10)[0])
    finally:
        os.close(pidfd)
