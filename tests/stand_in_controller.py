"""A stand-in controller: commands on the topics of a real broker, and remembers the answers."""

import time
from collections.abc import Callable
from typing import Any

from slackwater.codec import Codec
from slackwater.events import MergeCommand
from slackwater.settings import RunSettings
from slackwater.topics import COMMANDS, LEARNERS, MERGES
from slackwater.transport import BatchProducer, reader

PATIENCE_S = 100.0


class Controller:
    """Sends commands, and remembers all that learners said."""

    def __init__(self, settings: RunSettings) -> None:
        self.settings = settings
        self._producer = BatchProducer(settings.bootstrap, settings.prefix)
        self._consumer = reader(
            settings.bootstrap, (LEARNERS, MERGES), settings.prefix, from_start=True
        )
        self.said: list[Any] = []

    def send(self, event: Any) -> None:
        self._producer.send(COMMANDS, self.settings.group, event)
        assert self._producer.flush()

    def merge(
        self, merge_id: str, at_step: int | None, participants: list[str], **other: Any
    ) -> None:
        now_us = time.time_ns() // 1000
        fields: dict[str, Any] = {
            "run_id": self.settings.run_id,
            "group": self.settings.group,
            "deadline_us": now_us + 60_000_000,
            **other,
        }
        self.send(
            MergeCommand(
                at_us=now_us,
                merge_id=merge_id,
                at_step=at_step,
                window_s=8.0,
                reason="score",
                participants=participants,
                **fields,
            )
        )

    def read(self) -> list[Any]:
        for partition, records in self._consumer.poll(timeout_ms=20).items():
            topic = MERGES if partition.topic == MERGES.name(self.settings.prefix) else LEARNERS
            for record in records:
                self.said += Codec(topic).decode(record.value).events
        return self.said

    def hears(self, wanted: Callable[[list[Any]], Any]) -> list[Any]:
        """All that was said, once `wanted` is true of it."""
        deadline = time.monotonic() + PATIENCE_S
        while not wanted(self.read()):
            if time.monotonic() > deadline:
                raise AssertionError([e for e in self.said if e.__class__.__name__ != "Heartbeat"])
        return self.said

    def close(self) -> None:
        self._producer.close()
        self._consumer.close()
