"""A learner that is to take nothing from others yields to other sessions too."""

import subprocess
import sys

import pytest

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
    assert said.stdout.startswith("7 /autogroup-")
    assert said.stdout.strip().endswith("nice 7")
