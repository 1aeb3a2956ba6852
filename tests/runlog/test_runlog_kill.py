"""kill -9 of the writer at any moment: nothing lost below the stored offset, nothing twice."""

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from streams.runlog import RunLog

WRITER = Path(__file__).parent / "writer.py"


def run_and_kill(path, after_s, rows):
    """Let a writer commit at least once and kill it; returns the last offset it said."""
    with subprocess.Popen(
        [sys.executable, str(WRITER), str(path), str(rows)], stdout=subprocess.PIPE, text=True
    ) as writer:
        said = writer.stdout.readline()
        assert said, "the writer died by itself"
        time.sleep(after_s)
        writer.kill()
        rest = writer.stdout.read().split("\n")
    whole = [line for line in [said, *rest[:-1]] if line.strip()]
    return int(whole[-1])


def check(path, said, per_message):
    with RunLog(path) as log:
        stored = log.stored_offsets()["t", 0]
        ((rows, ids, least, most),) = log.rows(
            "SELECT count(*), count(DISTINCT id), min(topic_offset), max(topic_offset) "
            "FROM requests"
        )
    expected = per_message * sum(offset % 7 + 1 for offset in range(stored))
    assert stored >= said
    assert (rows, ids) == (expected, expected)
    assert (least, most) == (0, stored - 1)


def trials(path, count, rows, longest_s):
    moments = random.Random(5)
    for _ in range(count):
        check(path, run_and_kill(path, moments.uniform(0, longest_s), rows), rows)


def test_kill_9_loses_nothing_and_doubles_nothing(path):
    trials(path, 4, rows=1, longest_s=0.3)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_kill_9_many_times_loses_nothing_and_doubles_nothing(path):
    trials(path, 60, rows=1, longest_s=0.3)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_kill_9_amid_checkpoints_loses_nothing_and_doubles_nothing(path):
    """Enough rows that the write-ahead log is folded into the file several times a second."""
    trials(path, 15, rows=400, longest_s=3.0)
