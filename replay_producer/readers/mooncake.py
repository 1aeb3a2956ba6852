"""Mooncake traces: JSON lines, `timestamp` in milliseconds, `input_length`, `output_length`."""

from replay_producer.readers.file import TraceFile, json_object
from replay_producer.readers.format import Format
from replay_producer.rows import Row, tokens
from replay_producer.times import time_us

US_PER_MS = 1000


def _recognises(file: TraceFile) -> bool:
    # Any line will do: a file whose first row lacks its time is still of this format.
    return any("type" not in row and _KEYS & row.keys() for row in file.objects)


_KEYS = {"timestamp", "input_length", "output_length"}


def _parse(raw: str) -> Row:
    row = json_object(raw)
    return Row(
        time_us=time_us(row.get("timestamp"), "timestamp", US_PER_MS),
        prompt_tokens=tokens(row.get("input_length"), "input_length"),
        output_tokens=tokens(row.get("output_length"), "output_length"),
    )


MOONCAKE = Format(
    name="mooncake",
    title="Mooncake trace, JSON lines",
    unit="line",
    recognises=_recognises,
    rows=lambda file: file.lines(),
    parse=_parse,
)
