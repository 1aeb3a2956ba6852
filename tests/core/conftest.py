"""One embedded broker for the tests of this folder; each uses topics of its own."""

import pytest

from slackwater.broker import EmbeddedBroker


@pytest.fixture(scope="session")
def bootstrap():
    with EmbeddedBroker() as broker:
        yield broker.bootstrap
