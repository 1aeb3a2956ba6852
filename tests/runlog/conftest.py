"""A run log small enough to reckon by hand, and the strategies of the event schema."""

import shutil
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "core"))

from handmade import fill

from streams.runlog import RunLog


@pytest.fixture
def path(log_path):
    return log_path


@pytest.fixture
def log(path):
    with RunLog(path) as opened:
        yield opened


@pytest.fixture(scope="session")
def filled(tmp_path_factory, empty_log):
    """The hand-made log, closed."""
    made = shutil.copy(empty_log, tmp_path_factory.mktemp("handmade") / "run.duckdb")
    with RunLog(made) as opened:
        fill(opened)
    return made
