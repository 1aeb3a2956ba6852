"""A recording of our own events, replayed as it was: any types, at its own times, on any topic.

All times of an event (every field that ends in `_us`) are shifted by one whole number of
microseconds, so that the first event, rounded down to a whole second, lands on the run clock's
origin. The run id becomes the run's own. All else stays, fields this version does not know
included. Merges do not slow what was recorded.
"""

from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any, get_args

import msgspec
import numpy as np

from replay_producer.readers.events import event_type
from replay_producer.readers.file import TraceFile
from replay_producer.rows import OnBad
from replay_producer.source import Message
from replay_producer.trace import Ints
from slackwater.clock import US_PER_S
from slackwater.codec import Codec
from slackwater.errors import EventError, InputError
from slackwater.topics import ALL_TOPICS, DEADLETTER, LEARNERS, REQUESTS, Topic

_KEY_FIELD = {REQUESTS: "sidecar", LEARNERS: "learner", DEADLETTER: "topic"}


def _topics_by_type() -> dict[str, Topic]:
    found = {}
    for topic in ALL_TOPICS:
        for kind in get_args(topic.types) or (topic.types,):
            found[str(kind.__struct_config__.tag)] = topic
    return found


TOPIC_OF = _topics_by_type()
_CODECS = {topic: Codec(topic) for topic in ALL_TOPICS}


class Recording:
    """The events of one file, in order of `at_us`.

    Attributes:
        name: the file's name.
        sha256: hex digest of the file.
        at_us: event times as recorded, shape (n,), ascending.
        notes: what a person should know about the reading.
    """

    def __init__(
        self, path: Path, sha256: str, events: list[tuple[int, Topic, str]], notes: tuple[str, ...]
    ) -> None:
        self.name = path.name
        self.sha256 = sha256
        self.notes = notes
        self._events = events
        self.at_us: Ints = np.array([at_us for at_us, _, _ in events], np.int64)

    def __len__(self) -> int:
        return len(self._events)

    @property
    def duration_us(self) -> int:
        """From the whole second in which the first event lies to the last event."""
        return int(self.at_us[-1]) - self.origin_us

    @property
    def origin_us(self) -> int:
        """The first event's time as recorded, rounded down to a whole second."""
        return int(self.at_us[0]) // US_PER_S * US_PER_S

    def line(self, i: int) -> tuple[Topic, str]:
        """Topic and JSON text of the i-th event."""
        _, topic, text = self._events[i]
        return topic, text

    def counts(self) -> dict[str, int]:
        """Event type -> how many."""
        kinds = Counter(event_type(text) or "" for _, _, text in self._events)
        return dict(sorted(kinds.items()))


def read_recording(path: Path, on_bad: OnBad = "stop") -> Recording:
    """Read a recording; raises `InputError` naming the line that cannot be used.

    With `on_bad="skip"` such lines are left out, counted and noted.
    """
    file = TraceFile(path)
    events, bad, first_bad = [], 0, ""
    for position, text in file.lines():
        try:
            events.append(_event(text))
        except EventError as error:
            bad, first_bad = bad + 1, first_bad or f"line {position}: {error}"
    if bad and on_bad == "stop":
        msg = f"{path}: {first_bad} ({bad} lines cannot be used); correct it or use --skip-bad"
        raise InputError(msg)
    if not events:
        msg = f"{path}: no event in it; a recording needs at least one"
        raise InputError(msg)
    notes = [f"{bad} lines left out, first {first_bad}"] if bad else []
    if any(b[0] < a[0] for a, b in pairwise(events)):
        events.sort(key=lambda event: event[0])
        notes.append("events stood out of order: sorted by at_us")
    return Recording(path, file.sha256, events, tuple(notes))


def _event(text: str) -> tuple[int, Topic, str]:
    kind = event_type(text)
    topic = TOPIC_OF.get(kind or "")
    if topic is None:
        msg = f"type is {kind!r}; it must be one of {', '.join(TOPIC_OF)}"
        raise EventError(msg)
    return _CODECS[topic].decode_line(text.encode()).at_us, topic, text


class RecordingSource:
    """A recording as a replayable source.

    Args:
        recording: the events.
        origin_us: event time at which the recording's first whole second is placed.
        run_id: replaces the recorded one.
        duration_us: events later than this after the origin are left out; None keeps all.
    """

    def __init__(
        self, recording: Recording, origin_us: int, run_id: str, duration_us: int | None = None
    ) -> None:
        self._recording = recording
        self._shift_us = origin_us - recording.origin_us
        self._run_id = run_id
        self._times = recording.at_us + self._shift_us
        end_us = np.inf if duration_us is None else origin_us + duration_us
        self._end = int(np.searchsorted(self._times, end_us, side="left"))
        self.replayed = 0

    def next_us(self) -> int | None:
        """Event time of the next event; None when all were returned."""
        return int(self._times[self.replayed]) if self.replayed < self._end else None

    def advance(self, to_us: int) -> list[Message]:
        """All events with `at_us` up to `to_us` that were not returned before."""
        stop = min(self._end, int(np.searchsorted(self._times, to_us, side="right")))
        messages = [self._message(i) for i in range(self.replayed, stop)]
        self.replayed = max(self.replayed, stop)
        return messages

    def set_merging(self, at_us: int, on: bool) -> None:
        """Nothing: what was recorded stays as it was."""

    def _message(self, i: int) -> Message:
        topic, text = self._recording.line(i)
        fields = _shifted(msgspec.json.decode(text), self._shift_us)
        fields["run_id"] = self._run_id
        key = fields[_KEY_FIELD.get(topic, "group")]
        return Message(topic, key, fields["at_us"], msgspec.Raw(msgspec.json.encode(fields)))


def _shifted(value: Any, shift_us: int, is_time: bool = False) -> Any:
    if isinstance(value, dict):
        return {k: _shifted(v, shift_us, is_time or k.endswith("_us")) for k, v in value.items()}
    if isinstance(value, list):
        return [_shifted(item, shift_us, is_time) for item in value]
    return value + shift_us if is_time and type(value) is int else value
