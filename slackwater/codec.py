"""Bytes to events and back: one event, or newline-delimited JSON, in a Kafka message."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from slackwater.errors import EventError
from slackwater.events import SCHEMA_VERSION, Event
from slackwater.topics import DEADLETTER, Topic

MAX_LINE_BYTES = 1 << 20
# A dead letter holds such a line in base64, which takes a third more.
MAX_DEAD_LETTER_BYTES = 2 * MAX_LINE_BYTES

_UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class _Version(msgspec.Struct, frozen=True):
    v: int = SCHEMA_VERSION


_encoder = msgspec.json.Encoder()
_fields_decoder = msgspec.json.Decoder(dict[str, Any])
_version_decoder = msgspec.json.Decoder(_Version)


@dataclass(frozen=True, slots=True)
class BadLine:
    """One line that is not an event of its topic: its raw bytes and why."""

    raw: bytes
    error: str


@dataclass(slots=True)
class Decoded:
    """What one Kafka message held.

    Attributes:
        events: the events, in the order of their lines.
        bad: the lines that could not be read.
        extras: index into `events` -> the unknown fields of that event, for the run log to keep.
    """

    events: list[Any] = field(default_factory=list)
    bad: list[BadLine] = field(default_factory=list)
    extras: dict[int, dict[str, Any]] = field(default_factory=dict)


def encode(event: msgspec.Struct) -> bytes:
    """One event as one line of JSON, without the newline."""
    return _encoder.encode(event)


def encode_lines(batch: Iterable[msgspec.Struct]) -> bytes:
    """Several events as newline-delimited JSON (a micro-batch)."""
    return _encoder.encode_lines(list(batch))


class Codec:
    """Decoder for the messages of one topic.

    A micro-batch is decoded in one call; only when that fails, or when it holds something beyond
    the schema, are its lines looked at one by one.
    """

    def __init__(self, topic: Topic) -> None:
        self.topic = topic
        self.max_line_bytes = MAX_DEAD_LETTER_BYTES if topic is DEADLETTER else MAX_LINE_BYTES
        self._decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(topic.types)

    def decode(self, raw: bytes | None) -> Decoded:
        """Read a Kafka message's value; never raises, whatever the bytes are."""
        if not raw or len(raw) > self.max_line_bytes:
            return self._decode_each(raw or b"")
        try:
            batch = self._decoder.decode_lines(raw)
        except _UNREADABLE:
            return self._decode_each(raw)
        if any(event.v > SCHEMA_VERSION for event in batch) or not _is_canonical(batch, raw):
            return self._decode_each(raw)
        return Decoded(events=batch)

    def decode_line(self, line: bytes) -> Event:
        """Read one line; raises `EventError` with the reason."""
        if len(line) > self.max_line_bytes:
            msg = f"a line of {len(line)} bytes; at most {self.max_line_bytes} are read"
            raise EventError(msg)
        try:
            event: Event = self._decoder.decode(line)
        except _UNREADABLE as error:
            _refuse_newer(_version_of(line))
            raise EventError(_reason(error)) from None
        _refuse_newer(event.v)
        return event

    def _decode_each(self, raw: bytes) -> Decoded:
        decoded = Decoded()
        for line in raw.split(b"\n"):
            if not line.strip():
                continue
            try:
                event = self.decode_line(line)
                extra = _unknown_fields(event, line)
            except EventError as error:
                decoded.bad.append(BadLine(line, str(error)))
                continue
            if extra:
                decoded.extras[len(decoded.events)] = extra
            decoded.events.append(event)
        if not decoded.events and not decoded.bad:
            decoded.bad.append(BadLine(raw, "the message is empty"))
        return decoded


def _is_canonical(batch: Sequence[msgspec.Struct], raw: bytes) -> bool:
    """True when re-encoding gives the same bytes: then there can be no unknown field."""
    return bool(batch) and _encoder.encode_lines(batch).rstrip(b"\n") == raw.rstrip(b"\n")


def _unknown_fields(event: Event, line: bytes) -> dict[str, Any]:
    """The fields beyond the schema; the typed decoder skips them without looking inside."""
    try:
        fields = _fields_decoder.decode(line)
    except _UNREADABLE as error:
        msg = f"an unknown field cannot be read: {_reason(error)}"
        raise EventError(msg) from None
    known = event.__struct_fields__
    return {k: v for k, v in fields.items() if k not in known and k != "type"}


def _version_of(line: bytes) -> int:
    """The schema version that a line claims, so that a newer shape is not taken for a mistake."""
    try:
        return _version_decoder.decode(line).v
    except _UNREADABLE:
        return SCHEMA_VERSION


def _refuse_newer(version: int) -> None:
    if version > SCHEMA_VERSION:
        msg = f"schema version {version}; this reader knows up to {SCHEMA_VERSION}"
        raise EventError(msg)


def _reason(error: Exception) -> str:
    return str(error) or type(error).__name__
