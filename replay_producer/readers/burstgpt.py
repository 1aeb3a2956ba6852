"""BurstGPT traces: CSV with times in seconds; newer files add session and elapsed time.

A request with no response token failed: it keeps its place with status `error`. The tenant is
the model asked for. `Elapsed time` is in seconds from request to end.
"""

import math

from replay_producer.readers.file import CsvRow
from replay_producer.readers.format import Format
from replay_producer.rows import Row, name, tokens
from replay_producer.times import duration_s, time_us
from slackwater.clock import US_PER_S

COLUMNS = ("Timestamp", "Request tokens", "Response tokens")


def _parse(raw: CsvRow) -> Row:
    row = raw.by_name()
    elapsed = row.get("Elapsed time", "")
    response = tokens(row["Response tokens"], "Response tokens")
    return Row(
        time_us=time_us(row["Timestamp"], "Timestamp", US_PER_S),
        prompt_tokens=tokens(row["Request tokens"], "Request tokens"),
        output_tokens=response,
        e2e_s=duration_s(elapsed, "Elapsed time") if elapsed else math.nan,
        status="error" if response == 0 else "ok",
        tenant=name(row.get("Model"), "Model"),
    )


BURSTGPT = Format(
    name="burstgpt",
    title="BurstGPT trace, CSV",
    unit="line",
    recognises=lambda file: set(COLUMNS) <= set(file.header),
    rows=lambda file: file.csv_rows(*COLUMNS),
    parse=_parse,
)
