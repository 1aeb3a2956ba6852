"""Rows for people, in their units, and for programs."""

import csv
import datetime
import decimal
import json
import math
import sys
from typing import TYPE_CHECKING, Any

from slackwater.clock import US_PER_S

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa
    from rich.console import Console
    from rich.table import Table

    from slackwater.livequery import Result
    from sql import Script

UNKNOWN = "-"
_LONGEST_CELL = 80
_SIDE_BY_SIDE = 6
_NO_WIDTH = 10_000


def print_names(listed: "Mapping[str, Sequence[Script]]", *, as_json: bool) -> None:
    """What can be asked by name, each with its question, under headings."""
    if as_json:
        rows = [
            {"name": s.name, "kind": s.folder, "group": group, "question": s.question}
            for group, scripts in listed.items()
            for s in scripts
        ]
        _write(json.dumps(rows))
        return
    from rich.table import Table

    console = console_for_rows()
    width = max(len(script.name) for scripts in listed.values() for script in scripts)
    for group, scripts in listed.items():
        table = Table(box=None, show_header=False, pad_edge=False)
        table.add_column(min_width=width + 2, no_wrap=True)
        for script in scripts:
            table.add_row(f"  {script.name}", script.question)
        console.print(f"{group}:", table, "", sep="\n")
    console.print("slackwater sql NAME asks it; slackwater sql --schema NAME explains its columns")


def print_table(result: "Result") -> None:
    """A table headed by the names of the columns, and a note when there are more rows.

    Where the screen is too narrow for a few rows, they stand side by side as columns.
    """
    rows = result.table.to_pylist(maps_as_pydicts="lossy")
    table = _upright(result.table.schema, rows)
    console = console_for_rows()
    unbounded = console.options.update(width=_NO_WIDTH)
    if len(rows) <= _SIDE_BY_SIDE and (
        console.measure(table, options=unbounded).maximum > console.width
    ):
        table = _turned(result.table.column_names, rows)
    console.print(table)
    if result.more:
        sys.stderr.write(f"the first {len(rows)} rows; --limit N shows more\n")
    elif not rows:
        sys.stderr.write("no rows\n")


def _upright(schema: "pa.Schema", rows: "list[dict[str, Any]]") -> "Table":
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for field in schema:
        table.add_column(field.name, justify="right" if _is_number(field.type) else "left")
    for row in rows:
        table.add_row(*(cell(name, value) for name, value in row.items()))
    return table


def _turned(names: "list[str]", rows: "list[dict[str, Any]]") -> "Table":
    from rich.table import Table

    table = Table(box=None, pad_edge=False, show_header=False)
    for name in names:
        table.add_row(name, *(cell(name, row[name]) for row in rows))
    return table


def print_json(table: "pa.Table") -> None:
    """A JSON array with one object a row; unknown is null, times are ISO 8601 in UTC."""
    rows = table.to_pylist(maps_as_pydicts="lossy")
    _write(json.dumps([_finite(row) for row in rows], default=_plain))


def print_csv(table: "pa.Table") -> None:
    """CSV with a header; unknown is empty, what is nested is JSON."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(table.column_names)
    for row in table.to_pylist(maps_as_pydicts="lossy"):
        writer.writerow([_csv_cell(value) for value in row.values()])


def cell(name: str, value: Any) -> str:
    """A value as people read it: bytes and shares scaled, times as dates, unknown as `-`."""
    if value is None:
        return UNKNOWN
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, decimal.Decimal):
        value = _plain(value)
    if isinstance(value, int | float):
        return _number(name, value)
    if isinstance(value, datetime.datetime):
        return value.isoformat(sep=" ", timespec="milliseconds")
    text = value if isinstance(value, str) else json.dumps(value, default=_plain)
    return text if len(text) <= _LONGEST_CELL else text[: _LONGEST_CELL - 3] + "..."


def _number(name: str, value: float) -> str:
    if name.endswith("_us"):
        return str(_utc(int(value)))
    if "bytes" in name and "per_parameter" not in name:
        return _bytes(value) + ("/s" if name.endswith("_s") else "")
    if name.endswith("_rate") or name.startswith("share_"):
        return f"{100 * value:.2f} %"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.3f}" if 0.001 <= abs(value) < 1e9 or value == 0 else f"{value:.3g}"


def _bytes(value: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if abs(value) < 1000:
            return f"{value:,.0f} {unit}" if unit == "B" else f"{value:,.1f} {unit}"
        value /= 1000
    return f"{value:,.1f} TB"


def _utc(us: int) -> datetime.datetime:
    epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    return (epoch + datetime.timedelta(seconds=us // US_PER_S, microseconds=us % US_PER_S)).replace(
        tzinfo=None
    )


def _is_number(kind: "pa.DataType") -> bool:
    import pyarrow as pa

    return bool(
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    )


def _csv_cell(value: Any) -> Any:
    if isinstance(value, dict | list):
        return json.dumps(_finite(value), default=_plain)
    return (
        _plain(value) if isinstance(value, datetime.datetime | bytes | decimal.Decimal) else value
    )


def _finite(value: Any) -> Any:
    """JSON has no NaN and no infinity: both are unknown."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {k: _finite(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_finite(v) for v in value]
    return value


def _plain(value: Any) -> Any:
    """What JSON has no type for: times as ISO 8601, bytes as text, decimals as numbers."""
    if isinstance(value, datetime.datetime | datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, bytes):
        return value.decode(errors="backslashreplace")
    if isinstance(value, datetime.timedelta):
        return value.total_seconds()
    if isinstance(value, decimal.Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    return str(value)


def console_for_rows() -> "Console":
    """Where rows are printed: nothing in them is markup."""
    from rich.console import Console

    # A pipe has no width: nothing is cut that another program may look for.
    width = None if sys.stdout.isatty() else _NO_WIDTH
    return Console(width=width, highlight=False, markup=False, emoji=False)


def _write(text: str) -> None:
    sys.stdout.write(text + "\n")
