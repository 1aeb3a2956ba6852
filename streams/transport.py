"""Faust's Kafka transport with a short fetch wait.

Faust asks brokers to hold an empty fetch for 1.5 s. A broker that does not wake a waiting fetch
when data comes would then delay every command by up to that long. There is no setting for it, so
the consumer that Faust makes is adjusted before it starts (aiokafka reads the value in `start`).
"""

import typing

import aiokafka
from faust.transport.drivers import aiokafka as driver

FETCH_WAIT_MS = 10


# Faust's worker thread class, taken from where it is used: its package is not ours to name.
_WorkerThread: typing.Any = driver.AIOKafkaConsumerThread.Worker


class _Worker(_WorkerThread):  # type: ignore[misc]
    """A consumer that hangs on a broker that does not answer must not keep the process alive."""

    def __init__(self, *args: typing.Any, **kwargs: typing.Any) -> None:
        super().__init__(*args, **kwargs)
        self.daemon = True


class _Thread(driver.AIOKafkaConsumerThread):
    Worker = _Worker

    def _create_worker_consumer(self, transport: typing.Any) -> aiokafka.AIOKafkaConsumer:
        consumer = super()._create_worker_consumer(transport)
        if not hasattr(consumer, "_fetch_max_wait_ms"):
            msg = "aiokafka no longer keeps _fetch_max_wait_ms; streams/transport.py must follow"
            raise RuntimeError(msg)
        consumer._fetch_max_wait_ms = FETCH_WAIT_MS
        return consumer


class _Consumer(driver.Consumer):
    def _new_consumer_thread(self) -> _Thread:
        return _Thread(self, loop=self.loop, beacon=self.beacon)


class QuickTransport(driver.Transport):
    """aiokafka transport whose fetches come back within 10 ms."""

    Consumer = _Consumer
