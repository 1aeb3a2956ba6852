"""A learner that is to take nothing from others yields to other sessions too."""

import errno
import os
import subprocess
import sys
import time

import pytest

from trainer import ondemand
from trainer.ondemand import SESSION

SAY = """
from trainer.ondemand import SESSION, yield_to_others
import os
yield_to_others(7)
print(os.nice(0), SESSION.read_text())
"""


@pytest.mark.skipif(not SESSION.exists(), reason="this kernel does not group sessions")
def test_niceness_counts_against_other_sessions() -> None:
    command = [sys.executable, "-c", SAY]
    said = subprocess.run(
        command, capture_output=True, text=True, check=True, start_new_session=True
    )
    assert said.stdout.startswith(f"{min(19, os.nice(0) + 7)} /autogroup-")
    assert said.stdout.strip().endswith("nice 7")


class Held:
    """A session whose niceness the kernel does not change yet: another one's was a moment ago."""

    def __init__(self, times: int) -> None:
        self.times = times
        self.nice = ""

    def write_text(self, text: str, encoding: str) -> None:
        assert encoding == "ascii"
        if self.times:
            self.times -= 1
            raise BlockingIOError(errno.EAGAIN, "try again")
        self.nice = text


@pytest.mark.parametrize(("times", "nice", "said"), [(3, "7", ""), (1000, "", "may not count")])
def test_learners_that_start_at_one_moment_each_get_their_turn(
    times: int,
    nice: str,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    session = Held(times)
    monkeypatch.setattr(ondemand, "SESSION", session)
    monkeypatch.setattr(os, "nice", lambda _: 0)
    monkeypatch.setattr(time, "sleep", lambda _: None)
    ondemand.yield_to_others(7)
    assert session.nice == nice
    assert said in capsys.readouterr().err
    assert bool(said) == (session.times > 0)
