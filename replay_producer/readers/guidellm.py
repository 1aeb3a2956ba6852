"""guidellm reports: JSON with `benchmarks[].requests.{successful,incomplete,errored}[]`.

The arrival is `request_start_time` (seconds since the epoch) and the end is a duration after it
(`request_latency`): never the difference of two fields that may be of different clocks.
Requests still open at the end are `aborted`.
"""

import math
from collections.abc import Iterator
from typing import Any

from replay_producer.readers.file import TraceFile
from replay_producer.readers.format import Format
from replay_producer.rows import Row, RowError, tokens
from replay_producer.times import duration_s, time_us
from slackwater.clock import US_PER_S
from slackwater.errors import InputError

STATUS = {"successful": "ok", "incomplete": "aborted", "errored": "error"}
S_PER_MS = 0.001


def _recognises(file: TraceFile) -> bool:
    return not file.header and isinstance(file.document.get("benchmarks"), list)


def _rows(file: TraceFile) -> Iterator[tuple[int, Any]]:
    benchmarks = file.document.get("benchmarks")
    if not isinstance(benchmarks, list):
        msg = f"{file.path}: no list `benchmarks`; is it a guidellm JSON report?"
        raise InputError(msg)
    position = 0
    for benchmark in benchmarks:
        requests = benchmark.get("requests") if isinstance(benchmark, dict) else None
        if not isinstance(requests, dict):
            msg = f"{file.path}: a benchmark without `requests`; export the full JSON report"
            raise InputError(msg)
        for group, status in STATUS.items():
            for request in requests.get(group) or ():
                position += 1
                yield position, (status, request)


def _parse(raw: tuple[str, Any]) -> Row:
    status, request = raw
    if not isinstance(request, dict):
        raise RowError(request, "the request", "a JSON object")
    latency, ttft = request.get("request_latency"), request.get("time_to_first_token_ms")
    return Row(
        time_us=time_us(_start(request), "request_start_time", US_PER_S),
        prompt_tokens=tokens(request.get("prompt_tokens"), "prompt_tokens"),
        output_tokens=tokens(request.get("output_tokens"), "output_tokens"),
        e2e_s=math.nan if latency is None else duration_s(latency, "request_latency"),
        ttft_s=math.nan if ttft is None else duration_s(ttft, "time_to_first_token_ms", S_PER_MS),
        status=status,
    )


def _start(request: dict[str, Any]) -> object:
    # Reports before 0.4 call it `start_time`.
    return request.get("request_start_time", request.get("start_time"))


GUIDELLM = Format(
    name="guidellm",
    title="guidellm report, JSON",
    unit="request",
    recognises=_recognises,
    rows=_rows,
    parse=_parse,
)
