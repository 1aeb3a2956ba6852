"""AIPerf per-request exports: JSON lines with `metadata` (nanoseconds) and `metrics` (values).

The latency is AIPerf's own `request_latency` where it is there, else end minus start, and only
when both are of one clock: a wall-clock start and a monotonic end are refused.
"""

import math
from collections.abc import Mapping
from typing import Any

from replay_producer.readers.file import json_object
from replay_producer.readers.format import Format
from replay_producer.rows import Row, RowError, tokens
from replay_producer.times import duration_s, time_from_ns
from slackwater.clock import US_PER_S
from slackwater.events import MIN_TIME_US

SECONDS_PER_UNIT = {"s": 1.0, "sec": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}


def _parse(raw: str) -> Row:
    record = json_object(raw)
    metadata = _mapping(record, "metadata")
    metrics = _mapping(record, "metrics")
    start_us = time_from_ns(metadata.get("request_start_ns"), "metadata.request_start_ns")
    latency_s = _seconds(metrics, "request_latency")
    return Row(
        time_us=start_us,
        prompt_tokens=_count(metrics, "input_sequence_length"),
        output_tokens=_count(metrics, "output_sequence_length"),
        e2e_s=_until_end(start_us, metadata) if math.isnan(latency_s) else latency_s,
        ttft_s=_seconds(metrics, "time_to_first_token"),
        status=_status(record, metadata),
    )


def _status(record: Mapping[str, Any], metadata: Mapping[str, Any]) -> str:
    if metadata.get("was_cancelled"):
        return "aborted"
    return "error" if record.get("error") else "ok"


def _until_end(start_us: int, metadata: Mapping[str, Any]) -> float:
    end = metadata.get("request_end_ns")
    if end is None:
        return math.nan
    end_us = time_from_ns(end, "metadata.request_end_ns")
    if (end_us >= MIN_TIME_US) != (start_us >= MIN_TIME_US):
        raise RowError(end, "metadata.request_end_ns", "of the same clock as request_start_ns")
    if end_us < start_us:
        raise RowError(end, "metadata.request_end_ns", "at or after request_start_ns")
    return (end_us - start_us) / US_PER_S


def _seconds(metrics: Mapping[str, Any], name: str) -> float:
    entry = _mapping(metrics, name)
    if entry.get("value") is None:
        return math.nan
    unit = entry.get("unit", "ms")
    if unit not in SECONDS_PER_UNIT:
        raise RowError(unit, f"metrics.{name}.unit", f"one of {', '.join(SECONDS_PER_UNIT)}")
    return duration_s(entry["value"], f"metrics.{name}.value", SECONDS_PER_UNIT[unit])


def _count(metrics: Mapping[str, Any], name: str) -> int:
    return tokens(_mapping(metrics, name).get("value"), f"metrics.{name}.value")


def _mapping(parent: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    entry = parent.get(name)
    if entry is None:
        return {}
    if not isinstance(entry, dict):
        raise RowError(entry, name, "a JSON object")
    return entry


AIPERF = Format(
    name="aiperf",
    title="AIPerf per-request export, JSON lines",
    unit="line",
    recognises=lambda file: any({"metadata", "metrics"} <= row.keys() for row in file.objects),
    rows=lambda file: file.lines(),
    parse=_parse,
)
