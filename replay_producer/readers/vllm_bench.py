"""Results of `vllm bench serve --save-result --save-detailed`: one JSON object of arrays.

`start_times` are of a monotonic clock, so the trace has no epoch origin and they are never
compared with the wall-clock `date` beside them. A request's end is its own start plus time to
first token plus the gaps between tokens.
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

ARRAYS = ("start_times", "input_lens", "output_lens", "ttfts", "itls", "errors")


def _recognises(file: TraceFile) -> bool:
    return not file.header and {"completed", "request_throughput"} <= file.document.keys()


def _rows(file: TraceFile) -> Iterator[tuple[int, Any]]:
    arrays = {name: file.document.get(name) for name in ARRAYS}
    starts = arrays["start_times"]
    if not isinstance(starts, list):
        msg = (
            f"{file.path}: no start_times; `vllm bench serve` writes the requests "
            "only with --save-detailed: run it again with that option"
        )
        raise InputError(msg)
    present = {name: values for name, values in arrays.items() if isinstance(values, list)}
    uneven = [name for name, values in present.items() if len(values) != len(starts)]
    if uneven:
        lengths = ", ".join(f"{name} {len(present[name])}" for name in ["start_times", *uneven])
        msg = f"{file.path}: arrays of different lengths ({lengths}); is the file complete?"
        raise InputError(msg)
    for i in range(len(starts)):
        yield i + 1, {name: values[i] for name, values in present.items()}


def _parse(raw: dict[str, Any]) -> Row:
    failed = bool(raw.get("errors"))
    row = Row(
        time_us=time_us(raw["start_times"], "start_times", US_PER_S),
        prompt_tokens=tokens(raw.get("input_lens"), "input_lens"),
        output_tokens=tokens(raw.get("output_lens"), "output_lens"),
        status="error" if failed else "ok",
    )
    # A failed request's ttft is written as 0.0, which is not a latency.
    if failed or "ttfts" not in raw:
        return row
    ttft_s = duration_s(raw["ttfts"], "ttfts")
    return row._replace(ttft_s=ttft_s, e2e_s=_end_s(ttft_s, raw.get("itls")))


def _end_s(ttft_s: float, gaps: Any) -> float:
    if gaps is None:
        return math.nan
    if not isinstance(gaps, list):
        raise RowError(gaps, "itls", "a list of seconds between tokens")
    return ttft_s + math.fsum(duration_s(gap, "itls") for gap in gaps)


VLLM_BENCH = Format(
    name="vllm-bench",
    title="result of `vllm bench serve --save-detailed`, JSON",
    unit="request",
    recognises=_recognises,
    rows=_rows,
    parse=_parse,
)
