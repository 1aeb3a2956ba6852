"""Our own JSON lines: the `request` events of the schema, as a trace.

Arrival is `arrival_us`. The end of a request is `e2e_s` after it or, where a request did not end
well and has no latency, `at_us`. Other events of the file are passed over.
"""

import math
from collections.abc import Iterator
from typing import Any

import msgspec

from replay_producer.readers.file import TraceFile
from replay_producer.readers.format import Format
from replay_producer.rows import Row, RowError
from replay_producer.trace import UNKNOWN_TOKENS
from slackwater.clock import US_PER_S
from slackwater.codec import Codec
from slackwater.errors import EventError
from slackwater.events import Request
from slackwater.topics import REQUESTS


class Tagged(msgspec.Struct):
    """The type of an event, before anything else of it is looked at."""

    type: str | None = None


_tag_decoder = msgspec.json.Decoder(Tagged)
_codec = Codec(REQUESTS)


def event_type(line: str) -> str | None:
    """The `type` of a JSON line, None where it has none or is not an object."""
    try:
        return _tag_decoder.decode(line).type
    except (msgspec.MsgspecError, RecursionError):
        return None


def _rows(file: TraceFile) -> Iterator[tuple[int, Any]]:
    return ((i, line) for i, line in file.lines() if event_type(line) in (None, "request"))


def _parse(raw: str) -> Row:
    try:
        event = _codec.decode_line(raw.encode())
    except EventError as error:
        raise RowError(raw, "the row", f"a `request` event ({error})") from None
    if not isinstance(event, Request):
        raise RowError(type(event).__name__, "the event", "a Request")
    if event.at_us < event.arrival_us:
        raise RowError(event.at_us, "at_us", f"at or after arrival_us {event.arrival_us}")
    return Row(
        time_us=event.arrival_us,
        prompt_tokens=_known(event.prompt_tokens),
        output_tokens=_known(event.output_tokens),
        e2e_s=_duration(event),
        ttft_s=math.nan if event.ttft_s is None else event.ttft_s,
        status=event.status,
        sidecar=event.sidecar,
        tenant=event.tenant,
    )


def _known(count: int | None) -> int:
    return UNKNOWN_TOKENS if count is None else count


def _duration(event: Request) -> float:
    if event.e2e_s is not None:
        return event.e2e_s
    return math.nan if event.status == "ok" else (event.at_us - event.arrival_us) / US_PER_S


SLACKWATER = Format(
    name="slackwater",
    title="`request` events of this project, JSON lines",
    unit="line",
    recognises=lambda file: any("type" in row and "at_us" in row for row in file.objects),
    rows=_rows,
    parse=_parse,
)
