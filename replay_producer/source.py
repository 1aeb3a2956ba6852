"""What can be replayed: something that yields its events up to a given event time, in order."""

from typing import Any, NamedTuple, Protocol

from slackwater.topics import Topic


class Message(NamedTuple):
    """One event on its way: where it goes, under which key, and its time.

    `event` is a struct of the schema, or `msgspec.Raw` where its JSON is to stay as it is.
    """

    topic: Topic
    key: str
    at_us: int
    event: Any


class Source(Protocol):
    """A replayable stream of events; calls must not go back in event time."""

    def next_us(self) -> int | None:
        """Event time of the next thing that happens; None when nothing more will."""

    def advance(self, to_us: int) -> list[Message]:
        """All events with `at_us` up to `to_us` that were not returned before, in that order."""

    def set_merging(self, at_us: int, on: bool) -> None:
        """A merge begins or ends to slow the sidecars at `at_us`."""
