"""Events to Kafka from a process beside the server: checked at once, then in a thread."""

import contextlib
import logging
from collections.abc import Iterator

from sidecar.outbox import Outbox
from slackwater.settings import RunSettings
from slackwater.topics import REQUESTS
from slackwater.transport import check_topic, wait_for_broker
from slackwater.vllm.sender import Sender

END_S = 10.0


@contextlib.contextmanager
def publishing(settings: RunSettings, sidecar: str, log: logging.Logger) -> Iterator[Outbox]:
    """An outbox whose events go to the broker until the context ends.

    A broker that goes away later holds nothing up: the outbox drops its oldest events and counts
    them.

    Raises:
        BrokerError: the broker or its topic is not there at the start.
    """
    wait_for_broker(settings.bootstrap)
    check_topic(settings.bootstrap, settings.prefix, REQUESTS)
    outbox, sender = Outbox(settings.run_id, sidecar), Sender(settings, log)
    sender.add(outbox)
    sender.start()
    try:
        yield outbox
    finally:
        sender.close(END_S)
