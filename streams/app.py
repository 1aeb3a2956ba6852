"""The Faust app: feeds the job from its topics, sends what it returns, commits what it logs.

A message is acknowledged to Kafka only after its rows are in the run log, so the offsets in Kafka
never pass those in the log; after a crash the log's own offsets decide what is new.
"""

import asyncio
import time
from collections.abc import Callable, Iterable
from typing import Any

import faust
from aiokafka.errors import KafkaError
from kafka import TopicPartition

from slackwater.codec import encode_lines
from slackwater.topics import ALL_TOPICS, REQUESTS, Topic
from streams.acks import BinHold, Shipper
from streams.job import DECIDE_TOPICS, Job, Message, Outgoing
from streams.offsets import read_again
from streams.settings import StreamSettings
from streams.transport import QuickTransport

TICK_S = 0.05
DRAIN_POLL_S = 0.01
LAG_S = 1.0


def read_topics(settings: StreamSettings) -> tuple[Topic, ...]:
    """The topics that a process with these roles reads."""
    if "log" in settings.roles:
        return ALL_TOPICS
    wanted: tuple[Topic, ...] = ()
    if "count" in settings.roles:
        wanted += (REQUESTS,)
    if "decide" in settings.roles:
        wanted += DECIDE_TOPICS
    return wanted


class _App(faust.App):
    """Without tables there is nothing to keep in a data directory, so none is made."""

    def _create_directories(self) -> None:
        return


def build_app(settings: StreamSettings, group_id: str) -> faust.App:
    """A Faust app without tables, leader or web server, on the short-fetch transport.

    The session times keep a start under 6 s where a broker makes members wait for each other.
    """
    app = _App(
        group_id,
        broker=[f"kafka://{host}" for host in settings.run.bootstrap.split(",")],
        autodiscover=False,
        web_enabled=False,
        topic_allow_declare=False,
        topic_disable_leader=True,
        broker_session_timeout=6,
        broker_heartbeat_interval=1,
        broker_rebalance_timeout=6,
        broker_commit_interval=1.0,
        consumer_auto_offset_reset=settings.offset_reset,
        producer_acks=-1,
        producer_max_request_size=1 << 22,
        stream_wait_empty=False,
    )
    app.transport = QuickTransport(app.conf.broker_consumer, app)
    return app


class Wiring:
    """Connects one job to one Faust app."""

    def __init__(
        self, app: faust.App, job: Job, shipper: Shipper, on_ready: Callable[[], None]
    ) -> None:
        self.app, self.job, self.shipper = app, job, shipper
        self._on_ready = on_ready
        self._handled: dict[tuple[str, int], int] = {}
        self._last_sent: dict[Topic, Any] = {}
        counts_only = "count" in job.settings.roles and job.log is None
        self._hold = BinHold(time.monotonic) if counts_only else None
        self._turn = asyncio.Lock()
        self.failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._prefix = job.settings.run.prefix
        self._by_name = {topic.name(self._prefix): topic for topic in ALL_TOPICS}
        self._topics = {
            topic: app.topic(topic.name(self._prefix), key_serializer="raw", value_serializer="raw")
            for topic in ALL_TOPICS
        }
        for topic in read_topics(job.settings):
            app.agent(self._topics[topic], name=f"slackwater-{topic.kind}", concurrency=1)(
                self._agent(topic)
            )
        app.timer(TICK_S)(self._tick)
        app.timer(LAG_S)(self._measure_lag)
        app.on_rebalance_complete.connect(self._ready, weak=False)
        app.on_partitions_revoked.connect(self._let_go, weak=False)

    async def _ready(self, *_args: Any, **_kwargs: Any) -> None:
        self._on_ready()

    async def _let_go(self, *args: Any, **_kwargs: Any) -> None:
        _app, revoked = args
        for tp in revoked:
            if tp.topic in self._by_name:
                self.job.let_go(self._by_name[tp.topic], tp.partition)

    def _agent(self, topic: Topic) -> Callable[[Any], Any]:
        async def agent(stream: Any) -> None:
            stream = stream.noack()
            async for event in stream.events():
                try:
                    await self._take(topic, stream, event)
                except Exception as error:
                    # Faust would start the agent anew and leave this message out.
                    self._fail(error)
                    await asyncio.Event().wait()

        agent.__name__ = topic.kind
        return agent

    def _check_sent(self, sent: asyncio.Future[Any]) -> None:
        """A message that the broker refused is lost to everybody: end rather than go on."""
        if not sent.cancelled() and (error := sent.exception()) is not None:
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        if not self.failure.done():
            self.failure.set_exception(error)

    async def _take(self, topic: Topic, stream: Any, event: Any) -> None:
        message, value = event.message, event.value
        whole = Message(topic, message.partition, message.offset, value)
        for each in (*await self._left_out(whole), whole):
            # A rebalance cancels agents: what this message gave rise to is sent all the same.
            await asyncio.shield(self._handle(each))
        self._handled[message.topic, message.partition] = message.offset
        if self._hold is not None and topic is REQUESTS:
            counter = self.job.counters.get(message.partition)
            await self._hold.add(stream, event, counter)
        else:
            await self.shipper.add(stream, event, len(value or b"") // 256 + 1)

    async def _left_out(self, message: Message) -> list[Message]:
        """What lies between the message of its partition that was handled last and this one.

        A broker that shows a message before an earlier one is there makes a consumer leave that
        one out, though its producer was told that it is kept.
        """
        offsets = self.job.hole_before(message)
        if not offsets:
            return []
        bootstrap, name = self.job.settings.run.bootstrap, message.topic.name(self._prefix)
        found = await asyncio.to_thread(
            read_again, bootstrap, TopicPartition(name, message.partition), offsets
        )
        return [Message(message.topic, message.partition, o, value) for o, value in found.items()]

    async def _handle(self, message: Message) -> None:
        async with self._turn:
            await self._send(self.job.handle(message))

    async def _tick(self) -> None:
        try:
            async with self._turn:
                await self._send(self.job.tick())
        except Exception as error:
            self._fail(error)

    async def _send(self, outgoing: Iterable[Outgoing]) -> None:
        """Send each as one message; one turn at a time, so what was decided first leaves first."""
        for out in outgoing:
            sent: Any = await self._topics[out.topic].send(
                key=out.key.encode(), value=encode_lines(out.events)
            )
            sent.add_done_callback(self._check_sent)
            self._last_sent[out.topic] = sent

    async def drain(self, timeout_s: float) -> bool:
        """Decide no more, and wait until what was sent has come back to be logged.

        True when it has, or where this process does not log; False when it did not come back
        within `timeout_s`.
        """
        self.job.deciding = False
        if self.job.log is None:
            return True
        try:
            await asyncio.wait_for(self._all_came_back(), timeout_s)
        except (TimeoutError, KafkaError):
            return False
        return True

    async def _all_came_back(self) -> None:
        for future in list(self._last_sent.values()):
            sent = await future
            while self._handled.get((sent.topic, sent.partition), -1) < sent.offset:
                await asyncio.sleep(DRAIN_POLL_S)

    async def _measure_lag(self) -> None:
        """Show how many messages each partition holds that were not handled yet."""
        for tp in self.app.consumer.assignment():
            end = self.app.consumer.highwater(tp)
            handled = self._handled.get((tp.topic, tp.partition))
            if end is not None and handled is not None and tp.topic in self._by_name:
                kind = self._by_name[tp.topic].kind
                labels = {"topic": kind, "partition": str(tp.partition)}
                lag = max(0, end - handled - 1)
                self.job.metrics.set("consumer_lag_events", lag, **labels)
