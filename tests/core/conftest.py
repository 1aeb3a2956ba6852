"""The broker's address, for tests that need no more of it."""

import pytest

from slackwater.broker import EmbeddedBroker


@pytest.fixture
def bootstrap(broker: EmbeddedBroker) -> str:
    return broker.bootstrap
