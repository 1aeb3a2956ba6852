"""One trace file, opened safely: text, CSV rows, JSON lines or one JSON document."""

import csv
import hashlib
import json
from collections.abc import Iterator
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

from replay_producer.rows import RowError
from slackwater.errors import InputError

PROBE_LINES = 20

_line_decoder = msgspec.json.Decoder(float_hook=Decimal)


class TraceFile:
    """A readable text file; raises `InputError` when it is missing, a directory or binary."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.sha256 = _digest(path)

    def lines(self) -> Iterator[tuple[int, str]]:
        """Number (from 1) and text of each line that is not blank, without its line end."""
        for position, line in enumerate(self._text(), start=1):
            if line.strip():
                yield position, line.rstrip("\r\n")

    @cached_property
    def header(self) -> tuple[str, ...]:
        """The first line as CSV column names; empty when it is JSON."""
        first = next(self.lines(), (0, ""))[1]
        if first.lstrip().startswith(("{", "[")):
            return ()
        return tuple(name.strip() for name in next(csv.reader([first]), []))

    @cached_property
    def objects(self) -> tuple[dict[str, Any], ...]:
        """JSON objects among the first lines; empty when the file is not JSON lines."""
        found = []
        for _, line in zip(range(PROBE_LINES), (text for _, text in self.lines()), strict=False):
            try:
                found.append(json_object(line) if line.startswith("{") else None)
            except RowError:
                continue
        return tuple(item for item in found if item is not None)

    @cached_property
    def document(self) -> dict[str, Any]:
        """The whole file as one JSON object; raises `InputError` when it is not."""
        try:
            content = json.loads("".join(self._text()), parse_float=Decimal)
        except (json.JSONDecodeError, RecursionError) as error:
            msg = f"{self.path}: not complete JSON ({error}); is it cut off? export it again"
            raise InputError(msg) from None
        if not isinstance(content, dict):
            msg = f"{self.path}: JSON {type(content).__name__}; it must be an object {{...}}"
            raise InputError(msg)
        return content

    def csv_rows(self, *needed: str) -> Iterator[tuple[int, Any]]:
        """Line number and fields by column name; raises `InputError` when a column is missing."""
        missing = [name for name in needed if name not in self.header]
        if missing:
            msg = (
                f"{self.path}: no column {', '.join(missing)} (it has {', '.join(self.header)}); "
                "correct --format or the file"
            )
            raise InputError(msg)
        reader = csv.reader(self._text())
        try:
            next(reader)
            for fields in reader:
                if fields:
                    yield reader.line_num, CsvRow(self.header, fields)
        except csv.Error as error:
            msg = f"{self.path}: line {reader.line_num} is not CSV: {error}"
            raise InputError(msg) from None

    def _text(self) -> Iterator[str]:
        try:
            with self.path.open(encoding="utf-8-sig", newline="") as handle:
                yield from handle
        except UnicodeDecodeError:
            msg = f"{self.path}: not UTF-8 text; unpack or convert it first"
            raise InputError(msg) from None
        except OSError as error:
            msg = f"{self.path}: cannot be read: {error.strerror}"
            raise InputError(msg) from None


class CsvRow:
    """Fields of one CSV line by column name; a line with too few or too many is a `RowError`."""

    def __init__(self, header: tuple[str, ...], fields: list[str]) -> None:
        self._header = header
        self._fields = fields

    def by_name(self) -> dict[str, str]:
        """Column name to text; raises `RowError` when fields are missing or too many."""
        if len(self._fields) != len(self._header):
            raise RowError(",".join(self._fields), "the row", f"{len(self._header)} fields")
        return dict(zip(self._header, self._fields, strict=True))


def json_object(line: str) -> dict[str, Any]:
    """One line as a JSON object with exact decimals; raises `RowError`."""
    try:
        item = _line_decoder.decode(line)
    except (msgspec.MsgspecError, RecursionError, ValueError, ArithmeticError):
        raise RowError(line, "the row", "a complete JSON object") from None
    if not isinstance(item, dict):
        raise RowError(line, "the row", "a JSON object")
    return item


def _digest(path: Path) -> str:
    digest = hashlib.sha256()
    if path.exists() and not (path.is_file() or path.is_dir()):
        msg = f"{path}: not a regular file; a trace is read twice, so write it to a file first"
        raise InputError(msg)
    try:
        with path.open("rb") as handle:
            while chunk := handle.read(1 << 20):
                if b"\0" in chunk:
                    msg = f"{path}: a binary file; a trace is CSV or JSON text: unpack it first"
                    raise InputError(msg)
                digest.update(chunk)
    except FileNotFoundError:
        msg = f"{path}: no such file; give the path of a trace, or --regime NAME to make one"
        raise InputError(msg) from None
    except IsADirectoryError:
        msg = f"{path}: a directory; give one file in it"
        raise InputError(msg) from None
    except OSError as error:
        msg = f"{path}: cannot be read: {error.strerror}; check its permissions"
        raise InputError(msg) from None
    return digest.hexdigest()
