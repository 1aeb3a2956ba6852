"""Azure LLM inference traces: CSV with dates of seven fractional digits, one clock, UTC.

Columns `TIMESTAMP,ContextTokens,GeneratedTokens`; the files of 2025 add `NumImages`, which has
no counterpart here. The last line may lack its newline.
"""

from replay_producer.readers.file import CsvRow
from replay_producer.readers.format import Format
from replay_producer.rows import Row, tokens
from replay_producer.times import datetime_us

COLUMNS = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")


def _parse(raw: CsvRow) -> Row:
    row = raw.by_name()
    return Row(
        time_us=datetime_us(row["TIMESTAMP"], "TIMESTAMP"),
        prompt_tokens=tokens(row["ContextTokens"], "ContextTokens"),
        output_tokens=tokens(row["GeneratedTokens"], "GeneratedTokens"),
    )


AZURE = Format(
    name="azure",
    title="Azure LLM inference trace, CSV",
    unit="line",
    recognises=lambda file: set(COLUMNS) <= set(file.header),
    rows=lambda file: file.csv_rows(*COLUMNS),
    parse=_parse,
)
