"""Hypothesis judges results, not speed; a broker, a run log and a controller for any test."""

import itertools
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import hypothesis
import pytest
from stand_in_controller import Controller

from slackwater.broker import EmbeddedBroker
from slackwater.settings import RunSettings
from slackwater.transport import make_topics

NUMBERS = itertools.count()

# A busy machine must not fail a test.
hypothesis.settings.register_profile("quiet", deadline=None)
hypothesis.settings.load_profile("quiet")


@pytest.fixture(scope="session")
def broker() -> Iterator[EmbeddedBroker]:
    """One broker for a whole process of tests; each test uses topics of its own."""
    with EmbeddedBroker() as running:
        yield running


@pytest.fixture
def settings(broker: EmbeddedBroker) -> RunSettings:
    """Settings with a topic prefix that no other test has."""
    prefix = f"test{next(NUMBERS)}"
    make_topics(broker.bootstrap, prefix, partitions=1)
    return RunSettings(bootstrap=broker.bootstrap, prefix=prefix, run_id="run-1")


@pytest.fixture(scope="session")
def empty_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run log without rows, for copies: making tables and views takes a second of a core."""
    from streams.runlog import RunLog

    made = tmp_path_factory.mktemp("empty") / "run.duckdb"
    RunLog(made).close()
    return made


@pytest.fixture
def log_path(empty_log: Path, tmp_path: Path) -> Path:
    """An empty run log of this test's own."""
    return Path(shutil.copy(empty_log, tmp_path / "run.duckdb"))


@pytest.fixture
def new_controller() -> Iterator[Callable[[RunSettings], Controller]]:
    made: list[Controller] = []

    def make(settings: RunSettings) -> Controller:
        made.append(Controller(settings))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def controller(
    settings: RunSettings, new_controller: Callable[[RunSettings], Controller]
) -> Controller:
    return new_controller(settings)
